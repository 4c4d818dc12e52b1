"""Clusters and credentials by the API: added, checked and read as on pages; no secret comes out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.signals import got_request_exception
from django.test import Client
from django.utils import timezone
from django.views.debug import ExceptionReporter

from experiments import execution
from experiments.clusters.cluster_updates import propose_partition
from experiments.models import (
    AnsweredRequest,
    CheckReport,
    Cluster,
    ClusterDraft,
    ClusterReading,
    ConnectionTest,
    Credential,
    HostKey,
    Pause,
    Role,
    User,
)
from experiments.models.cluster_draft import compute_access_digest
from runners.cluster_reading import Found, FoundPartition
from runners.preflight.checks import Check
from tests.dashboard.api.requests_by_token import get, log_in, send
from tests.factories import ClusterFactory, CredentialFactory, ExperimentFactory, UserFactory
from tests.runners.sshd import Server, make_key, serve, sign

pytestmark = pytest.mark.django_db
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDLJHbEtm7+rtjp1pPZQFglu9+WS2kMZJ3yJUNzbx1Ej"
PHRASE = "open sesame"
GPU = FoundPartition("gpu", "up", 2, 4, "h100", "gpu", 32, 256000, 60, True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def person() -> User:
    user: User = UserFactory(role=Role.CLUSTER_ADMINISTRATOR)
    return user


@pytest.fixture
def cluster(person: User) -> Any:
    row = ClusterFactory(
        host="login.example",
        transport="ssh",
        host_key=KEY,
        scheduler="slurm",
        work_directory="/home/me/tare",
        credential=CredentialFactory(owner=person),
        owner=person,
    )
    partition = propose_partition(GPU)
    partition.cluster = row
    partition.save()
    return row


def write(client: Client, user: User, method: str, path: str, body: Any, status: int) -> Any:
    return send(client, method, path, log_in(user, "clusters"), body, status)


def work() -> None:
    """Make the readings that wait for a worker."""
    for pk in ClusterReading.objects.filter(began_at=None, ended_at=None).values_list("pk"):
        execution.read_cluster(*pk)


def secrets_of(text: str) -> list[str]:
    lines = text.splitlines()
    return [line for line in lines if len(line) > 10 and not line.startswith("-----")]


def test_all_steps_against_a_real_server(client: Client, person: User, server: Server) -> None:
    at = server.address
    body = {"name": "here", "host": at.host, "port": at.port, "user_name": at.user}
    draft = write(client, person, "post", "cluster-drafts", body, 201)
    path = f"cluster-drafts/{draft['id']}"
    assert (draft["next_step"], draft["host_key"]["is_under_way"]) == ("host_key", True)
    write(client, person, "post", f"{path}/test", {}, 409)
    write(client, person, "post", f"{path}/host-key", {"fingerprint": "SHA256:x"}, 409)
    work()
    shown = get(client, path, log_in(person))["host_key"]["fingerprint"]
    assert shown.startswith("SHA256:")
    write(client, person, "post", f"{path}/host-key", {}, 422)
    confirmed = write(client, person, "post", f"{path}/host-key", {"fingerprint": shown}, 200)
    assert (confirmed["fingerprint"], confirmed["next_step"]) == (shown, "credential")
    hidden = {"credential": CredentialFactory().pk}
    write(client, person, "post", f"{path}/credential", hidden, 422)
    new = {"name": "mine", "user_name": at.user}
    credential = write(client, person, "post", "credentials", new, 201)
    (line,) = credential["lines"]
    server.authorize(f"{line}\n")
    chosen = {"credential": credential["id"]}
    write(client, person, "post", f"{path}/credential", chosen, 200)
    where = f"{server.directory}/work"
    write(client, person, "post", f"{path}/test", {"work_directory": "relative"}, 422)
    write(client, person, "post", f"{path}/confirm", {"reading": 1, "partitions": {}}, 409)
    write(client, person, "post", f"{path}/test", {"work_directory": where}, 202)
    work()
    offer = get(client, path, log_in(person))["offer"]
    (partition,) = offer["partitions"]
    assert offer["outcome"] in ("ok", "warning")
    wish: dict[str, Any] = {"reading": offer["reading"], "partitions": {}}
    answer = write(client, person, "post", f"{path}/confirm", wish, 422)
    assert "at least one partition" in str(answer["problems"])
    wrong = {partition["name"]: {"time_limit_minutes": 0}}
    answer = write(client, person, "post", f"{path}/confirm", wish | {"partitions": wrong}, 422)
    place = f"partitions.{partition['name']}.time_limit_minutes"
    assert place in {row["field"] for row in answer["problems"]}
    wrong = {"machin": {}}
    answer = write(client, person, "post", f"{path}/confirm", wish | {"partitions": wrong}, 422)
    assert "Did you mean" in answer["problems"][0]["message"]
    wish["partitions"] = {partition["name"]: {"time_limit_minutes": 30, "cpus_per_run": 1}}
    old = wish | {"reading": offer["reading"] - 1 or 999}
    write(client, person, "post", f"{path}/confirm", old, 409)
    made = write(client, person, "post", f"{path}/confirm", wish | {"visibility": "private"}, 201)
    row = Cluster.objects.get(pk=made["id"])
    assert (row.work_directory, row.owner, row.visibility) == (where, person, "private")
    assert row.partitions.get().time_limit_minutes == 30
    assert CheckReport.objects.get().cluster == row
    assert not ClusterDraft.objects.exists()
    assert HostKey.objects.get().pinned_by == person


def test_a_draft_is_ones_own(client: Client, person: User) -> None:
    draft = ClusterDraft.objects.create(owner=person, name="x", host="login.example")
    other = UserFactory(role=Role.SITE_ADMINISTRATOR)
    get(client, f"cluster-drafts/{draft.pk}", log_in(other), 404)
    assert get(client, "cluster-drafts", log_in(other))["items"] == []
    path = f"cluster-drafts/{draft.pk}"
    for wrong in ({"host": "-oProxyCommand=x"}, {"port": 0}, {"port": True}, {"scheduler": "at"}):
        write(client, person, "patch", path, wrong, 422)
    changed = write(client, person, "patch", path, {"user_name": "me", "host": "h.example"}, 200)
    assert (changed["host"], changed["port"]) == ("h.example", 22)
    answer = write(client, person, "post", f"{path}/host-key", {"line": "no key"}, 409)
    assert answer["detail"]
    write(client, person, "post", f"{path}/host-key", {"line": f"h.example {KEY}"}, 200)
    write(client, person, "delete", path, None, 204)


def test_a_host_key_is_pinned_by_its_fingerprint_alone(
    client: Client, person: User, cluster: Any
) -> None:
    path = f"clusters/{cluster.pk}/host-key"
    asked = write(client, person, "post", path, None, 202)
    assert (asked["is_under_way"], asked["fingerprint"]) == (True, "")
    pin = f"host-keys/{asked['id']}/pin"
    write(client, person, "post", pin, {"fingerprint": ""}, 422)
    HostKey.objects.update(key=KEY, ended_at=timezone.now())
    shown = get(client, path, log_in(person))["fingerprint"]
    write(client, person, "post", pin, {}, 422)
    write(client, person, "post", pin, {"fingerprint": shown[:-1]}, 422)
    Cluster.objects.update(host_key="")
    pinned = write(client, person, "post", pin, {"fingerprint": shown}, 200)
    assert (pinned["pinned"], bool(pinned["pinned_at"])) == (shown, True)
    Cluster.objects.update(port=2222)
    write(client, person, "post", pin, {"fingerprint": shown}, 409)


def test_a_check_is_read_and_its_limits_taken(client: Client, person: User, cluster: Any) -> None:
    path = f"clusters/{cluster.pk}"
    assert write(client, person, "post", f"{path}/check", None, 202)["is_under_way"]
    write(client, person, "post", f"{path}/limits", None, 409)
    rows = [Check("Login node", "Limits", "ok", "few", limits="7 9").as_json()]
    CheckReport.objects.update(ended_at=timezone.now(), outcome="ok", rows=rows)
    found = get(client, f"{path}/check", log_in(UserFactory()))
    assert found["suggested_limits"] == {"max_live_jobs": 7, "poll_seconds": 9}
    assert found["checks"][0]["found"] == "few"
    taken = write(client, person, "post", f"{path}/limits", None, 200)
    assert (taken["max_live_jobs"], taken["poll_seconds"]) == (7, 9)
    write(client, person, "post", f"{path}/limits", None, 409)


def test_a_cluster_is_tried_again_and_shown_to_fewer(
    client: Client, person: User, cluster: Any
) -> None:
    path, now = f"clusters/{cluster.pk}", timezone.now()
    write(client, person, "post", f"{path}/try", None, 409)
    Cluster.objects.update(retry_at=now)
    write(client, person, "post", f"{path}/try", None, 200)
    pause = Pause.objects.create(
        cluster=cluster, kind="limit", message="too many", since=now, retry_at=now, failures=3
    )
    other = Pause.objects.create(
        cluster=cluster,
        kind=pause.kind,
        experiment=ExperimentFactory(cluster=cluster, owner=person),
        message="other",
        since=pause.since,
        retry_at=pause.retry_at,
    )
    part = get(client, f"{path}/pauses?limit=1", log_in(person))
    assert [item["id"] for item in part["items"]] == [other.pk]
    (item,) = get(client, part["next"].removeprefix("/api/v1/"), log_in(person))["items"]
    assert (item["id"], item["message"]) == (pause.pk, "too many")
    write(client, person, "post", f"pauses/{pause.pk}/try", None, 200)
    pause.refresh_from_db()
    assert pause.failures == 0
    Pause.objects.all().delete()
    write(client, person, "post", f"pauses/{pause.pk}/try", None, 404)
    write(client, person, "patch", path, {"visibility": "private"}, 200)
    get(client, path, log_in(UserFactory()), 404)


def test_a_connection_is_tried(client: Client, person: User, cluster: Any) -> None:
    path = f"clusters/{cluster.pk}/connection"
    assert write(client, person, "post", path, None, 202)["is_under_way"]
    write(client, person, "post", path, None, 202)
    assert ConnectionTest.objects.count() == 1
    Cluster.objects.update(credential=None)
    write(client, person, "post", path, None, 404)


def test_differences_are_stored_by_their_keys(client: Client, person: User, cluster: Any) -> None:
    path = f"clusters/{cluster.pk}"
    assert write(client, person, "post", f"{path}/read", None, 202)["is_under_way"]
    longer = FoundPartition("gpu", "up", 3, 4, "h100", "gpu", 32, 256000, 60, True)
    ClusterReading.objects.update(
        ended_at=timezone.now(),
        outcome="ok",
        found=Found("slurm", "24.11.5", "/home/me", "/home/me/tare", (longer,)).as_json(),
        digest=compute_access_digest(cluster),
    )
    found = get(client, f"{path}/differences", log_in(person))
    (difference,) = found["differences"]
    assert (difference["column"], difference["stored"], difference["read"]) == ("nodes", "2", "3")
    apply = f"{path}/differences/apply"
    wish = {"reading": found["reading"], "differences": [difference["key"]]}
    write(client, person, "post", apply, wish | {"differences": ["x"]}, 409)
    write(client, person, "post", apply, wish | {"reading": 10**6}, 409)
    write(client, person, "post", apply, wish, 200)
    assert cluster.partitions.get().nodes == 3
    get(client, f"{path}/differences", log_in(UserFactory()), 403)


def test_a_machine_without_a_connection(client: Client, person: User) -> None:
    body = {"name": "far", "work_directory": "/tare", "partition": "gpu", "gpus_per_node": 4}
    made = write(client, person, "post", "clusters/by-hand", body, 201)
    assert made["partitions"][0]["gpus_per_node"] == 4
    write(client, person, "post", "clusters/by-hand", body, 422)
    write(client, person, "post", f"clusters/{made['id']}/check", None, 409)


def test_a_key_goes_in_and_never_comes_out(client: Client, person: User, tmp_path: Path) -> None:
    private = make_key(tmp_path / "key", passphrase=PHRASE)
    headers = log_in(person, "clusters") | {"Idempotency-Key": "k"}
    body = {"name": "mine", "user_name": "me", "private_key": private, "passphrase": PHRASE}
    made = [send(client, "post", "credentials/import", headers, body, 201) for _ in range(2)]
    row = Credential.objects.get()
    assert made[0] == made[1]
    assert row.private_key.reveal().split() == private.split()
    said = str([made, get(client, "credentials", headers), AnsweredRequest.objects.get().__dict__])
    for secret in [*secrets_of(private), PHRASE]:
        assert secret not in said
    assert made[0]["lines"] == [f"{row.public_key} tare-mine"]


@pytest.mark.parametrize(
    ("change", "field", "part"),
    [
        ({"passphrase": ""}, "passphrase", "needs a passphrase"),
        ({"passphrase": "wrong phrase"}, "passphrase", "does not open"),
        ({"private_key": "ssh-ed25519 AAAAC3Nz me"}, "private_key", "the public key"),
        ({"private_key": "x" * 70_000}, "", "at most"),
        ({"private_key": ["x"]}, "", "string"),
        ({"name": ""}, "name", "required"),
        ({"key_file": "x"}, "", "no field"),
    ],
)
def test_after_an_error_no_secret_is_said(
    client: Client, person: User, tmp_path: Path, change: Any, field: str, part: str
) -> None:
    private = make_key(tmp_path / "key", passphrase=PHRASE)
    body = {"name": "n", "user_name": "me", "private_key": private, "passphrase": PHRASE} | change
    answer = write(client, person, "post", "credentials/import", body, 422)
    assert any(part in row["message"] for row in answer["problems"]), answer
    assert not field or field in {row["field"] for row in answer["problems"]}
    for secret in [*secrets_of(private), PHRASE, "wrong phrase"]:
        assert secret not in str(answer)
    assert not Credential.objects.exists()


def test_an_error_report_shows_no_secret(
    client: Client, person: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = make_key(tmp_path / "key", passphrase=PHRASE)
    reports: list[str] = []

    def crash(*_: Any, **__: Any) -> None:
        raise RuntimeError("the database is away")

    def report(request: Any, **_: Any) -> None:
        reports.append(ExceptionReporter(request, *sys.exc_info()).get_traceback_html())

    headers = log_in(person, "clusters")
    monkeypatch.setattr(Credential, "save", crash)
    got_request_exception.connect(report, weak=False)
    body = {"name": "n", "user_name": "me", "private_key": private, "passphrase": PHRASE}
    try:
        with pytest.raises(RuntimeError):
            send(client, "post", "credentials/import", headers, body, 201)
    finally:
        got_request_exception.disconnect(report)
    (text,) = reports
    assert "the database is away" in text
    for secret in [*secrets_of(private), PHRASE]:
        assert secret not in text


def test_a_credential_is_shared_rotated_certified_and_erased(
    client: Client, person: User, tmp_path: Path
) -> None:
    new = {"name": "mine", "user_name": "me"}
    made = write(client, person, "post", "credentials", new, 201)
    path, other = f"credentials/{made['id']}", UserFactory(role=Role.CLUSTER_ADMINISTRATOR)
    group = Group.objects.create(name="physics")
    get(client, path, log_in(other), 404)
    write(client, person, "post", f"{path}/share", {"users": ["nobody"], "groups": []}, 422)
    write(client, person, "post", f"{path}/share", {"users": [], "groups": [10**6]}, 422)
    wish = {"users": [other.username], "groups": [group.pk]}
    shared = write(client, person, "post", f"{path}/share", wish, 200)
    assert (shared["users"], shared["groups"]) == ([other.username], [group.pk])
    get(client, path, log_in(other))
    write(client, other, "post", f"{path}/rotate", None, 403)
    write(client, other, "post", f"{path}/test", None, 202)
    write(client, other, "post", f"{path}/test?new_key=true", None, 403)
    write(client, person, "post", f"{path}/test?new_key=true", None, 409)
    rotating = write(client, person, "post", f"{path}/rotate", None, 200)
    assert (rotating["is_rotating"], len(rotating["next_lines"])) == (True, 1)
    write(client, person, "post", f"{path}/rotate", None, 409)
    assert not write(client, person, "post", f"{path}/give-up", None, 200)["is_rotating"]
    write(client, person, "post", f"{path}/give-up", None, 409)
    make_key(tmp_path / "authority")
    (tmp_path / "key.pub").write_text(Credential.objects.get().public_key)
    good = {"certificate": sign(tmp_path / "authority", tmp_path / "key", "-V", "-1h:+52w")}
    assert write(client, person, "post", f"{path}/certificate", good, 200)["certificate_ends_at"]
    write(client, person, "post", f"{path}/certificate", {"certificate": "x"}, 409)
    changed = write(client, person, "patch", path, {"user_name": "you"}, 200)
    assert (changed["user_name"], changed["name"]) == ("you", "mine")
    write(client, person, "patch", path, {"forced_command": True}, 422)
    ClusterFactory(credential=Credential.objects.get(), name="horeka")
    assert "horeka" in write(client, person, "delete", path, None, 409)["detail"]
    Cluster.objects.all().delete()
    write(client, person, "delete", path, None, 204)
