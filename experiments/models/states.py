"""The states of jobs and runs, and the ways between them. Who moves them: `moves.move`."""

from __future__ import annotations

from collections.abc import Set

from django.db import models


class JobState(models.TextChoices):
    """The states of a job."""

    PLANNED = "planned", "planned"
    SUBMITTING = "submitting", "submitting"
    QUEUED = "queued", "queued"
    RUNNING = "running", "running"
    COLLECTING = "collecting", "collecting"
    DONE = "done", "done"
    FAILED = "failed", "failed"
    CANCELLED = "cancelled", "cancelled"


JOB_LIVE = (JobState.SUBMITTING, JobState.QUEUED, JobState.RUNNING, JobState.COLLECTING)
JOB_FINAL = (JobState.DONE, JobState.FAILED, JobState.CANCELLED)
JOB_NEXT: dict[str, Set[str]] = {
    JobState.PLANNED: {JobState.SUBMITTING, JobState.FAILED, JobState.CANCELLED},
    # Back to PLANNED where the site takes no job now, and has not taken this one.
    JobState.SUBMITTING: {
        *(JobState.QUEUED, JobState.FAILED, JobState.CANCELLED),
        JobState.PLANNED,
    },
    JobState.QUEUED: {JobState.RUNNING, JobState.COLLECTING},
    JobState.RUNNING: {JobState.COLLECTING},
    JobState.COLLECTING: {JobState.DONE, JobState.FAILED, JobState.CANCELLED},
    JobState.DONE: set(),
    # A retry is the next attempt of the same job, in a new directory.
    # Or its files arrived late, and say that it came to its end.
    JobState.FAILED: {JobState.PLANNED, JobState.DONE},
    JobState.CANCELLED: set(),
}


class RunState(models.TextChoices):
    """The states of a run."""

    PLANNED = "planned", "planned"
    RUNNING = "running", "running"
    SUCCEEDED = "succeeded", "succeeded"
    FAILED = "failed", "failed"
    CANCELLED = "cancelled", "cancelled"
    EXCLUDED = "excluded", "excluded"


NOT_STARTED = "not started"
"""The reason of failed runs that never began: their job ended in another one of its runs."""
RUN_FINAL = (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.EXCLUDED)
RUN_NEXT: dict[str, Set[str]] = {
    RunState.PLANNED: {RunState.RUNNING, *RUN_FINAL} - {RunState.EXCLUDED},
    RunState.RUNNING: set(RUN_FINAL) - {RunState.EXCLUDED},
    RunState.SUCCEEDED: {RunState.EXCLUDED},
    # The next attempt of a job that ended before any of its runs gave a number.
    # Or its files arrived late, and say that it had succeeded.
    RunState.FAILED: {RunState.PLANNED, RunState.SUCCEEDED},
    RunState.CANCELLED: {RunState.SUCCEEDED},
    # A person has undone the exclusion.
    RunState.EXCLUDED: {RunState.SUCCEEDED},
}
