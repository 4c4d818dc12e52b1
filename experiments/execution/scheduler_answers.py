"""What a scheduler answers about a row's job, by its number and its name.

Numbers alone do not tell: a scheduler that has lost its state gives them again, to other jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from experiments.models import Job, Operation
from runners.errors import TryAgain
from runners.runner import Runner
from runners.schedulers import JobEnding, Status
from runners.schedulers.base import is_of_another_job


def find_status(row: Job | Operation, statuses: Mapping[str, Status]) -> Status | None:
    """Return the status of a row's live job; None if the queue does not have it."""
    status = statuses.get(row.scheduler_id)
    return None if status is None or is_of_another_job(status, row.name) else status


def read_expected_start(status: Status) -> datetime | None:
    """Return when a job that waits is expected to start, to the minute; None if nothing is said.

    Estimates move by seconds with each pass of the scheduler: that is no news.
    """
    if status.state != "queued" or status.expected_start is None:
        return None
    return datetime.fromtimestamp(status.expected_start // 60 * 60, tz=UTC)


def find_ending(row: Job | Operation, endings: Mapping[str, JobEnding]) -> JobEnding | None:
    """Return the accounts of a row's ended job; None if there are none."""
    ending = endings.get(row.scheduler_id)
    return None if ending is None or is_of_another_job(ending, row.name) else ending


class NoAccounts(TryAgain):
    """The accounts of ended jobs do not answer. All that needs none of them goes on."""


def ask_endings(rows: Sequence[Job | Operation], runner: Runner) -> Mapping[str, JobEnding]:
    """Return how jobs ended, by number, as far as the scheduler remembers. Raises NoAccounts."""
    try:
        return runner.read_endings([row.scheduler_id for row in rows])
    except TryAgain as error:
        if error.kind != "busy":  # then nothing else is answered either
            raise
        message = f"it has ended, and waits for the scheduler's accounts. {error}"
        raise NoAccounts(message, kind=error.kind) from error
