"""Connection tests and rotations, with a real SSH server and the worker's own function."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from unittest import mock

import pytest
from django.core.management import call_command
from django.utils import timezone

from experiments import execution
from experiments.clusters import connection_tests, credentials
from experiments.management.commands.clock import enqueue_waiting
from experiments.models import AuditEntry, Cluster, ConnectionTest, Credential, Origin, User
from tests.factories import ClusterFactory, UserFactory
from tests.runners.sshd import Server, free_port, serve

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def by() -> User:
    made: User = UserFactory(role="cluster_administrator")
    return made


@pytest.fixture
def credential(server: Server, by: User) -> Credential:
    row = Credential(name="lab", user_name=server.address.user)
    pair = credentials.read_pair(server.address.private_key)
    return credentials.add(row, pair, Origin.IMPORTED, by)


def there(server: Server, credential: Credential, **columns: object) -> Cluster:
    address = server.address
    made: Cluster = ClusterFactory(
        **{
            "transport": "ssh",
            "host": address.host,
            "port": address.port,
            "host_key": address.host_key,
            "credential": credential,
            **columns,
        }
    )
    return made


def run(credential: Credential, by: User, **options: object) -> ConnectionTest:
    test = connection_tests.request_test(credential, by, **options)  # type: ignore[arg-type]
    execution.test_connection(test.pk)
    test.refresh_from_db()
    return test


def test_it_logs_in_everywhere_and_remembers_when(
    server: Server, credential: Credential, by: User
) -> None:
    gateway = there(server, credential, name="gateway", enabled=False)
    there(server, credential, name="inner", jump_host=gateway)
    test = run(credential, by)
    assert (test.outcome, [row["name"] for row in test.rows]) == ("ok", ["gateway", "inner"])
    inner = connection_tests.get_latest_tests(credential).places[1]
    assert any("jump host" in check.area for check in inner.checks)
    credential.refresh_from_db()
    assert credential.last_used_at


def test_every_login_is_remembered_that_over_a_jump_host_too(
    server: Server, credential: Credential, by: User
) -> None:
    other = Credential(name="gateway's", user_name=server.address.user)
    pair = credentials.read_pair(server.address.private_key)
    credentials.add(other, pair, Origin.IMPORTED, by)
    gateway = there(server, other, name="gateway")
    inner = there(server, credential, name="inner", jump_host=gateway, scheduler="direct")
    with execution.connect(inner) as runner:
        runner.transport.run(["true"])
    for row in (credential, other):
        row.refresh_from_db()
        assert row.last_used_at


def test_the_limit_of_connections_counts_every_hop_and_is_named(
    server: Server, credential: Credential, by: User
) -> None:
    now = {"poll_seconds": 0}
    gateway = there(server, credential, name="gateway", max_connections_per_hour=2, **now)
    inner = there(server, credential, name="inner", jump_host=gateway, **now)
    assert execution.tick(inner.pk) == "done"
    assert execution.tick(gateway.pk) == "done"
    assert execution.tick(gateway.pk) == "limit", "one was the jump host's"
    test = connection_tests.request_test(credential, by, cluster=gateway)
    assert execution.test_connection(test.pk) == "failed"
    (place,) = connection_tests.get_latest_tests(credential, gateway).places
    check = place.checks[-1]
    assert check.name == "Connection limit"
    assert "gateway takes at most 2 connections an hour" in check.found
    assert "raised" in check.cure
    assert "Log-in" not in [each.name for each in place.checks], "nobody was asked"
    counts = [row.uses.filter(kind="connections").count() for row in (gateway, inner)]
    assert counts == [2, 1]
    gateway.max_connections_per_hour = 3
    gateway.save()
    Cluster.objects.update(retry_at=None)
    assert execution.tick(gateway.pk) == "done"


def test_what_nobody_expected_ends_it(server: Server, credential: Credential, by: User) -> None:
    there(server, credential, name="lab")
    test = connection_tests.request_test(credential, by)
    with (
        mock.patch(
            "experiments.execution.connection_test_visits.check_connection",
            side_effect=KeyError("what"),
        ),
        pytest.raises(KeyError),
    ):
        execution.test_connection(test.pk)
    test.refresh_from_db()
    assert (test.outcome, bool(test.ended_at)) == ("failed", True)
    (place,) = connection_tests.get_latest_tests(credential).places
    assert "Tare itself failed" in place.checks[0].found


def test_the_first_wrong_step_is_named_for_each_cluster(
    server: Server, credential: Credential, by: User
) -> None:
    there(server, credential, name="good")
    there(server, credential, name="off", port=free_port())
    test = run(credential, by)
    assert test.outcome == "failed"
    good, off = connection_tests.get_latest_tests(credential).places
    assert not good.is_bad
    (red,) = [check for check in off.checks if check.is_bad]
    assert red.name == "Port"


def test_the_new_key_takes_over_only_when_it_opens_everything(
    server: Server, credential: Credential, by: User, tmp_path: Path
) -> None:
    there(server, credential, name="lab")
    credentials.begin_rotation(credential, by)
    old = Credential.objects.get()
    test = run(old, by, new_key=True)  # its line is not installed yet
    assert test.outcome == "failed"
    still = Credential.objects.get()
    assert (still.fingerprint, still.is_rotating) == (old.fingerprint, True)
    assert run(still, by).outcome == "ok", "the old one works on"

    server.authorize(still.next_public_key + "\n")
    assert run(still, by, new_key=True).outcome == "ok"
    after = Credential.objects.get()
    assert after.fingerprint == old.next_fingerprint
    assert after.private_key.reveal() == old.next_private_key.reveal()
    assert not after.is_rotating
    assert not after.next_private_key
    assert run(after, by).outcome == "ok"
    assert AuditEntry.objects.filter(why__contains="took the place of").count() == 1


def test_a_key_that_was_given_up_meanwhile_does_not_come_back(
    server: Server, credential: Credential, by: User
) -> None:
    there(server, credential, name="lab")
    credentials.begin_rotation(credential, by)
    server.authorize(credential.next_public_key + "\n")
    test = connection_tests.request_test(credential, by, new_key=True)
    tried = credential.next_fingerprint
    credentials.give_up_rotation(credential, by)
    assert execution.test_connection(test.pk) == "failed"
    after = Credential.objects.get()
    assert after.fingerprint != tried
    assert not credentials.finish_rotation(after.pk, tried, by)


def test_a_cluster_that_lacks_a_host_key_is_told(credential: Credential, by: User) -> None:
    ClusterFactory(name="new", transport="ssh", host="login.example", credential=credential)
    test = run(credential, by)
    (check,) = test.rows[0]["checks"]
    assert check["found"] == "new has no pinned host key yet."
    assert "pin it" in check["cure"]


def test_two_are_not_made_at_the_same_time(credential: Credential, by: User) -> None:
    first = connection_tests.request_test(credential, by)
    assert connection_tests.request_test(credential, by) == first
    ConnectionTest.objects.update(requested_at="2026-01-01T00:00Z")
    assert connection_tests.request_test(credential, by) != first
    first.refresh_from_db()
    assert "no worker brought an answer" in first.rows[0]["checks"][0]["found"]


def test_the_command_can_only_log_in(
    server: Server, credential: Credential, capsys: pytest.CaptureFixture[str]
) -> None:
    there(server, credential, name="lab", scheduler="slurm")
    call_command("checkcluster", "lab", "--connection")
    said = capsys.readouterr().out
    assert "Log-in: User" in said
    assert "Login node" not in said
    Cluster.objects.update(port=free_port())
    with pytest.raises(SystemExit):
        call_command("checkcluster", "lab", "--connection")
    assert "Nobody listens" in capsys.readouterr().out


def test_a_test_whose_task_was_lost_is_rung_for_again(credential: Credential, by: User) -> None:
    test = connection_tests.request_test(credential, by)
    ConnectionTest.objects.update(requested_at=timezone.now() - timedelta(seconds=30))
    with mock.patch("experiments.management.commands.clock.enqueue_visit") as rings:
        enqueue_waiting({}, 1000.0)
    rings.assert_called_once_with(test)
