"""Connection tests: a worker logs in where a person has asked, and says which step fails."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from experiments.clusters.credentials import finish_rotation
from experiments.execution.connections import Link, ssh_address
from experiments.execution.guard import ended_anyway
from experiments.models import Cluster, ConnectionTest, Credential
from runners.errors import TryAgain
from runners.preflight import Check, check_connection, find_worst_outcome

NO_CREDENTIAL = "Choose one under Edit."
NO_HOST_KEY = (
    "Fetch its host key, compare its fingerprint with the one that the centre publishes, and pin "
    "it."
)
NO_KEY_OPENS_IT = (
    "Put the key with which it was encrypted back into CREDENTIAL_KEYS; if that is lost, rotate "
    "the credential: a new pair takes its place."
)
GONE = Check(
    "Connection",
    "Private key",
    "failed",
    "The key that was to be tried was given up or replaced meanwhile.",
    "Test again.",
)


def test_connection(pk: int) -> str:
    """Make the test that was asked for, once, and return its outcome.

    When the new key of a rotation opened every cluster, it takes the place of the old one.
    """
    if not ConnectionTest.objects.filter(pk=pk, began_at=None).update(began_at=timezone.now()):
        return "begun already"
    test = ConnectionTest.objects.select_related("credential", "owner").get(pk=pk)
    with ended_anyway(lambda problem: _end(pk, [_row(test.credential, problem)])):
        return _try(test)


def _try(test: ConnectionTest) -> str:
    credential = test.credential
    is_new = credential.is_rotating and test.tried == credential.next_fingerprint
    rows: list[dict[str, Any]] = []
    found: list[Check] = []
    for cluster in places(test):
        checks = try_log_in(cluster, trying=credential if is_new else None)
        found += checks
        rows.append(
            {"name": str(cluster), "pk": cluster.pk, "checks": [one.as_json() for one in checks]}
        )
    outcome = find_worst_outcome(found)
    if is_new and outcome != "failed":
        is_there = finish_rotation(credential.pk, test.tried, test.owner)
    else:
        is_there = is_new or test.tried == credential.fingerprint
    if not is_there:
        outcome = GONE.outcome
        rows.append(_row(credential, GONE))
    _end(test.pk, rows, outcome)
    return outcome


def _row(credential: Credential, check: Check) -> dict[str, Any]:
    """What is told of the credential itself."""
    return {"name": str(credential), "pk": None, "checks": [check.as_json()]}


def _end(pk: int, rows: list[dict[str, Any]], outcome: str = "failed") -> None:
    ConnectionTest.objects.filter(pk=pk, ended_at=None).update(
        ended_at=timezone.now(), outcome=outcome, rows=rows
    )


def places(test: ConnectionTest) -> list[Cluster]:
    """Return the clusters to log in to: the one that was named, or all that use the key."""
    if test.cluster_id:
        return list(Cluster.objects.filter(pk=test.cluster_id))
    return list(test.credential.clusters.filter(transport="ssh").order_by("name"))


def try_log_in(cluster: Cluster, *, trying: Credential | None = None) -> list[Check]:
    """Log in, over every jump host, and say of each step whether it was made.

    `trying`: the credential whose new key is tried, wherever it is used on the way.
    """
    try:
        link = Link(ssh_address(cluster, trying=trying))
    except TryAgain as problem:
        return [entry_check(cluster, problem)]
    with link:
        return check_connection(link)


def entry_check(cluster: Cluster, problem: TryAgain) -> Check:
    """What is told of a cluster whose own entry, or a jump host's, is not complete."""
    way = cluster.way()
    if any(hop.credential is None for hop in way):
        cure = NO_CREDENTIAL
    else:
        cure = NO_KEY_OPENS_IT if all(hop.host_key for hop in way) else NO_HOST_KEY
    return Check("Connection", "Entry", "failed", str(problem), cure)
