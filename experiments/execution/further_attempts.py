"""What may still be done about a job that has ended: the one place of these rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count, Q

from experiments.models import Job, Run
from experiments.models.states import NOT_STARTED
from experiments.planning.interim import Stage, stage_of

MAY_CHANGE = (Run.State.FAILED, Run.State.CANCELLED)
"""Runs that more files may say more of. A run that has succeeded keeps its numbers."""


@dataclass(frozen=True)
class FurtherAttempts:
    """Whether a job may be tried again, run for what is missing, or read once more."""

    can_retry: bool = False
    """As long as none of its runs gave a number: a second one could only replace a worse one."""
    missing: int = 0
    """The runs that never began and may be run by another job; 0 where that may not be."""
    can_collect: bool = False

    def __bool__(self) -> bool:
        return self.can_retry or bool(self.missing) or self.can_collect


def further_attempts(job: Job) -> FurtherAttempts:
    return attempts_of([job.pk], stage_of(job.experiment)).get(job.pk, FurtherAttempts())


def attempts_of(jobs: Iterable[int], stage: Stage) -> dict[int, FurtherAttempts]:
    """Return what may be done about each of these jobs of one experiment, in one query.

    Where a planned interim analysis has judged without a job's runs, that verdict stands. And
    nothing is run by a second job before its files were looked for once more, where some may be
    late: a run that did begin would be run twice.
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
        )
    )
    found = {}
    for row in rows:
        is_open = (
            row.state == Job.State.FAILED
            and not row.experiment.cancelled_at
            and row.repeat > stage.settled
        )
        can_repair = is_open and not row.may_be_late and row.not_started < row.held
        found[row.pk] = FurtherAttempts(
            can_retry=is_open and row.failed == row.held,
            missing=row.not_started if can_repair else 0,
            can_collect=row.can_be_collected and row.lacking > 0,
        )
    return found
