"""The limits of a cluster beside its live jobs: what they still allow, and what they hold back.

Submissions a minute and connections an hour are counted by `ClusterUse`, GPU-hours by `gpu_hours`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Count, Min, Q
from django.utils import timezone

from experiments.execution.gpu_hours import HOUR, GPUUse, find_next_month, read_gpu_use
from experiments.models import Cluster, ClusterUse, Job
from experiments.models.cluster import CONNECTION_LIMIT
from experiments.models.database_time import database_now
from runners.errors import TryAgain

SUBMISSIONS, CONNECTIONS = ClusterUse.Kind.SUBMISSIONS, ClusterUse.Kind.CONNECTIONS
WINDOWS = {SUBMISSIONS: timedelta(minutes=1), CONNECTIONS: timedelta(hours=1)}
KEPT = max(WINDOWS.values())


class LimitReached(TryAgain):
    """The cluster's own limit allows no further connection before `goes_on_at`."""

    def __init__(self, message: str, goes_on_at: datetime) -> None:
        super().__init__(message, kind=CONNECTION_LIMIT)
        self.goes_on_at = goes_on_at


@dataclass(frozen=True)
class Allowance:
    """What a limit of so many in a window leaves, and when it leaves more."""

    used: int
    left: int
    more_at: datetime | None  # None: nothing was used


def compute_allowance(uses: Sequence[tuple[datetime, int]], most: int, kind: str) -> Allowance:
    """Return what is left of `most`; `uses` are times with counts, the oldest first."""
    window = WINDOWS[ClusterUse.Kind(kind)]
    used = sum(count for _, count in uses)
    more_at, over = None, used - most
    for at, count in uses:  # until one more is allowed
        more_at, over = at + window, over - count
        if over < 0:
            break
    return Allowance(used, max(most - used, 0), more_at)


def list_uses(cluster_pk: int, kind: str, now: datetime) -> list[tuple[datetime, int]]:
    """Return what was used within the window of a limit, the oldest first."""
    window = WINDOWS[ClusterUse.Kind(kind)]
    rows = ClusterUse.objects.filter(cluster=cluster_pk, kind=kind, at__gt=now - window)
    # What lies further ahead was written before the clock was turned back.
    return list(rows.filter(at__lt=now + window).order_by("at", "pk").values_list("at", "count"))


def note_use(cluster_pk: int, kind: str, count: int = 1) -> None:
    """Write down what is about to be used, and forget what no window holds any more."""
    now = database_now()
    rows = ClusterUse.objects.filter(Q(at__lt=now - KEPT) | Q(at__gt=now + KEPT))
    rows.filter(cluster=cluster_pk).delete()
    ClusterUse.objects.create(cluster_id=cluster_pk, kind=kind, at=now, count=count)


def claim_connection(cluster_pk: int) -> None:
    """Count a connection that is about to be opened. Raises LimitReached where none is left.

    Workers take turns at the cluster's row: two of them do not open the last one both.
    """
    with transaction.atomic():
        rows = Cluster.objects.select_for_update(no_key=True).filter(pk=cluster_pk)
        name_and_limit = rows.values_list("name", "max_connections_per_hour").first()
        if name_and_limit is None:
            return
        name, most = name_and_limit
        if most is not None:
            now = database_now()
            allowance = compute_allowance(
                list_uses(cluster_pk, CONNECTIONS, now), most, CONNECTIONS
            )
            if not allowance.left:
                at = allowance.more_at or now
                raise LimitReached(
                    f"{name} takes at most {_count(most, 'connection')} an hour from Tare, and "
                    f"has had them; the next one is possible at {_write(at)}.",
                    at,
                )
        note_use(cluster_pk, CONNECTIONS)


def count_submissions_left(cluster: Cluster) -> int | None:
    """Return how many jobs may be submitted now; None where there is no limit."""
    most = cluster.max_submissions_per_minute
    if most is None:
        return None
    uses = list_uses(cluster.pk, SUBMISSIONS, database_now())
    return compute_allowance(uses, most, SUBMISSIONS).left


def note_submissions(cluster: Cluster, count: int) -> None:
    """Count jobs that are about to be submitted, where that is limited."""
    if count and cluster.max_submissions_per_minute is not None:
        note_use(cluster.pk, SUBMISSIONS, count)


def find_gpu_seconds_left(cluster: Cluster) -> float | None:
    """Return the GPU-seconds of this month that are neither used nor kept for live jobs.

    None where there is no limit; less than 0 where the limit was lowered.
    """
    if cluster.max_gpu_hours_per_month is None:
        return None
    use = read_gpu_use([cluster.pk], timezone.now())[cluster.pk]
    return _left(cluster, use)


def _left(cluster: Cluster, use: GPUUse) -> float:
    return (cluster.max_gpu_hours_per_month or 0) * HOUR - use.used - use.kept


@dataclass(frozen=True)
class Hold:
    """A limit that keeps planned jobs from being sent now, in words without a full stop."""

    kind: str
    text: str
    goes_on_at: datetime | None = None  # at the latest; None: nobody knows


