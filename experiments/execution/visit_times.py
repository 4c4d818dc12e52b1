"""When visits may begin before their time, how long they take, and how far apart they are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from experiments.execution.cancelling import find_last_cancellation
from experiments.execution.lease import Lease
from experiments.models import Cluster

LEAST_PAUSE = timedelta(seconds=1)  # between two visits, however urgent


def is_urgent(cluster: Cluster, now: datetime) -> bool:
    """Return whether a visit need not wait for its time: a person has cancelled jobs there.

    So whoever cancels waits neither for the cluster's interval nor for a back-off. It is urgent
    until the scheduler was asked to: a click between two statements of a visit is not missed. Where
    visits fail before that, each next one is urgent after a pause twice as long, as any other is
    after its back-off. `now` is PostgreSQL's.
    """
    last = cluster.last_tick_at
    if last is None or now - last < LEAST_PAUSE:
        return False
    requested_at = find_last_cancellation(cluster)
    return requested_at is not None and now - last >= last - requested_at


@contextmanager
def time_visit(cluster: Cluster, held: Lease | None, now: datetime) -> Iterator[None]:
    """Have the lease store how long the block took, and how long after the last visit it began.

    Both in seconds. Without a lease there is no visit, and nothing is stored. `cluster` is the row
    as it was before, `now` the time by PostgreSQL's clock.
    """
    if held is None:
        yield
        return
    began = time.monotonic()
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
