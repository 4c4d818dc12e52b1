"""Requests for connection tests of a credential, and their results for pages. No network here."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q
from django.utils import timezone

from experiments.clusters.visit_requests import (
    DIED,
    list_unanswered,
    read_newest,
    save_unless_under_way,
    select_newest,
    split_newest,
)
from experiments.models import Cluster, ConnectionTest, Credential, User
from experiments.models.compiled_rows import KEY, CompiledRows
from runners.preflight.checks import Check, find_worst_outcome

NEWEST = CompiledRows(
    lambda credential: select_newest(
        ConnectionTest.objects.filter(credential=credential).select_related("owner", "cluster"), 1
    ),
    KEY,
)


def request_test(
    credential: Credential, by: User, *, cluster: Cluster | None = None, new_key: bool = False
) -> ConnectionTest:
    """Store a request for a test, of one cluster or of all that use the credential, and return it.

    Return the test under way instead if there is one. `new_key`: try the next key of a rotation.
    """
    _end_the_dead(credential)
    row = ConnectionTest(
        credential=credential,
        cluster=cluster,
        tried=credential.next_fingerprint if new_key else credential.fingerprint,
        owner=by,
    )
    return save_unless_under_way(row, credential.connection_tests.filter(ended_at=None))


def _end_the_dead(credential: Credential) -> None:
    """End tests whose worker must have died: they began too long ago."""
    row = {"name": str(credential), "pk": None, "checks": [DIED.as_json()]}
    list_unanswered(credential.connection_tests.filter(ended_at=None)).update(
        ended_at=timezone.now(), outcome=DIED.outcome, rows=[row]
    )


@dataclass(frozen=True)
class ClusterResult:
    """The checks of the connection to one cluster."""

    name: str
    pk: int | None
    checks: list[Check]

    @property
    def is_bad(self) -> bool:
        return any(check.is_bad for check in self.checks)

    @property
    def outcome(self) -> str:
        return find_worst_outcome(self.checks)


@dataclass(frozen=True)
class LatestTests:
    """The last connection test of a credential, and the one under way."""

    under_way: ConnectionTest | None
    last: ConnectionTest | None
    cluster: int | None = None  # the only one that is shown

    @property
    def places(self) -> list[ClusterResult]:
        """Return the results of the last test, by cluster."""
        rows = self.last.rows if self.last else []
        return [
            ClusterResult(
                row["name"], row["pk"], [Check.from_json(check) for check in row["checks"]]
            )
            for row in rows
            if self.cluster in (None, row["pk"])
        ]


def get_latest_tests(credential: Credential, cluster: Cluster | None = None) -> LatestTests:
    """Return the tests of a credential; with `cluster`, those that went there."""
    if cluster:
        tests = credential.connection_tests.select_related("owner", "cluster")
        under_way, ended = read_newest(tests.filter(Q(cluster=cluster) | Q(cluster=None)), 1)
    else:
        under_way, ended = split_newest(NEWEST.read(credential.pk), 1)
    return LatestTests(under_way, ended[0] if ended else None, cluster.pk if cluster else None)
