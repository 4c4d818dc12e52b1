"""Experiments from files by the API: checked, made, launched, replaced, and written again."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.test.client import encode_multipart

from experiments.definitions.described_experiments import write_file
from experiments.models import Experiment, Role, User
from tests.dashboard.api.requests_by_token import log_in
from tests.factories import ExperimentFactory, UserFactory

pytestmark = pytest.mark.django_db
YAML = "application/yaml"


@pytest.fixture
def draft() -> Experiment:
    made: Experiment = ExperimentFactory(question="What does it cost?", margin=0.02)
    return made


@pytest.fixture
def text(draft: Experiment) -> str:
    return "# kept\n" + write_file(draft, draft.owner, "yaml")


def send(
    client: Client,
    owner: User,
    path: str,
    body: str | bytes,
    status: int,
    *,
    kind: str = YAML,
    method: str = "post",
    **headers: str,
) -> Any:
    headers |= log_in(owner, "experiments")
    call = getattr(client, method)
    answer = call(f"/api/v1/{path}", data=body, content_type=kind, headers=headers)
    assert answer.status_code == status, answer.content
    return answer.json()


def test_a_file_is_checked_and_nothing_is_stored(
    client: Client, draft: Experiment, text: str
) -> None:
    answer = send(client, draft.owner, "experiments/check", text, 200)
    assert (answer["valid"], answer["problems"]) == (True, [])
    assert answer["plan"]["runs"] == 2 * draft.repeats
    assert Experiment.objects.count() == 1


def test_a_file_becomes_a_draft_which_is_written_as_it_came(
    client: Client, draft: Experiment, text: str
) -> None:
    made = send(client, draft.owner, "experiments", text, 201)
    assert (made["is_draft"], made["question"]) == (True, draft.question)
    headers = log_in(draft.owner)
    written = client.get(f"/api/v1/experiments/{made['id']}/definition.yaml", headers=headers)
    assert written.content.decode() == text
    as_json = client.get(f"/api/v1/experiments/{made['id']}/definition.json", headers=headers)
    again = send(client, draft.owner, "experiments", as_json.content, 201, kind="application/json")
    assert again["margin"] == draft.margin


def test_a_file_is_launched_in_one_step_and_once(
    client: Client, draft: Experiment, text: str
) -> None:
    made = [
        send(client, draft.owner, "experiments?launch=true", text, 201, **{"Idempotency-Key": "k"})
        for _ in range(2)
    ]
    assert made[0] == made[1]
    assert not made[0]["is_draft"]
    assert Experiment.objects.count() == 2


def test_what_is_wrong_is_said_with_its_line_and_nothing_is_kept(
    client: Client, draft: Experiment, text: str
) -> None:
    wrong = text.replace("repeats:", "repeets:").replace("2 %", "2 seconds")
    for path in ("experiments", "experiments?launch=true"):
        answer = send(client, draft.owner, path, wrong, 422)
        lines = {problem["line"] for problem in answer["problems"]}
        assert {
            wrong[: wrong.index(part)].count("\n") + 1 for part in ("repeets", "2 sec")
        } <= lines
    checked = send(client, draft.owner, "experiments/check", wrong, 200)
    assert checked["valid"] is False
    assert any("repeats" in problem["message"] for problem in checked["problems"])
    assert Experiment.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"\n", YAML, 422),
        (b"\xff\xfe", YAML, 422),
        (b"a: &a [*a]", YAML, 422),
        (b"[" * 5000, YAML, 422),
        (b"x" * 2_000_000, YAML, 422),
        (b"{}", "text/plain", 415),
        (b"{}", "", 415),
        (b"{", "application/json", 422),
    ],
)
def test_what_is_no_file(client: Client, body: bytes, kind: str, status: int) -> None:
    for path in ("experiments", "experiments/check"):
        expected = 200 if path.endswith("check") and status == 422 else status
        send(client, UserFactory(), path, body, expected, kind=kind)


def test_100_megabytes_are_refused_before_they_are_read(client: Client) -> None:
    headers = log_in(UserFactory(), "experiments") | {"Content-Length": str(100_000_000)}
    answer = client.post(
        "/api/v1/experiments", b"{}", content_type=YAML, headers=headers, CONTENT_LENGTH="100000000"
    )
    assert answer.status_code == 413


def test_names_are_mapped_by_a_table(client: Client, draft: Experiment, text: str) -> None:
    name = draft.cluster.name
    moved = text.replace(name, "elsewhere")
    problems = send(client, draft.owner, "experiments", moved, 422)["problems"]
    assert any("elsewhere" in problem["message"] for problem in problems)

    def ask(table: str) -> Any:
        parts = {
            "definition": SimpleUploadedFile("definition", moved.encode()),
            "map": SimpleUploadedFile("map", table.encode()),
        }
        headers = log_in(draft.owner, "experiments")
        return client.post("/api/v1/experiments", parts, headers=headers)

    assert ask(f"clusters:\n  elsewhere: {name}\n").status_code == 201
    answer = ask("clusterz: {}\n")
    assert (answer.status_code, answer.json()["problems"][0]["field"]) == (422, "map.clusterz")


def test_a_draft_is_replaced_until_it_is_launched(
    client: Client, draft: Experiment, text: str
) -> None:
    path = f"experiments/{draft.pk}/definition"
    changed = text.replace("What does it cost?", "And now?")
    answer = send(client, draft.owner, path, changed, 200, method="put")
    assert answer["question"] == "And now?"
    send(client, draft.owner, f"experiments/{draft.pk}/launch", "", 200)
    send(client, draft.owner, path, text, 409, method="put")


def test_a_draft_is_replaced_by_a_file_with_a_table_of_names(
    client: Client, draft: Experiment, text: str
) -> None:
    changed = text.replace(f"cluster: {draft.cluster}", "cluster: theirs")
    names = f"clusters: {{theirs: {draft.cluster}}}"
    files = {"definition": changed, "map": names}
    answer = client.put(
        f"/api/v1/experiments/{draft.pk}/definition",
        encode_multipart(
            "part", {name: SimpleUploadedFile(name, text.encode()) for name, text in files.items()}
        ),
        content_type="multipart/form-data; boundary=part",
        headers=log_in(draft.owner, "experiments"),
    )
    assert answer.status_code == 200, answer.content


@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "a"}])
@pytest.mark.parametrize("path", ["experiments", "experiments/check"])
def test_a_form_that_is_too_large_is_refused_as_such(
    client: Client, path: str, key: dict[str, str]
) -> None:
    headers = log_in(UserFactory(), "experiments") | key
    files = {"definition": SimpleUploadedFile("study.yaml", b"#" * 3_000_000)}
    answer = client.post(f"/api/v1/{path}", files, headers=headers)
    assert answer.status_code == 413, answer.content
    assert "3,000," in answer.json()["detail"]


def test_who_may_make_no_experiments_makes_none(client: Client, text: str) -> None:
    viewer = UserFactory(role=Role.VIEWER)
    for path in ("experiments", "experiments/check"):
        assert "researcher" in send(client, viewer, path, text, 403)["detail"]


def test_of_others_nothing_is_changed(client: Client, draft: Experiment, text: str) -> None:
    Experiment.objects.filter(pk=draft.pk).update(visibility="members")
    other = UserFactory()
    for path, method in (
        (f"experiments/{draft.pk}/definition", "put"),
        *((f"experiments/{draft.pk}/{verb}", "post") for verb in ("launch", "cancel", "pause")),
        (f"experiments/{draft.pk}", "delete"),
    ):
        send(client, other, path, text, 403, method=method)


def test_an_experiment_is_paused_continued_cancelled_and_a_draft_deleted(
    client: Client, draft: Experiment, text: str
) -> None:
    key = send(client, draft.owner, "experiments?launch=true", text, 201)["id"]
    path = f"experiments/{key}"
    for verb, status in (
        *(("continue", 409), ("pause", 200), ("pause", 409), ("continue", 200)),
        *(("cancel", 200), ("pause", 409)),
    ):
        send(client, draft.owner, f"{path}/{verb}", "", status)
    send(client, draft.owner, path, "", 409, method="delete")
    headers = log_in(draft.owner, "experiments")
    assert client.delete(f"/api/v1/experiments/{draft.pk}", headers=headers).status_code == 204
    assert not Experiment.objects.filter(pk=draft.pk).exists()