def find_holds(
    clusters: Iterable[Cluster], now: datetime, *, experiment: int | None = None
) -> dict[int, list[Hold]]:
    """Return the limits that hold back planned jobs, of all or of one experiment, by cluster.

    Not those of live jobs and connections. Four statements at most, none where nothing is limited.
    """
    rows = list(clusters)
    holds: dict[int, list[Hold]] = {row.pk: [] for row in rows}
    limited = [row for row in rows if row.max_gpu_hours_per_month is not None]
    by_minute = [row for row in rows if row.max_submissions_per_minute is not None]
    if not limited and not by_minute:
        return holds
    planned = Job.objects.filter(
        cluster__in=[row.pk for row in rows],
        state=Job.State.PLANNED,
        experiment__cancelled_at=None,
        experiment__paused_at=None,
    )
    if experiment is not None:
        planned = planned.filter(experiment=experiment)
    counted = planned.order_by().values_list("cluster_id")
    least = {
        pk: gpu_seconds for pk, _, gpu_seconds in counted.annotate(Count("pk"), Min("gpu_seconds"))
    }
    use = read_gpu_use([row.pk for row in limited if row.pk in least], now)
    uses = _list_submissions([row.pk for row in by_minute if row.pk in least], now)
    for row in rows:
        if row.pk in use and (hold := _find_gpu_hold(row, use[row.pk], least[row.pk], now)):
            holds[row.pk].append(hold)
        if row.pk in uses and row.max_submissions_per_minute is not None:
            most = row.max_submissions_per_minute
            allowance = compute_allowance(uses[row.pk], most, SUBMISSIONS)
            if not allowance.left and allowance.more_at:
                text = f"{row} takes at most {_count(most, 'submission')} a minute from Tare"
                text += f", the next at {_write(allowance.more_at, seconds=True)}"
                holds[row.pk].append(Hold("submissions", text, allowance.more_at))
    return holds


def _list_submissions(
    clusters: Sequence[int], now: datetime
) -> dict[int, list[tuple[datetime, int]]]:
    """Return the submissions of the last minute, by cluster."""
    uses: dict[int, list[tuple[datetime, int]]] = {pk: [] for pk in clusters}
    if clusters:
        window = WINDOWS[SUBMISSIONS]
        rows = ClusterUse.objects.filter(
            cluster__in=clusters, kind=SUBMISSIONS, at__gt=now - window, at__lt=now + window
        )
        for pk, at, count in rows.order_by("at", "pk").values_list("cluster_id", "at", "count"):
            uses[pk].append((at, count))
    return uses


def _find_gpu_hold(cluster: Cluster, use: GPUUse, least: int, now: datetime) -> Hold | None:
    """Return how the limit of GPU-hours holds all planned jobs back; None if one may be sent."""
    if not least or least <= _left(cluster, use):
        return None
    most = cluster.max_gpu_hours_per_month or 0
    text = f"{cluster} has {_count(most, 'GPU-hour')} a month for Tare"
    if least > most * HOUR:
        text += f", and the smallest of these jobs may take {least / HOUR:.1f}: somebody has to "
        return Hold("GPU-hours", f"{text}raise the limit, or cancel them")
    text += f": {describe_use(use, now)}"
    next_month = find_next_month(now)
    sooner = "as live jobs end, or " if use.live else ""
    text += f", and each of these jobs may take {least / HOUR:.1f} or more; it goes on {sooner}"
    return Hold("GPU-hours", f"{text}at {_write(next_month)}", next_month)


def describe_use(use: GPUUse, now: datetime) -> str:
    """Return how many GPU-hours of this month are used and kept, in words."""
    text = f"{use.used / HOUR:.1f} are used in {now:%B}"
    if use.live:
        text += f", {use.kept / HOUR:.1f} kept for {_count(use.live, 'live job')}"
    return text


def describe_limits(cluster: Cluster, now: datetime) -> list[tuple[str, str]]:
    """Return the limits that are set, beside that of live jobs, with what is used of them."""
    limits = []
    if (most := cluster.max_submissions_per_minute) is not None:
        used = compute_allowance(list_uses(cluster.pk, SUBMISSIONS, now), most, SUBMISSIONS).used
        limits.append(("Submissions", f"at most {most} a minute; {used} in the last one"))
    if (most := cluster.max_connections_per_hour) is not None:
        used = compute_allowance(list_uses(cluster.pk, CONNECTIONS, now), most, CONNECTIONS).used
        limits.append(("Connections", f"at most {most} an hour; {used} in the last one"))
    if (most := cluster.max_gpu_hours_per_month) is not None:
        use = describe_use(read_gpu_use([cluster.pk], now)[cluster.pk], now)
        ends = _write(find_next_month(now))
        limits.append(("GPU-hours", f"at most {most} a month; {use}; the month ends at {ends}"))
    return limits


def warn_of_gpu_hours(
    cluster: Cluster, *, gpu_hours: float, longest: float, now: datetime, further: float = 0.0
) -> str:
    """Return what the limit of GPU-hours means for a planned experiment; "" if it leaves enough.

    `gpu_hours`: of the whole experiment; `further`: of runs that are rejected and run again, at
    most; `longest`: of its largest job.
    """
    most = cluster.max_gpu_hours_per_month
    if most is None or not gpu_hours:
        return ""
    if longest > most:
        return (
            f"Its largest job may take {longest:.1f} GPU-hours, more than the "
            f"{most} that {cluster} has a month for Tare: it would never be sent."
        )
    left = max((find_gpu_seconds_left(cluster) or 0.0) / HOUR, 0.0)
    if gpu_hours + further <= left:
        return ""
    is_for_rejected = gpu_hours <= left
    what = "where rules reject runs, what" if is_for_rejected else "what"
    return (
        f"{cluster} has {left:.1f} of {_count(most, 'GPU-hour')} left in {now:%B}: {what} does not "
        "fit waits until jobs have ended, or for the next month, which begins at "
        f"{_write(find_next_month(now))}."
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _write(moment: datetime, *, seconds: bool = False) -> str:
    """Return a time as sentences have it: pages show it in the reader's own zone (`timed`)."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if seconds else f"{moment:%Y-%m-%d %H:%M} UTC"
