"""What a scheduler answers about a row's job, by its number and its name.

Numbers alone do not tell: a scheduler that has lost its state gives them again, to other jobs.
"""

from __future__ import annotations

from collections.abc import Mapping

from experiments.models import Job, Operation
from runners.schedulers import JobEnding, Status
from runners.schedulers.base import is_of_another_job


def find_status(row: Job | Operation, statuses: Mapping[str, Status]) -> Status | None:
    """Return the status of a row's live job; None if the queue does not have it."""
    status = statuses.get(row.scheduler_id)
    return None if status is None or is_of_another_job(status, row.name) else status


def find_ending(row: Job | Operation, endings: Mapping[str, JobEnding]) -> JobEnding | None:
    """Return the accounts of a row's ended job; None if there are none."""
    ending = endings.get(row.scheduler_id)
    return None if ending is None or is_of_another_job(ending, row.name) else ending
