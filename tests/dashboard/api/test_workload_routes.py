"""Workloads by the API: made, changed and deleted by the rules of their pages."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from experiments.models import AuditEntry, Role, SentFile, User, Workload
from runners.workloads import WORKLOADS
from tests.dashboard.api.requests_by_token import log_in, send
from tests.factories import (
    DataSetFactory,
    ExperimentFactory,
    LaunchedFactory,
    UserFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db
COMMAND: dict[str, Any] = {
    "name": "train",
    "kind": "command",
    "parameters": {
        "argv": ["{python}", "train.py", "--title", "it's one word", ""],
        "read": "patterns",
        "metrics": [{"name": "loss", "unit": "1", "find": "loss=([0-9.]+)", "take": "last"}],
    },
    "files": {
        "train.py": {"text": "print('loss=0.5')\n"},
        "seed.bin": {"base64": base64.b64encode(b"\x00\xff").decode()},
    },
}


@pytest.fixture
def researcher() -> User:
    user: User = UserFactory(role=Role.RESEARCHER)
    return user


def write(client: Client, user: User, method: str, path: str, body: Any, status: int) -> Any:
    return send(client, method, path, log_in(user, "catalogue"), body, status)


@pytest.mark.parametrize("kind", WORKLOADS)
def test_of_each_kind_what_is_read_can_be_sent_again(
    client: Client, researcher: User, kind: str
) -> None:
    body = COMMAND if kind == "command" else {"name": "one", "kind": kind}
    made = write(client, researcher, "post", "workloads", body, 201)
    if kind != "command":
        assert made["parameters"] == WORKLOADS[kind].clean({})
    copy = {"name": "two", "kind": kind, "parameters": made["parameters"]}
    again = write(client, researcher, "post", "workloads", copy, 201)
    assert again["parameters"] == made["parameters"]
    same = {"parameters": made["parameters"]}
    changed = write(client, researcher, "patch", f"workloads/{made['id']}", same, 200)
    assert changed == made
    assert AuditEntry.objects.filter(what="added", actor=researcher).count() == 2


def test_a_command_with_its_files_and_metrics(client: Client, researcher: User) -> None:
    made = write(client, researcher, "post", "workloads", COMMAND, 201)
    parameters = made["parameters"]
    assert parameters["argv"] == COMMAND["parameters"]["argv"]
    assert parameters["metrics"][0]["better"] == "lower"
    stored = SentFile.objects.get(sha256=parameters["files"]["seed.bin"])
    assert bytes(stored.content) == b"\x00\xff"
    path = f"workloads/{made['id']}"
    change: dict[str, Any] = {"files": {"train.py": {"text": "print('loss=1')\n"}}}
    changed = write(client, researcher, "patch", path, change, 200)["parameters"]
    assert changed["files"]["seed.bin"] == parameters["files"]["seed.bin"]
    assert changed["files"]["train.py"] != parameters["files"]["train.py"]
    assert changed["metrics"] == parameters["metrics"]
    change = {"parameters": {"files": {"train.py": changed["files"]["train.py"]}}}
    changed = write(client, researcher, "patch", path, change, 200)["parameters"]
    assert changed["files"].keys() == {"train.py"}


@pytest.mark.parametrize(
    ("change", "field", "part"),
    [
        ({"kind": "comand"}, "kind", "command"),
        ({"nmae": "x"}, "", "Did you mean “name”"),
        ({"parameters": {"agrv": []}}, "parameters.agrv", "Did you mean “argv”"),
        ({"parameters": {"argv": 5}}, "parameters.argv", "must be words"),
        ({"parameters": {"burn_in": [1]}}, "parameters.burn_in", "whole number"),
        ({"parameters": {"burn_in": -1}}, "parameters.burn_in", "from 0"),
        ({"parameters": {"argv": "train"}, "name": ""}, "name", "required"),
        ({"parameters": {"argv": "x", "files": {"a": "0" * 64}}}, "parameters.files.a", "sent"),
        ({"parameters": {"argv": "x", "metrics": [{"name": "a b"}]}}, "parameters.metrics", "name"),
        (
            {
                "parameters": {
                    "argv": "x",
                    "read": "patterns",
                    "metrics": [{"name": "a", "find": "("}],
                }
            },
            "parameters.metrics.0.find",
            "cannot be used",
        ),
        ({"files": {"../x": {"text": ""}}}, "", "plain name"),
        ({"files": {"x": {}}}, "", "either"),
        ({"files": {"x": {"base64": "é"}}}, "", "cannot be read"),
        ({"files": {"x": {"text": "0" * 1_000_001}}}, "files", "1,000,001 bytes"),
        ({"files": {str(n): {"text": str(n)} for n in range(21)}}, "files", "21 files"),
        ({"time_limit_seconds": -1}, "time_limit_seconds", "greater"),
        ({"data_set": 99999}, "data_set", "choice"),
        ({"groups": [1]}, "groups", "no group"),
        ({"visibility": "everybody"}, "", "private"),
    ],
)
def test_what_is_wrong_is_said_at_its_place_and_nothing_is_stored(
    client: Client, researcher: User, change: dict[str, Any], field: str, part: str
) -> None:
    answer = write(client, researcher, "post", "workloads", COMMAND | change, 422)
    problems = answer["problems"]
    assert any(part in row["message"] for row in problems), problems
    if field:
        assert field in {row["field"] for row in problems}, problems
    assert not Workload.objects.exists()


def test_a_kind_that_sends_no_files(client: Client, researcher: User) -> None:
    body = {"name": "x", "kind": "blas", "files": {"a": {"text": ""}}}
    answer = write(client, researcher, "post", "workloads", body, 422)
    assert answer["problems"][0]["field"] == "files"


def test_a_workload_of_a_launched_experiment_stays_but_is_shown_to_others(
    client: Client, researcher: User
) -> None:
    row = WorkloadFactory(owner=researcher, visibility="private")
    LaunchedFactory(owner=researcher, workloads=[row])
    path = f"workloads/{row.pk}"
    answer = write(client, researcher, "patch", path, {"name": "other"}, 409)
    assert "stays as it was measured" in answer["detail"]
    both = {"name": "other", "visibility": "members"}
    write(client, researcher, "patch", path, both, 409)
    row.refresh_from_db()
    assert row.visibility == "private"
    assert write(client, researcher, "patch", path, {"visibility": "members"}, 200)["visibility"]
    row.refresh_from_db()
    assert (row.visibility, row.name != "other") == ("members", True)
    write(client, researcher, "delete", path, None, 409)


def test_groups_of_a_workload(client: Client, researcher: User) -> None:
    group = Group.objects.create(name="physics")
    researcher.groups.add(group)
    row = WorkloadFactory(owner=researcher)
    path = f"workloads/{row.pk}"
    write(client, researcher, "patch", path, {"visibility": "groups"}, 422)
    write(client, researcher, "patch", path, {"visibility": "groups", "groups": [group.pk]}, 200)
    assert list(row.groups.all()) == [group]


def test_a_data_set_is_named_and_taken_away(client: Client, researcher: User) -> None:
    data_set = DataSetFactory(owner=researcher)
    body = COMMAND | {"data_set": data_set.pk}
    made = write(client, researcher, "post", "workloads", body, 201)
    assert made["data_set"] == data_set.pk
    path = f"workloads/{made['id']}"
    assert write(client, researcher, "patch", path, {"data_set": None}, 200)["data_set"] is None
    hidden = DataSetFactory(visibility="private")
    write(client, researcher, "patch", path, {"data_set": hidden.pk}, 422)


def test_deleting(client: Client, researcher: User) -> None:
    row = WorkloadFactory(owner=researcher)
    experiment = ExperimentFactory(owner=researcher, workloads=[row])
    path = f"workloads/{row.pk}"
    assert "drafts included" in write(client, researcher, "delete", path, None, 409)["detail"]
    experiment.delete()
    write(client, researcher, "delete", path, None, 204)
    write(client, researcher, "delete", path, None, 404)
    assert AuditEntry.objects.filter(what="deleted", kind="workload").count() == 1


def test_a_key_makes_one_workload(client: Client, researcher: User) -> None:
    headers = log_in(researcher, "catalogue") | {"Idempotency-Key": "k"}
    made = [send(client, "post", "workloads", headers, COMMAND, 201) for _ in range(2)]
    assert made[0] == made[1]
    assert Workload.objects.count() == 1
