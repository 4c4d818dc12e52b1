"""Presets, saved views, links and selections by the API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from experiments.models import Experiment, OwnPreset, SavedView, ShareLink, User
from experiments.presets import PRESETS
from tests.dashboard.api.requests_by_token import get, log_in
from tests.dashboard.conftest import People, Site
from tests.factories import ExperimentFactory, LaunchedFactory, PublishedTableFactory, UserFactory

pytestmark = pytest.mark.django_db
BLAS = "numpy-on-tuned-blas"


def send(
    client: Client,
    person: User,
    path: str,
    body: Any = None,
    status: int = 200,
    *,
    method: str = "post",
) -> Any:
    sent = {} if body is None else {"data": json.dumps(body), "content_type": "application/json"}
    headers = log_in(person, "experiments")
    answer = getattr(client, method)(f"/api/v1/{path}", headers=headers, **sent)
    assert answer.status_code == status, answer.content
    return answer.json() if answer.content else None


def list_fields(answer: Any) -> list[str]:
    return [problem["field"] for problem in answer["problems"]]


class TestPresets:
    def test_a_published_one_becomes_a_draft(
        self, client: Client, site: Site, people: People
    ) -> None:
        headers = log_in(people.owner)
        listed = get(client, "presets", headers)["items"]
        assert [row["key"] for row in listed] == list(PRESETS)
        shown = get(client, f"presets/{BLAS}?cluster={site.cluster.pk}", headers)
        keys = [row["id"] for row in shown["environments"]]
        assert {site.bare.pk, site.container.pk} <= set(keys)
        body = {
            "cluster": site.cluster.pk,
            "environments": [site.bare.pk, site.container.pk],
            "baseline": site.bare.pk,
        }
        made = send(client, people.owner, f"presets/{BLAS}/use", body, 201)
        row = Experiment.objects.get()
        assert (made["experiment"]["id"], row.owner) == (row.pk, people.owner)
        assert row.primary_metric == PRESETS[BLAS].metric
        for wrong, field in (
            ({"baseline": 4_000_000}, "baseline"),
            ({"environments": [4_000_000]}, "environments"),
            ({"size": "huge"}, "size"),
            ({"cluster": 4_000_000}, "cluster"),
        ):
            answer = send(client, people.owner, f"presets/{BLAS}/use", body | wrong, 422)
            assert field in list_fields(answer)
        send(client, people.owner, "presets/nothing/use", body, 404)
        get(client, f"presets/{BLAS}?cluster=4000000", headers, 404)

    def test_ones_own_is_saved_used_renamed_and_deleted(self, client: Client) -> None:
        source = LaunchedFactory()
        owner = source.owner
        made = send(client, owner, f"experiments/{source.pk}/preset", {"name": "nightly"}, 201)
        again = send(client, owner, f"experiments/{source.pk}/preset", {"name": "Nightly"}, 422)
        assert list_fields(again) == ["name"]
        path = f"own-presets/{made['id']}"
        draft = send(client, owner, f"{path}/use", status=201)["experiment"]
        assert (draft["is_draft"], draft["question"]) == (True, source.question)
        changed = send(client, owner, path, {"visibility": "members"}, method="patch")
        assert (changed["name"], changed["visibility"]) == ("nightly", "members")
        other = UserFactory()
        assert get(client, "own-presets", log_in(other))["items"] == [changed]
        send(client, other, path, {}, 403, method="patch")
        send(client, other, path, status=403, method="delete")
        send(client, owner, path, {"visibility": "private"}, method="patch")
        send(client, other, path, {}, 404, method="patch")
        send(client, owner, path, status=204, method="delete")
        assert not OwnPreset.objects.exists()

    def test_one_whose_cluster_is_gone_says_so(self, client: Client) -> None:
        source = LaunchedFactory()
        made = send(client, source.owner, f"experiments/{source.pk}/preset", {}, 201)
        row = OwnPreset.objects.get(pk=made["id"])
        row.definition["cluster"]["pk"] = 4_000_000
        row.save()
        detail = send(client, source.owner, f"own-presets/{row.pk}/use", status=409)["detail"]
        assert "is gone" in detail


class TestSavedViews:
    def test_a_list_is_saved_and_deleted(self, client: Client) -> None:
        owner, other = UserFactory(), UserFactory()
        made = send(client, owner, "views", {"name": "mine", "query": "state=failed"}, 201)
        assert made["page"] == "/runs/?state=failed"
        again = send(client, owner, "views", {"name": "mine", "query": "state=succeeded"}, 201)
        assert (again["id"], again["query"]) == (made["id"], "state=succeeded")
        assert get(client, "views", log_in(owner))["items"] == [again]
        assert get(client, "views", log_in(other))["items"] == []
        send(client, other, f"views/{made['id']}", status=404, method="delete")
        send(client, owner, f"views/{made['id']}", status=204, method="delete")

    def test_what_cannot_be_saved(self, client: Client) -> None:
        owner = UserFactory()
        for body, field in (
            ({"name": " ", "query": ""}, "name"),
            ({"name": "it", "query": "q=%00"}, "query"),
            ({"name": "x" * 61, "query": ""}, "name"),
        ):
            assert list_fields(send(client, owner, "views", body, 422)) == [field]
        for number in range(SavedView.MOST):
            SavedView.objects.create(owner=owner, page="runs", name=str(number))
        detail = send(client, owner, "views", {"name": "it", "query": ""}, 409)["detail"]
        assert "Delete one first" in detail


class TestLinks:
    @pytest.mark.parametrize("place", ["experiments", "tables"])
    def test_one_is_made_opens_and_is_withdrawn(self, client: Client, place: str) -> None:
        factory = LaunchedFactory if place == "experiments" else PublishedTableFactory
        row = factory(visibility="private")
        path = f"{place}/{row.pk}/links"
        made = send(client, row.owner, path, {"days": 3, "hides_names": True}, 201)
        assert client.get(made["address"]).status_code == 302
        row.refresh_from_db()
        assert row.visibility == "public"
        assert get(client, path, log_in(row.owner))["items"] == [made]
        get(client, path, log_in(UserFactory()), 403)
        gone = f"{path}/{made['id']}"
        send(client, row.owner, gone, status=204, method="delete")
        send(client, row.owner, gone, status=409, method="delete")
        assert Client().get(made["address"]).status_code == 404
        assert get(client, path, log_in(row.owner))["items"] == []

    @pytest.mark.parametrize("days", [0, 731])  # refused by the schema, and by the form
    def test_its_days_are_some(self, client: Client, days: int) -> None:
        row = LaunchedFactory(visibility="private")
        answer = send(client, row.owner, f"experiments/{row.pk}/links", {"days": days}, 422)
        assert list_fields(answer) == ["days"]
        row.refresh_from_db()
        assert (row.visibility, ShareLink.objects.exists()) == ("private", False)

    def test_one_of_another_row_is_not_there(self, client: Client) -> None:
        row = LaunchedFactory()
        link = ShareLink.objects.make(LaunchedFactory())
        path = f"experiments/{row.pk}/links/{link.pk}"
        send(client, row.owner, path, status=404, method="delete")


class TestSelections:
    def test_each_is_done_by_its_own_rights(self, client: Client) -> None:
        owner = UserFactory()
        own = [ExperimentFactory(owner=owner).pk for _ in range(2)]
        foreign, gone = ExperimentFactory(visibility="members").pk, 4_000_000
        body = {"action": "tag", "tags": ["a", "b"], "experiments": [*own, own[0], foreign, gone]}
        told = send(client, owner, "experiments/selected", body)
        assert (told["done"], told["forbidden"], told["missing"]) == (2, 1, 1)
        assert "Tagged 2 experiments." in told["sentence"]
        assert Experiment.objects.get(pk=own[0]).tags == ["a", "b"]
        assert Experiment.objects.get(pk=foreign).tags == []
        for action in ("untag", "archive", "unarchive", "cancel"):
            tags = ["a"] if action == "untag" else []
            body = {"action": action, "experiments": own, "tags": tags}
            told = send(client, owner, "experiments/selected", body)
            assert told["done"] == (0 if action == "cancel" else 2), action

    @pytest.mark.parametrize(
        "body",
        [
            {"action": "tag", "experiments": [1]},
            {"action": "tag", "experiments": [1], "tags": ["a,b"]},
            {"action": "archive", "experiments": [1], "tags": ["a"]},
            {"action": "archive", "experiments": []},
            {"action": "delete", "experiments": [1]},
            {"action": "archive", "experiments": [-1]},
            {"action": "archive", "experiments": list(range(1, 10_002))},
        ],
    )
    def test_what_is_wrong_is_refused(self, client: Client, body: Any) -> None:
        send(client, UserFactory(), "experiments/selected", body, 422)
