"""Visits that are due and do not begin: no worker or no clock runs, or the workers do not keep up.

What a cluster's row says of its jobs is then as old as its last visit.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from datetime import datetime, timedelta

from django.utils import timezone

from experiments.models import Cluster, Experiment
from experiments.models.cluster import LONGEST_BACK_OFF

LEAST_LATE_SECONDS = 30.0


def compute_due(cluster: Cluster, interval_seconds: float | None) -> datetime | None:
    """Return when the next visit is due; None: at once, as nothing is known of an earlier one."""
    if cluster.last_tick_at is None or interval_seconds is None:
        return cluster.retry_at
    # One that takes longer than its interval is over before the next one begins.
    seconds = max(interval_seconds, cluster.last_tick_seconds or 0.0)
    try:
        due_at = cluster.last_tick_at + timedelta(seconds=seconds)
    except (OverflowError, ValueError):  # no calendar has it, or it is no number
        return cluster.retry_at
    return max(due_at, cluster.retry_at) if cluster.retry_at else due_at


def is_late(late_seconds: float, setting_seconds: float) -> bool:
    """Return whether a visit is later than busy workers alone would make it."""
    return late_seconds > max(2 * setting_seconds, LEAST_LATE_SECONDS)


def find_overdue(
    cluster: Cluster, now: datetime, *, is_followed: bool, asked_at: datetime | None = None
) -> datetime | None:
    """Return since when a visit that does not begin was due; None if nothing is late.

    `is_followed`: whether jobs there are live or wait; `asked_at`: when that was last changed by
    what somebody did or an earlier visit saw, before which nobody could have come.
    """
    if not cluster.enabled or cluster.preparing:
        return None
    if cluster.lease_until and cluster.lease_until > now:
        return None  # somebody is there
    if cluster.retry_at and cluster.retry_at > now + LONGEST_BACK_OFF:
        return None  # written before the clock was turned back
    setting = cluster.poll_seconds if is_followed else cluster.idle_seconds
    due_at = compute_due(cluster, cluster.interval_seconds if is_followed else setting)
    times = [moment for moment in (due_at, asked_at) if moment]
    if not times or not is_late((now - max(times)).total_seconds(), setting):
        return None
    return max(times)


def find_overdue_visit(experiment: Experiment, now: datetime) -> datetime | None:
    """Return since when a visit that a launched, unfinished experiment waits for was due."""
    cluster = experiment.cluster
    was_visited = compute_due(cluster, cluster.interval_seconds) is not None
    if was_visited and not find_overdue(cluster, now, is_followed=True):
        return None  # nor is it then, whatever happened last
    asked_at = experiment.find_last_event().at or experiment.launched_at
    return find_overdue(cluster, now, is_followed=True, asked_at=asked_at)


def find_overdue_of_clusters(
    clusters: Iterable[Cluster], *, followed: Container[int]
) -> dict[int, datetime]:
    """Return since when a visit was due, by the key of each cluster to which none begins.

    `followed`: the keys of those that have live jobs. No query.
    """
    now = timezone.now()
    since = {row.pk: find_overdue(row, now, is_followed=row.pk in followed) for row in clusters}
    return {pk: due_at for pk, due_at in since.items() if due_at}
