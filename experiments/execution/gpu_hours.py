"""GPU-hours of clusters by month: what ended jobs used, and what live ones may still use.

A job counts for as many GPUs as it asked for, from its start to its end. Months are those of UTC.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.db import connection
from django.db.models import Count, Sum

from experiments.design import Scale
from experiments.models import GPUMonth, Job

HOUR = 3600.0


@dataclass(frozen=True)
class GPUUse:
    """The GPU-seconds of one cluster in this month: used by ended jobs, kept for live ones."""

    used: float = 0.0
    kept: float = 0.0
    live: int = 0  # jobs for which they are kept


def find_month(moment: datetime) -> date:
    """Return the first day of a moment's month, in UTC."""
    return moment.astimezone(UTC).date().replace(day=1)


def find_next_month(moment: datetime) -> datetime:
    """Return when the month after a moment's begins, in UTC."""
    later = find_month(moment) + timedelta(days=32)
    return datetime(later.year, later.month, 1, tzinfo=UTC)


def split_by_month(began: datetime, ended: datetime) -> Iterator[tuple[date, float]]:
    """Yield each month of a period with the seconds of the period in it."""
    while began < ended:
        until = min(find_next_month(began), ended)
        yield find_month(began), (until - began).total_seconds()
        began = until


def count_gpu_time(keys: Iterable[int]) -> None:
    """Add the GPU time of jobs that have just ended to the months of their clusters.

    To be called once for each attempt of a job, in the transaction that moves it out of COLLECTING.
    """
    columns = ("cluster_id", "scale", "gpu_seconds", "started_at", "ended_at", "gone_at")
    jobs = Job.objects.filter(pk__in=list(keys), gpu_seconds__gt=0).only(*columns)
    totals: defaultdict[tuple[int, date], float] = defaultdict(float)
    for job in jobs:
        gpus = Scale.parse(job.scale).gpus
        for month, seconds in _list_times(job, job.gpu_seconds / gpus if gpus else 0):
            totals[job.cluster_id, month] += seconds * gpus
    for (cluster_pk, month), gpu_seconds in sorted(totals.items()):
        _add(cluster_pk, month, gpu_seconds)


def _list_times(job: Job, most_seconds: float) -> Iterator[tuple[date, float]]:
    """Yield the months in which a job ran, with seconds; a job takes no longer than its time limit.

    The node's clock, which may be wrong, says how long it ran; Tare's own says when that was.
    """
    if job.started_at is None:
        return
    gone_at = job.gone_at or job.ended_at
    ends = [at for at in (job.ended_at, job.gone_at) if at and at > job.started_at]
    if not ends or gone_at is None:
        return
    seconds = min((min(ends) - job.started_at).total_seconds(), most_seconds)
    yield from split_by_month(gone_at - timedelta(seconds=seconds), gone_at)


def _add(cluster_pk: int, month: date, gpu_seconds: float) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO experiments_gpumonth (cluster_id, month, gpu_seconds) VALUES (%s, %s, %s)"
            " ON CONFLICT (cluster_id, month) DO UPDATE"
            " SET gpu_seconds = experiments_gpumonth.gpu_seconds + excluded.gpu_seconds",
            [cluster_pk, month, gpu_seconds],
        )


def read_gpu_use(clusters: Iterable[int], now: datetime) -> dict[int, GPUUse]:
    """Return the use of each of these clusters in this month, by key. Two statements."""
    keys = list(clusters)
    if not keys:
        return {}
    months = GPUMonth.objects.filter(cluster__in=keys, month=find_month(now))
    used = dict(months.values_list("cluster_id", "gpu_seconds"))
    live = Job.objects.filter(cluster__in=keys, state__in=Job.LIVE, gpu_seconds__gt=0).order_by()
    counted = live.values_list("cluster_id").annotate(kept=Sum("gpu_seconds"), live=Count("pk"))
    kept = {pk: (seconds, count) for pk, seconds, count in counted}
    return {pk: GPUUse(used.get(pk, 0.0), *kept.get(pk, (0.0, 0))) for pk in keys}
