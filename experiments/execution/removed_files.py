"""Whether a job's directory was removed from its cluster by rule, or is about to be."""

from __future__ import annotations

from experiments.models import Job, Removal


def find_removal(job: Job) -> Removal | None:
    """Return the removal of the job's directory, done or under way; None if it is there."""
    return Removal.objects.of_directory(job).not_failed().first()


def explain_removal(job: Job) -> str:
    """Return that the job's files were removed, when and by which rule; "" if they were not."""
    removal = find_removal(job)
    return removal.sentence if removal else ""
