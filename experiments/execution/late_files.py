"""Jobs whose files are read again after their end: by ticks for a day, or at a person's request."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from experiments.comparisons import COLLECTED_AFTER
from experiments.execution.further_attempts import find_further_attempts
from experiments.execution.moves import record_event
from experiments.execution.removed_files import find_removal
from experiments.models import Job, Run, User
from experiments.planning.interim import read_stage

FIRST_PAUSE = timedelta(minutes=1)
LONGEST_PAUSE = timedelta(hours=2)
UNTIL = timedelta(days=1)


def request_collection(job: Job, by: User) -> bool:
    """Have the next tick read the job's files once more; return False if that is of no use."""
    if not find_further_attempts(job).can_collect:
        return False
    ended = Job.objects.filter(pk=job.pk, attempt=job.attempt, state__in=Job.FINAL)
    with transaction.atomic():
        # The rule of the cluster may be choosing it for removal at this moment.
        if not ended.select_for_update(no_key=True).exists() or find_removal(job):
            return False
        ended.update(collect_at=timezone.now(), collect_asked_by=by)
        record_event(job.experiment, "asked to collect again", job=job, by=by)
    return True


def plan_next(job: Job, *, complete: bool, is_away: bool = False) -> None:
    """Decide when to look for the files of an ended job again."""
    columns = compute_next_look(job, job.ended_at, complete, is_away=is_away)
    Job.objects.filter(pk=job.pk, attempt=job.attempt).update(**columns)


def compute_next_look(
    job: Job, ended_at: datetime | None, complete: bool, *, is_away: bool = False
) -> dict[str, Any]:
    """Return the columns that say when to look again: after growing pauses that add up to a day.

    Only pauses after which Tare could look count: while the site `is_away` no files can come, and
    the day goes on when it answers again.
    """
    tries = job.collect_tries
    over = complete or not ended_at or sum(map(_pause, range(tries + 1)), timedelta(0)) > UNTIL
    return {
        "collect_at": None if over else timezone.now() + _pause(tries),
        "collect_tries": tries if is_away else min(tries + 1, 1000),
        "collect_asked_by": None,
    }


def _pause(tries: int) -> timedelta:
    """Return how long to wait after so many tries."""
    doubled: int = 2 ** min(tries, 10)
    return min(FIRST_PAUSE * doubled, LONGEST_PAUSE)


def is_verdict_out(job: Job) -> bool:
    """Return whether a verdict can be read now that was reached without this job's runs."""
    stage = read_stage(job.experiment)
    over = not stage.alive and stage.states[Run.State.SUCCEEDED] > 0
    return over or job.repeat <= stage.settled


def note_after_verdict(run: Run, by: User | None) -> None:
    """Record that a run counts now that was not known when a verdict could be read."""
    record_event(run.job.experiment, COLLECTED_AFTER, job=run.job, run=run, by=by)
