"""How long visits to a cluster take, and how far apart they begin: for the page *Operations*."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.utils import timezone

from experiments.execution.lease import Lease
from experiments.models import Cluster


@contextmanager
def time_visit(cluster: Cluster, held: Lease | None) -> Iterator[None]:
    """Have the lease store how long the block took, and how long after the last visit it began.

    Both in seconds. Without a lease there is no visit, and nothing is stored. `cluster` is the row
    as it was before.
    """
    if held is None:
        yield
        return
    began, now = time.monotonic(), timezone.now()
    before = cluster.last_tick_at
    interval = (
        max((now - before).total_seconds(), 0.0) if before else None
    )  # the clock may be turned
    try:
        yield
    finally:
        held.at_end |= {
            "last_tick_seconds": time.monotonic() - began,
            "last_interval_seconds": interval,
        }
