"""Experiments are done again by the API as on the page: seen first, made once."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from experiments.models import Experiment, StagedImage
from tests.dashboard.api.requests_by_token import get, log_in
from tests.experiments.reproductions.test_done_again import Study
from tests.factories import ExperimentFactory, UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def study() -> Study:
    return Study()


def read(client: Client, study: Study, query: str = "", status: int = 200) -> Any:
    path = f"experiments/{study.source.pk}/reproduction{query}"
    return get(client, path, log_in(study.owner), status)


def post(client: Client, study: Study, body: Any, status: int, end: str = "reproduce") -> Any:
    answer = client.post(
        f"/api/v1/experiments/{study.source.pk}/{end}",
        body,
        content_type="application/json",
        headers=log_in(study.owner, "experiments"),
    )
    assert answer.status_code == status, answer.content
    return answer.json()


def test_what_was_seen_is_launched_once(client: Client, study: Study) -> None:
    proposal = read(client, study)
    assert (proposal["may_launch"], proposal["cluster"]) == (True, study.cluster.pk)
    assert [row["is_baseline"] for row in proposal["environments"]] == [True, False]
    assert proposal["plan"]["runs"] > 0
    body = {"seen": proposal["seen"], "launch": True}
    made = post(client, study, body, 201)
    assert (made["is_draft"], made["runs"]) == (False, {"planned": proposal["plan"]["runs"]})
    assert post(client, study, body, 200)["id"] == made["id"]
    assert Experiment.objects.filter(reproduces=study.source).count() == 1


def test_what_was_not_seen_is_not_made(client: Client, study: Study) -> None:
    assert "Read the reproduction anew" in post(client, study, {"seen": "0" * 64}, 409)["detail"]
    post(client, study, {}, 422)
    assert not Experiment.objects.filter(reproduces=study.source).exists()


def test_what_forbids_it_is_listed_and_nothing_is_made(client: Client, study: Study) -> None:
    second = study.second_cluster(runtime="udocker")
    proposal = read(client, study, f"?cluster={second.pk}")
    assert not proposal["may_launch"]
    assert any("which second does not have" in text for text in proposal["refusals"])
    body = {"cluster": second.pk, "seen": proposal["seen"]}
    problems = post(client, study, body, 409)["problems"]
    assert [row["message"] for row in problems] == proposal["refusals"]
    assert not Experiment.objects.filter(reproduces=study.source).exists()


def test_a_launch_that_is_refused_leaves_no_draft(client: Client, study: Study) -> None:
    proposal = read(client, study)
    study.cluster.enabled = False
    study.cluster.save()
    post(client, study, {"seen": proposal["seen"], "launch": True}, 409)
    assert not Experiment.objects.filter(reproduces=study.source).exists()


def test_images_that_are_missing_are_prepared(client: Client, study: Study) -> None:
    study.image.reference = "registry.example.org/lab/tf:2.21"
    study.image.save()
    place = {"cluster": study.second_cluster().pk}
    assert read(client, study, f"?cluster={place['cluster']}")["needs_preparation"]
    proposal = post(client, study, place, 200, "reproduction/prepare")
    assert proposal["waits_for"]
    post(client, study, place, 409, "reproduction/prepare")


def test_environments_are_chosen_by_their_keys(client: Client, study: Study) -> None:
    second = study.second_cluster()
    StagedImage.objects.create(
        image=study.image, cluster=second, format="sandbox", path="/images/x.sandbox"
    )
    key = str(study.box.pk)
    query = f"?cluster={second.pk}&environment={key}=new"
    (box,) = [row for row in read(client, study, query)["environments"] if row["key"] == key]
    assert (box["state"], box["environment"]) == ("is made with the draft", None)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("cluster=4000000", "cluster"),
        ("partition=4000000", "partition"),
        ("without_partition=true&partition=4000000", "without_partition"),
        ("environment=nothing=new", "environments.nothing"),
        ("environment=", "environments."),
        ("cluster=x", "query.cluster"),
        ("clutser=1", "query.clutser"),
    ],
)
def test_a_choice_that_is_not_there_is_refused(
    client: Client, study: Study, query: str, field: str
) -> None:
    problems = read(client, study, f"?{query}", 422)["problems"]
    assert [row["field"] for row in problems] == [field]


def test_a_choice_that_is_no_candidate_is_refused(client: Client, study: Study) -> None:
    key = str(study.box.pk)
    problems = read(client, study, f"?environment={key}=4000000", 422)["problems"]
    assert [row["field"] for row in problems] == [f"environments.{key}"]


def test_what_has_no_plan_is_not_reproduced(client: Client) -> None:
    draft = ExperimentFactory()
    path = f"experiments/{draft.pk}/reproduction"
    assert "never launched" in get(client, path, log_in(draft.owner), 409)["detail"]
    ExperimentFactory(visibility="private")
    hidden = ExperimentFactory(visibility="private")
    get(client, f"experiments/{hidden.pk}/reproduction", log_in(UserFactory()), 404)
