"""Jobs whose files are read once more after their end: by the tick for a day, or when asked."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from experiments.comparisons import COLLECTED_AFTER
from experiments.execution.further_attempts import further_attempts
from experiments.execution.lifecycle import record
from experiments.models import Job, Run, User
from experiments.planning.interim import stage_of

FIRST_PAUSE = timedelta(minutes=1)
LONGEST_PAUSE = timedelta(hours=2)
UNTIL = timedelta(days=1)


def ask_to_collect_again(job: Job, by: User) -> bool:
    """Have the next tick read the job's files once more; False if nothing could come of it."""
    if not further_attempts(job).can_collect:
        return False
    ended = Job.objects.filter(pk=job.pk, attempt=job.attempt, state__in=Job.FINAL)
    if not ended.update(collect_at=timezone.now(), collect_asked_by=by):
        return False
    record(job.experiment, "asked to collect again", job=job, by=by)
    return True


def plan_next(job: Job, *, complete: bool, is_away: bool = False) -> None:
    """Decide when the files are looked for again: in growing pauses, of a day together.

    What counts are the pauses after which Tare has looked, and no clock: while the site `is_away`
    nothing can come, and the day goes on when it answers again.
    """
    tries = job.collect_tries
    over = complete or not job.ended_at or sum(map(_pause, range(tries + 1)), timedelta(0)) > UNTIL
    Job.objects.filter(pk=job.pk, attempt=job.attempt).update(
        collect_at=None if over else timezone.now() + _pause(tries),
        collect_tries=tries if is_away else min(tries + 1, 1000),
        collect_asked_by=None,
    )


def _pause(tries: int) -> timedelta:
    """Return how long to wait after so many looks."""
    doubled: int = 2 ** min(tries, 10)
    return min(FIRST_PAUSE * doubled, LONGEST_PAUSE)


def verdict_is_out(job: Job) -> bool:
    """Whether a verdict can be read now that did not know the runs of this job."""
    stage = stage_of(job.experiment)
    over = not stage.alive and stage.states[Run.State.SUCCEEDED] > 0
    return over or job.repeat <= stage.settled


def note_after_verdict(run: Run, by: User | None) -> None:
    """Write down that a run counts which was not known when a verdict could be read."""
    record(run.job.experiment, COLLECTED_AFTER, job=run.job, run=run, by=by)
