"""Studies by the API: from files, their progress with one word for programs, and their changes."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from experiments.comparisons import keep_comparison
from experiments.models import Experiment, Study, User
from tests.dashboard.api.requests_by_token import log_in
from tests.dashboard.api.test_definition_routes import send
from tests.dashboard.conftest import Site, measured
from tests.dashboard.planning.test_definition_drafts import Place, make_place
from tests.dashboard.planning.test_study_drafts import write
from tests.factories import ExperimentFactory, StudyFactory, UserFactory

pytestmark = pytest.mark.django_db
JSON = "application/json"


@pytest.fixture
def place() -> Place:
    return make_place()


def get(client: Client, user: User, path: str) -> Any:
    answer = client.get(f"/api/v1/{path}", headers=log_in(user))
    assert answer.status_code == 200, answer.content
    return answer


def test_a_file_becomes_a_study_once_and_is_written_as_it_came(
    client: Client, place: Place
) -> None:
    text = write(place)
    checked = send(client, place.user, "studies/check", text, 200)
    assert (checked["valid"], checked["plan"]["runs"], checked["plan"]["jobs"]) == (True, 16, 8)
    assert not Study.objects.exists()
    made = [
        send(client, place.user, "studies?launch=true", text, 201, **{"Idempotency-Key": "k"})
        for _ in range(2)
    ]
    assert made[0] == made[1]
    assert Experiment.objects.exclude(launched_at=None).count() == 2
    key = made[0]["id"]
    assert get(client, place.user, f"studies/{key}").json() == made[0]
    file = get(client, place.user, f"studies/{key}/definition.yaml").content.decode()
    assert file == text
    as_json = get(client, place.user, f"studies/{key}/definition.json").content
    again = send(client, place.user, "studies", as_json, 201, kind=JSON)
    assert len(again["experiments"]) == 2
    listed = get(client, place.user, "studies?q=three&fields=id").json()
    assert listed["items"] == [{"id": again["id"]}, {"id": key}]


def test_what_is_wrong_names_line_and_entry_and_nothing_is_stored(
    client: Client, place: Place
) -> None:
    wrong = write(place).replace("repeats: 3", "repeats: many")
    for path in ("studies", "studies?launch=true"):
        [problem] = send(client, place.user, path, wrong, 422)["problems"]
        assert problem["field"] == "experiments[1].design.repeats"
        assert "repeats: many" in wrong.splitlines()[problem["line"] - 1]
    assert not Study.objects.exists()
    assert not Experiment.objects.exists()
    send(client, place.user, "studies", b"\xff", 422)
    send(client, place.user, "studies", "x", 415, kind="text/plain")


def test_the_address_of_experiments_says_where_a_study_goes(client: Client, place: Place) -> None:
    for path in ("experiments", "experiments/check"):
        answer = send(client, place.user, path, write(place), 422)
        assert answer["type"] == "/docs/api/#studies"
    assert "“study” is missing" in str(send(client, place.user, "studies", place.write(), 422))


def test_progress_has_the_gravest_word(client: Client, site: Site) -> None:
    owner = UserFactory()
    slower = measured(site, owner, blocks=6)
    draft = ExperimentFactory(owner=owner)
    study = StudyFactory(owner=owner, members=[draft, slower])
    progress = get(client, owner, f"studies/{study.pk}/progress").json()
    assert [row["exit_word"] for row in progress["experiments"]] == ["unfinished", "slower"]
    assert (progress["exit_word"], progress["is_alive"]) == ("slower", False)
    keep_comparison(slower.pk)
    assert get(client, owner, f"studies/{study.pk}/progress").json()["exit_word"] == "slower"
    draft.delete()
    slower.runs.update(state="cancelled", ended_at=timezone.now())
    assert get(client, owner, f"studies/{study.pk}/progress").json()["exit_word"] == "failed"


def test_a_study_is_changed_or_left_as_a_whole(client: Client) -> None:
    owner = UserFactory()
    rows = [ExperimentFactory(owner=owner) for _ in range(3)]
    hidden = ExperimentFactory(visibility="private")
    study = StudyFactory(owner=owner, members=rows[:2], name="before")

    def patch(status: int, **change: Any) -> Any:
        path = f"studies/{study.pk}"
        return send(client, owner, path, change, status, kind=JSON, method="patch")

    refused = patch(422, name="after", put_in=[hidden.pk])
    assert refused["problems"][0]["field"] == "put_in"
    assert Study.objects.get().name == "before"
    changed = patch(200, name="after", take_out=[rows[0].pk], put_in=[rows[2].pk])
    assert (changed["name"], changed["experiments"]) == ("after", [rows[1].pk, rows[2].pk])
    patch(422, names="x")
    patch(422, visibility="public")
    patch(422, name="")
    patch(422, put_in=list(range(1, 5000)))


def test_what_is_in_a_study_is_launched_paused_cancelled_and_the_study_deleted(
    client: Client,
) -> None:
    owner = UserFactory()
    draft = ExperimentFactory(owner=owner)
    study = StudyFactory(owner=owner, members=[draft])

    def post(action: str, status: int) -> Any:
        return send(client, owner, f"studies/{study.pk}/{action}", {}, status, kind=JSON)

    post("pause", 409)
    post("launch", 200)
    assert "no draft" in post("launch", 409)["detail"]
    post("pause", 200)
    post("continue", 200)
    post("continue", 409)
    post("cancel", 200)
    draft.refresh_from_db()
    assert draft.cancelled_at
    answer = client.delete(f"/api/v1/studies/{study.pk}", headers=log_in(owner, "experiments"))
    assert answer.status_code == 204
    assert Experiment.objects.exists()
    assert not Study.objects.exists()
