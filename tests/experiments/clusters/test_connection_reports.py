"""What a connection test reports: each cluster's row, the worst outcome, and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from experiments import execution
from experiments.encryption import WrongKey
from experiments.execution import connection_test_visits, connections
from experiments.execution.connection_test_visits import (
    NO_CREDENTIAL,
    NO_HOST_KEY,
    NO_KEY_OPENS_IT,
    list_clusters,
    make_entry_check,
)
from experiments.models import Cluster, ConnectionTest, Credential
from runners.errors import TryAgain
from runners.preflight import Check
from tests.factories import ClusterFactory, CredentialFactory

pytestmark = pytest.mark.django_db
GOOD, BAD = (Check("Connection", "Log-in", outcome, "said") for outcome in ("ok", "failed"))


@pytest.fixture
def credential() -> Credential:
    made: Credential = CredentialFactory(name="lab", fingerprint="SHA256:now")
    return made


def over_ssh(credential: Credential | None, name: str, **columns: Any) -> Cluster:
    about = {
        "name": name,
        "transport": "ssh",
        "credential": credential,
        "host_key": "ssh-ed25519 A",
    }
    made: Cluster = ClusterFactory(**about | columns)
    return made


def ask(credential: Credential, **columns: Any) -> ConnectionTest:
    about = {"credential": credential, "owner": credential.owner, "tried": credential.fingerprint}
    return ConnectionTest.objects.create(**about | columns)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Check]:
    """The check that logging in to each cluster gives, by its name."""
    by_name: dict[str, Check] = {}

    def try_log_in(cluster: Cluster, *, trying: Credential | None = None) -> list[Check]:
        return [by_name[cluster.name]]

    monkeypatch.setattr(connection_test_visits, "try_log_in", try_log_in)
    return by_name


def test_every_cluster_of_the_key_has_its_row_and_the_worst_counts(
    credential: Credential, answers: dict[str, Check]
) -> None:
    b, a = over_ssh(credential, "b"), over_ssh(credential, "a")
    over_ssh(CredentialFactory(), "of another key")
    ClusterFactory(name="local", credential=credential)
    answers |= {"a": GOOD, "b": BAD}
    test = ask(credential)
    assert execution.test_connection(test.pk) == "failed"
    test.refresh_from_db()
    assert test.outcome == "failed"
    assert test.rows == [
        {"name": "a", "pk": a.pk, "checks": [GOOD.as_json()]},
        {"name": "b", "pk": b.pk, "checks": [BAD.as_json()]},
    ]
    answers["b"] = GOOD
    again = ask(credential)
    assert execution.test_connection(again.pk) == "ok"


def test_of_one_cluster_that_one_is_tried_alone(credential: Credential) -> None:
    chosen = over_ssh(None, "chosen")
    over_ssh(credential, "another")
    assert list_clusters(ask(credential, cluster=chosen)) == [chosen]


def test_a_key_that_was_replaced_meanwhile_is_said(
    credential: Credential, answers: dict[str, Check]
) -> None:
    over_ssh(credential, "a")
    answers["a"] = GOOD
    test = ask(credential, tried="SHA256:before")
    assert execution.test_connection(test.pk) == "failed"
    test.refresh_from_db()
    row = test.rows[-1]
    assert (row["name"], row["pk"]) == (str(credential), None)
    (check,) = row["checks"]
    assert (check["area"], check["name"]) == ("Connection", "Private key")
    assert check["found"].startswith("The key that was to be tried was given up or replaced")
    assert check["cure"] == "Test again."


@pytest.mark.parametrize(
    ("columns", "cure"),
    [
        ({"credential": None}, NO_CREDENTIAL),
        ({"host_key": ""}, NO_HOST_KEY),
        ({}, NO_KEY_OPENS_IT),
    ],
)
def test_an_entry_that_is_not_complete_comes_with_its_cure(
    columns: dict[str, Any], cure: str, credential: Credential
) -> None:
    cluster = over_ssh(**{"credential": credential, "name": "a"} | columns)
    check = make_entry_check(cluster, TryAgain("why", kind="set-up"))
    assert check == Check("Connection", "Entry", "failed", "why", cure)
    behind = over_ssh(credential, "behind", jump_host=cluster)
    assert make_entry_check(behind, TryAgain("why", kind="set-up")).cure == cure


def test_a_key_that_cannot_be_opened_is_said_with_its_name(
    credential: Credential, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = over_ssh(credential, "a")

    def fail(self: object) -> str:
        raise WrongKey("No key of CREDENTIAL_KEYS opens it.")

    monkeypatch.setattr(type(credential.private_key), "reveal", fail)
    with pytest.raises(TryAgain) as caught:
        connections.make_ssh_address(Cluster.objects.get(pk=cluster.pk))
    assert caught.value.kind == "set-up"
    assert str(caught.value) == ("The key lab cannot be used. No key of CREDENTIAL_KEYS opens it.")
    (check,) = connection_test_visits.try_log_in(cluster)
    assert (check.name, check.outcome, check.cure) == ("Entry", "failed", NO_KEY_OPENS_IT)
