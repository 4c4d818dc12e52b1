"""One visitor a cluster: a lease in PostgreSQL that expires by itself."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from experiments.models import Cluster

# Longer than the longest call over SSH: only a dead worker's lease runs out.
LEASE = timedelta(seconds=360)


class LeaseLost(Exception):
    """Another worker has taken the cluster over: stop at once."""


@dataclass(frozen=True)
class Lease:
    cluster: Cluster
    token: str

    def renew(self) -> None:
        """Extend the lease before each long step. Raises LeaseLost."""
        held = Cluster.objects.filter(pk=self.cluster.pk, lease_token=self.token)
        if not held.update(lease_until=timezone.now() + LEASE):
            raise LeaseLost


@contextmanager
def lease(cluster: Cluster) -> Iterator[Lease | None]:
    """Hold the cluster for the length of the block, or yield None: somebody else does."""
    now = timezone.now()
    token = uuid.uuid4().hex
    free = Q(lease_until=None) | Q(lease_until__lt=now)
    taken = Cluster.objects.filter(free, pk=cluster.pk).update(
        lease_token=token, lease_until=now + LEASE
    )
    if not taken:
        yield None
        return
    try:
        yield Lease(cluster, token)
    finally:
        Cluster.objects.filter(pk=cluster.pk, lease_token=token).update(
            lease_token="", lease_until=None
        )
