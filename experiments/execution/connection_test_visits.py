"""Connection tests: a worker logs in at a person's request, and reports which step fails."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from experiments.clusters.credentials import finish_rotation
from experiments.execution.connections import Link, make_ssh_address
from experiments.execution.guard import end_on_failure
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
    """Run a requested connection test, once, and return its outcome.

    If the new key of a rotation opened every cluster, it replaces the old one.
    """
    if not ConnectionTest.objects.filter(pk=pk, began_at=None).update(began_at=timezone.now()):
        return "begun already"
    test = ConnectionTest.objects.select_related("credential", "owner").get(pk=pk)
    with end_on_failure(lambda problem: _end(pk, [_make_row(test.credential, problem)])):
        return _try(test)


def _try(test: ConnectionTest) -> str:
    credential = test.credential
    is_new = credential.is_rotating and test.tried == credential.next_fingerprint
    rows: list[dict[str, Any]] = []
    all_checks: list[Check] = []
    for cluster in list_clusters(test):
        checks = try_log_in(cluster, trying=credential if is_new else None)
        all_checks += checks
        rows.append(
            {
                "name": str(cluster),
                "pk": cluster.pk,
                "checks": [check.as_json() for check in checks],
            }
        )
    outcome = find_worst_outcome(all_checks)
    if is_new and outcome != "failed":
        is_there = finish_rotation(credential.pk, test.tried, test.owner)
    else:
        is_there = is_new or test.tried == credential.fingerprint
    if not is_there:
        outcome = GONE.outcome
        rows.append(_make_row(credential, GONE))
    _end(test.pk, rows, outcome)
    return outcome


def _make_row(credential: Credential, check: Check) -> dict[str, Any]:
    """Return the row of the report that is about the credential itself."""
    return {"name": str(credential), "pk": None, "checks": [check.as_json()]}


def _end(pk: int, rows: list[dict[str, Any]], outcome: str = "failed") -> None:
    ConnectionTest.objects.filter(pk=pk, ended_at=None).update(
        ended_at=timezone.now(), outcome=outcome, rows=rows
    )


def list_clusters(test: ConnectionTest) -> list[Cluster]:
    """Return the clusters to log in to: the one that was named, or all that use the key."""
    if test.cluster_id:
        return list(Cluster.objects.filter(pk=test.cluster_id))
    return list(test.credential.clusters.filter(transport="ssh").order_by("name"))


def try_log_in(cluster: Cluster, *, trying: Credential | None = None) -> list[Check]:
    """Log in, over every jump host, and return a check of each step.

    `trying`: the credential whose new key is tried, wherever a hop uses that credential.
    """
    try:
        link = Link(make_ssh_address(cluster, trying=trying))
    except TryAgain as problem:
        return [make_entry_check(cluster, problem)]
    with link:
        return check_connection(link)


def make_entry_check(cluster: Cluster, problem: TryAgain) -> Check:
    """Return the check for a cluster whose own entry, or a jump host's, is not complete."""
    hops = cluster.list_hops()
    if any(hop.credential is None for hop in hops):
        cure = NO_CREDENTIAL
    else:
        cure = NO_KEY_OPENS_IT if all(hop.host_key for hop in hops) else NO_HOST_KEY
    return Check("Connection", "Entry", "failed", str(problem), cure)
