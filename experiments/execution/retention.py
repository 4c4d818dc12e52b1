"""Which job directories the rule of a cluster removes from its disk, and what keeps the others.

The rule is `Cluster.retention_days`; without it all of them stay. Nothing that is looked at here
follows from the disk: a directory goes only if Tare has noted that its whole record was collected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import CharField, Count, Exists, F, OuterRef, Q, QuerySet, Sum, Value
from django.db.models.functions import Concat
from django.utils import timezone

from experiments.models import (
    Cluster,
    Job,
    Operation,
    Removal,
    Run,
    RunFile,
    Segment,
    ShareLink,
)

TRIED_AGAIN_AFTER = timedelta(days=1)
"""A directory that could not be removed is not tried before."""
PROBLEMS_SHOWN = 5

Holds = dict[str, Callable[[Cluster], Q]]


def _is_pinned(cluster: Cluster) -> Q:
    return Q(experiment__pinned_at__isnull=False)


def _is_behind_a_link(cluster: Cluster) -> Q:
    links = ShareLink.objects.valid().filter(experiment__isnull=False)
    return Q(experiment__in=links.values("experiment"))


def _is_waited_for(cluster: Cluster) -> Q:
    """Return the condition for jobs of whose files somebody asked for a copy lately."""
    lately = timezone.now() - timedelta(days=cluster.retention_days or 0)
    files = RunFile.objects.filter(run__job=OuterRef("pk"))
    awaited = Q(requested_at__isnull=False, copied_at=None, problem="")
    return Q(Exists(files.filter(awaited | Q(requested_at__gt=lately))))


def _has_uncopied_files(cluster: Cluster) -> Q:
    if cluster.removes_uncopied:
        return Q(pk__in=[])
    return Q(Exists(RunFile.objects.filter(run__job=OuterRef("pk"), copied_at=None)))


def _is_gone_on_with(cluster: Cluster) -> Q:
    """Return the condition for jobs whose checkpoints a run that is not at its end needs."""
    ended = Q(run__state__in=Run.FINAL)
    return Q(Exists(Segment.objects.filter(~ended, job=OuterRef("pk"))))


HOLDS: Holds = {
    "a run goes on from their checkpoints": _is_gone_on_with,
    "their experiment is pinned": _is_pinned,
    "a link opens their experiment": _is_behind_a_link,
    "a copy of one of their files was asked for": _is_waited_for,
    "they hold files that were never copied": _has_uncopied_files,
}
"""Why directories that are old enough stay, and the condition for each reason. The first counts."""


def list_known(cluster: Cluster) -> QuerySet[Job]:
    """Return the ended jobs whose directories are below today's work directory, and there."""
    folder = f"{cluster.work_directory.rstrip('/')}/jobs/"
    name = Concat(Value(folder), F("uid"), Value("-"), F("attempt"), output_field=CharField())
    removed = Removal.objects.of_outer_job().done()
    return (
        Job.objects.filter(cluster=cluster, state__in=Job.FINAL, submitted_at__isnull=False)
        .annotate(own_directory=name)
        .filter(~Exists(removed), directory=F("own_directory"))
    )


def list_verified(cluster: Cluster) -> QuerySet[Job]:
    """Return those of them whose whole record was collected, with nothing still expected."""
    return list_known(cluster).filter(verified_at__isnull=False, collect_at=None)


def list_old(cluster: Cluster) -> QuerySet[Job]:
    """Return those of them that were verified so many days ago as the rule says, or earlier."""
    if cluster.retention_days is None:
        return Job.objects.none()
    oldest = timezone.now() - timedelta(days=cluster.retention_days)
    return list_verified(cluster).filter(verified_at__lte=oldest)


def list_removable(cluster: Cluster) -> QuerySet[Job]:
    """Return the jobs whose directories the rule removes, and nothing holds."""
    jobs = list_old(cluster)
    for hold in HOLDS.values():
        jobs = jobs.exclude(hold(cluster))
    return jobs


def list_due(cluster: Cluster) -> QuerySet[Job]:
    """Return those that are to be removed next, the oldest first; failures wait for a day."""
    lately = timezone.now() - TRIED_AGAIN_AFTER
    failed = Removal.objects.of_outer_job().exclude(problem="").filter(chosen_at__gt=lately)
    return list_removable(cluster).filter(~Exists(failed)).order_by("verified_at", "pk")


@dataclass(frozen=True)
class Summary:
    """What the rule of a cluster has removed, removes next, and leaves."""

    due: int
    held: list[tuple[str, int]]
    """Why directories that are old enough stay, and how many."""
    unverified: int
    next_at: datetime | None
    """When the next one is old enough, if none is due."""
    removed: int
    freed_bytes: int
    problems: list[Removal]
    operation: Operation | None
    """The last that removed, or removes, directories."""


def summarize(cluster: Cluster) -> Summary:
    """Return what a cluster's page says about its rule."""
    old, held = list_old(cluster), []
    for why, hold in HOLDS.items():
        if count := old.filter(hold(cluster)).count():
            held.append((why, count))
        old = old.exclude(hold(cluster))
    done = Removal.objects.filter(job__cluster=cluster).done()
    totals = done.aggregate(count=Count("pk"), freed_bytes=Sum("freed_bytes"))
    failed = Removal.objects.filter(job__cluster=cluster, removed_at=None).exclude(problem="")
    return Summary(
        due=old.count(),
        held=held,
        unverified=list_known(cluster).filter(verified_at=None).count(),
        next_at=_find_next(cluster),
        removed=totals["count"],
        freed_bytes=totals["freed_bytes"] or 0,
        problems=list(failed.order_by("-chosen_at")[:PROBLEMS_SHOWN]),
        operation=cluster.operations.filter(kind=Operation.Kind.CLEAN_UP).first(),
    )


def _find_next(cluster: Cluster) -> datetime | None:
    """Return when the youngest rule-bound directory that is not yet old enough will be."""
    if cluster.retention_days is None:
        return None
    days = timedelta(days=cluster.retention_days)
    young = list_verified(cluster).filter(verified_at__gt=timezone.now() - days)
    first = young.order_by("verified_at").values_list("verified_at", flat=True).first()
    return first + days if first else None


def describe_future(job: Job) -> str:
    """Return when the rule will remove the job's directory, or what holds it; "" without a rule."""
    cluster = job.cluster
    if cluster.retention_days is None or not job.is_final:
        return ""
    rule = f"the cluster’s rule of {cluster.retention_days} day"
    rule += "" if cluster.retention_days == 1 else "s"
    if not list_verified(cluster).filter(pk=job.pk).exists():
        return f"They stay whatever {rule} says: their collection was not verified as complete."
    for why, hold in HOLDS.items():
        if Job.objects.filter(hold(cluster), pk=job.pk).exists():
            return f"They stay whatever {rule} says: {DESCRIBED[why]}."
    assert job.verified_at
    day = timezone.localtime(job.verified_at + timedelta(days=cluster.retention_days))
    return (
        f"They are removed on {day.strftime('%-d %B %Y')} or later, by {rule}, unless somebody "
        "pins the experiment."
    )


DESCRIBED = dict(
    zip(
        HOLDS,
        (
            "a run goes on from its checkpoint there",
            "the experiment is pinned",
            "a link opens the experiment",
            "a copy of one of them was asked for",
            "some were never copied",
        ),
        strict=True,
    )
)
"""The same reasons, as they follow in a sentence about the files of one job."""
