"""Visits to clusters: when the last one was, how long it took, when the next is due, what is wrong.

A handful of statements, however many clusters and jobs there are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, QuerySet
from django.db.models.functions import Now

from experiments.execution.holder import is_same_process
from experiments.execution.limits import find_holds
from experiments.execution.overdue_visits import compute_due, is_late
from experiments.models import Cluster, Job, Operation, ServiceSign
from experiments.models.cluster import CONNECTION_LIMIT
from experiments.models.compiled_rows import CompiledRows

COLUMNS = (
    "name",
    "enabled",
    "preparing",
    "poll_seconds",
    "transport",
    "max_live_jobs",
    "max_submissions_per_minute",
    "max_connections_per_hour",
    "max_gpu_hours_per_month",
    "changed_at",
    "lease_token",
    "lease_until",
    "last_tick_at",
    "last_tick_seconds",
    "last_interval_seconds",
    "last_seen_at",
    "last_error",
    "last_error_kind",
    "own_failure",
    "own_failed_at",
    "failures",
    "retry_at",
)
LEASED = CompiledRows(
    lambda: Cluster.objects.filter(lease_until__gt=Now()).only("name", "lease_token")
)
LIVE_STATES = [str(state) for state in Job.LIVE]


@dataclass(frozen=True)
class ClusterVisits:
    """A cluster with its visits and what waits for them. Times in seconds."""

    cluster: Cluster
    live: int
    waiting: int
    paused: int
    setting_seconds: float | None  # None: what is stored is no usable number
    due_at: datetime | None  # None: at once
    holder: str  # who visits it now, "" if nobody does
    planned_seconds: float | None  # what the interval is now: shorter while jobs change
    state: str  # in a word or two
    rank: int  # the worst first
    holds: tuple[str, ...] = ()  # limits that keep what waits from being sent, in words
    late_seconds: float = 0.0
    due_in_seconds: float | None = None

    @property
    def is_due(self) -> bool:
        """Return whether the next visit may begin: its time has come, and nobody is there."""
        return not self.holder and (self.due_in_seconds or 0.0) <= 0

    @property
    def took_seconds(self) -> float | None:
        return self.cluster.last_tick_seconds

    @property
    def interval_seconds(self) -> float | None:
        """Return the real interval: that of the last two visits, or longer if none came since."""
        return self.cluster.last_interval_seconds

    @property
    def mark(self) -> str:
        """Return the state whose symbol pages draw before the words."""
        if self.rank > 3:
            return "yes" if self.rank == 5 else "planned"
        return "paused" if self.state in ("paused", CONNECTION_LIMIT) else "no"


def list_cluster_visits(now: datetime, signs: Sequence[ServiceSign] = ()) -> list[ClusterVisits]:
    """Return all clusters that Tare visits or whose jobs it has, the worst first."""
    live: Counter[int] = Counter()
    waiting: Counter[int] = Counter()
    jobs, operations = (
        model._default_manager.exclude(state__in=model.FINAL)
        .order_by()
        .values_list("cluster_id", "state")
        .annotate(count=Count("pk"))
        for model in (Job, Operation)
    )
    for cluster_pk, state, count in jobs.union(operations, all=True):
        (live if state in LIVE_STATES else waiting)[cluster_pk] += count
    clusters: QuerySet[Any] = Cluster.objects.filter(recorded=False).only(*COLUMNS)
    visits = [
        _make(row, now, signs, live[row.pk], waiting[row.pk], row.paused)
        for row in clusters.annotate(paused=Count("pauses"))
    ]
    holds = find_holds([visit.cluster for visit in visits if visit.waiting], now)
    visits = [
        replace(visit, holds=(*_describe_live(visit), *(hold.text for hold in held_by)))
        if (held_by := holds.get(visit.cluster.pk)) is not None
        else visit
        for visit in visits
    ]

    def order(row: ClusterVisits) -> tuple[int, float, int, str]:
        # What is well keeps its place while seconds pass.
        late = row.late_seconds if row.rank < 2 else 0.0
        return row.rank, -late, -row.live, row.cluster.name

    return sorted(visits, key=order)


def _describe_live(visit: ClusterVisits) -> tuple[str, ...]:
    """Return the limit of live jobs in words, if it is reached."""
    most = visit.cluster.max_live_jobs
    return (f"{visit.live} of {most} live jobs",) if visit.live >= most else ()


def list_leased() -> list[Cluster]:
    """Return the clusters that somebody visits now."""
    return LEASED.read()


def _make(
    row: Cluster,
    now: datetime,
    signs: Sequence[ServiceSign],
    live: int,
    waiting: int,
    paused: int,
) -> ClusterVisits:
    is_busy = bool(live or waiting)
    setting = _find_setting(row, is_busy=is_busy)
    planned = row.interval_seconds if setting is not None and is_busy else setting
    due_at = compute_due(row, planned)
    late = (now - due_at).total_seconds() if due_at else 0.0
    holder = _find_holder(row, now, signs)
    state, rank = _judge(row, live + waiting, setting, late, paused, holder)
    return ClusterVisits(
        cluster=row,
        live=live,
        waiting=waiting,
        paused=paused,
        setting_seconds=setting,
        planned_seconds=planned,
        due_at=due_at,
        holder=holder,
        state=state,
        rank=rank,
        late_seconds=max(late, 0.0),
        due_in_seconds=-late if due_at else None,
    )


def _find_setting(row: Cluster, *, is_busy: bool) -> float | None:
    """Return how many seconds apart visits are to begin; None where the column makes no sense."""
    seconds = row.poll_seconds
    if not math.isfinite(seconds) or not 0 <= seconds < timedelta.max.total_seconds() / 2:
        return None
    return seconds if is_busy else row.idle_seconds


def _find_holder(row: Cluster, now: datetime, signs: Sequence[ServiceSign]) -> str:
    if row.lease_until is None or row.lease_until <= now:
        return ""
    for sign in signs:
        if is_same_process(sign.token, row.lease_token):
            return f"{sign} on {sign.host} (process {sign.pid})"
    return "a process that shows no sign of life"


def _judge(
    row: Cluster, jobs: int, setting: float | None, late: float, paused: int, holder: str
) -> tuple[str, int]:
    """Return the state in words, and how bad it is: 0 to 2 need somebody."""
    if not row.enabled:
        return ("off, with jobs", 0) if jobs else ("off", 6)
    if setting is None:
        return "interval is no number", 0
    if row.failures:
        return row.trouble or "fails", 1
    if row.waits_for_connections:
        return CONNECTION_LIMIT, 2
    if not holder and row.last_tick_at and is_late(late, setting):
        return "late", 1
    if row.last_tick_at is None and not row.preparing:
        return "never visited", 2 if jobs else 4
    if paused:
        return "paused", 2
    if row.preparing:
        return "being set up", 4
    if holder:
        return "visited now", 5
    return ("due" if late > 0 else "on time"), 5
