"""Visits that a person has requested: each is made once, and of the one row that was asked for."""

from __future__ import annotations

from typing import Any

import pytest

from experiments import execution
from experiments.execution import preflight_visits
from experiments.models import Cluster, ConnectionTest, HostKey
from tests.factories import CheckReportFactory, ClusterFactory, CredentialFactory

pytestmark = pytest.mark.django_db


def request_check(cluster: Cluster) -> Any:
    return CheckReportFactory(cluster=cluster, began_at=None, ended_at=None, outcome="")


def request_host_key(cluster: Cluster) -> Any:
    return HostKey.objects.create(cluster=cluster, owner=cluster.owner, host="login", port=22)


def request_connection_test(cluster: Cluster) -> Any:
    credential = CredentialFactory()
    return ConnectionTest.objects.create(credential=credential, owner=credential.owner)


@pytest.mark.parametrize(
    ("visit", "request_visit"),
    [
        (execution.check, request_check),
        (execution.fetch_host_key, request_host_key),
        (execution.test_connection, request_connection_test),
    ],
)
def test_a_visit_is_made_once_and_begins_no_other(
    visit: Any, request_visit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight_visits, "run_checks", lambda cluster: [])
    monkeypatch.setattr(preflight_visits, "scan_host_key", lambda *_, **__: "ssh-ed25519 A")
    asked, other = (request_visit(ClusterFactory()) for _ in range(2))
    visit(asked.pk)
    assert visit(asked.pk) == "begun already"
    asked.refresh_from_db()
    assert asked.began_at
    assert asked.ended_at >= asked.began_at
    other.refresh_from_db()
    assert (other.began_at, other.ended_at) == (None, None)


def test_a_host_key_behind_a_jump_host_is_fetched_through_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = ClusterFactory(
        transport="ssh", host="gate", host_key="ssh-ed25519 B", credential=CredentialFactory()
    )
    row = request_host_key(ClusterFactory(transport="ssh", jump_host=gate))
    ways: list[tuple[str, int, str]] = []

    def scan(host: str, port: int, *, jump: Any) -> str:
        ways.append((host, port, jump and jump.address.host))
        return "ssh-ed25519 A"

    monkeypatch.setattr(preflight_visits, "scan_host_key", scan)
    assert execution.fetch_host_key(row.pk) == "fetched"
    assert ways == [("login", 22, "gate")]
    row.refresh_from_db()
    assert (row.key, row.problem) == ("ssh-ed25519 A", "")
