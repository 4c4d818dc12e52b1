"""Asking whether a key opens what it should, and what pages show of the answer. No network here."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from experiments.clusters.preflights import DIED, LONGEST
from experiments.models import Cluster, ConnectionTest, Credential, User
from runners.preflight.checks import Check, find_worst_outcome


def ask(
    credential: Credential, by: User, *, cluster: Cluster | None = None, new_key: bool = False
) -> ConnectionTest:
    """Write down that a test is wanted: on one cluster, or on all that use the credential.

    Returns the one under way, if there is one: one at a time is enough. `new_key`: of a rotation.
    """
    _end_the_dead(credential)
    row = ConnectionTest(
        credential=credential,
        cluster=cluster,
        tried=credential.next_fingerprint if new_key else credential.fingerprint,
        owner=by,
    )
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        return ConnectionTest.objects.get(credential=credential, ended_at=None)
    return row


def _end_the_dead(credential: Credential) -> None:
    """What has not ended by now has died with its worker."""
    row = {"name": str(credential), "pk": None, "checks": [DIED.as_json()]}
    credential.connection_tests.filter(ended_at=None, asked_at__lt=timezone.now() - LONGEST).update(
        ended_at=timezone.now(), outcome=DIED.outcome, rows=[row]
    )


@dataclass(frozen=True)
class Place:
    """What was found on the way to one cluster."""

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
class Seen:
    """The last test, and the one under way."""

    under_way: ConnectionTest | None
    last: ConnectionTest | None
    cluster: int | None = None  # the only one that is shown

    @property
    def places(self) -> list[Place]:
        """What the last test found, by cluster."""
        rows = self.last.rows if self.last else []
        return [
            Place(row["name"], row["pk"], [Check.from_json(check) for check in row["checks"]])
            for row in rows
            if self.cluster in (None, row["pk"])
        ]


def seen(credential: Credential, cluster: Cluster | None = None) -> Seen:
    """Return the tests of a credential; with `cluster`, those that went there."""
    tests = credential.connection_tests.select_related("owner", "cluster")
    if cluster:
        tests = tests.filter(Q(cluster=cluster) | Q(cluster=None))
    late = timezone.now() - LONGEST
    under_way = tests.filter(ended_at=None, asked_at__gte=late).first()
    last = tests.exclude(ended_at=None).order_by("-ended_at", "-pk").first()
    return Seen(under_way, last, cluster.pk if cluster else None)
