"""The rules on what may still be done about a job that has ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Case, Count, Exists, Q, Value, When

from experiments.access.permissions import why_not_use
from experiments.models import Cluster, Job, Removal, Run, User
from experiments.models.cluster_choices import BY_HAND
from experiments.models.states import NOT_STARTED
from experiments.planning.interim import Stage, read_stage

MAY_CHANGE = (Run.State.FAILED, Run.State.CANCELLED)
"""The states of runs that late files may still change. A succeeded run keeps its results."""


class NotDone(Exception):
    """Nothing was changed; the message says why."""


def require_use(by: User, cluster: Cluster, refusal: str = "") -> None:
    """Raise NotDone, which begins with `refusal`, if `by` may not send jobs to the cluster."""
    if why_not := why_not_use(by, cluster):
        raise NotDone(f"{refusal} {why_not}".strip())


@dataclass(frozen=True)
class FurtherAttempts:
    """The further attempts that one job allows: a retry, a repair, or collecting it once more."""

    can_retry: bool = False
    """Only while none of its runs has a result: a retry must not replace a result by a better."""
    missing: int = 0
    """The number of runs that never began and that another job may run; 0 if it may not."""
    can_collect: bool = False

    def __bool__(self) -> bool:
        return self.can_retry or bool(self.missing) or self.can_collect


def find_further_attempts(job: Job) -> FurtherAttempts:
    """Return what may still be done about one job."""
    return find_attempts_of_jobs([job.pk], read_stage(job.experiment)).get(
        job.pk, FurtherAttempts()
    )


def find_attempts_of_jobs(jobs: Iterable[int], stage: Stage) -> dict[int, FurtherAttempts]:
    """Return what may be done about each of these jobs of one experiment, in one query.

    A job that a planned interim analysis has left out stays out: that verdict stands. Where files
    may be late, they are looked for once more before a second job runs what is missing: a run
    that did begin would be run twice.
    """
    failed = Q(runs__state=Run.State.FAILED)
    rows = (
        Job.objects.filter(pk__in=jobs, state__in=Job.FINAL)
        .select_related("experiment")
        .defer("script", "experiment__plan")
        .annotate(
            held=Count("runs"),
            failed=Count("runs", filter=failed),
            not_started=Count("runs", filter=failed & Q(runs__reason=NOT_STARTED)),
            lacking=Count("runs", filter=Q(runs__state__in=MAY_CHANGE)),
            is_away=Case(When(cluster__transport=BY_HAND, then=Value(True)), default=Value(False)),
            is_removed=Exists(Removal.objects.of_outer_job().not_failed()),
        )
    )
    attempts_by_job = {}
    for row in rows:
        is_open = (
            row.state == Job.State.FAILED
            and not row.experiment.cancelled_at
            and row.repeat > stage.settled
        )
        can_repair = is_open and not row.may_be_late and row.not_started < row.held
        attempts_by_job[row.pk] = FurtherAttempts(
            can_retry=is_open and row.failed == row.held > 0,
            missing=row.not_started if can_repair else 0,
            can_collect=row.can_be_collected
            and row.lacking > 0
            and not (row.is_removed or row.is_away),
        )
    return attempts_by_job
