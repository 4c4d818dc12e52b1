"""Jobs that their scheduler has lost before they began: Tare makes sure that they never will.

Neither the queue nor the accounts know such a job, or they say that nobody has ended it, and its
directory holds no sign of it. All the same a copy of it may come back, as from a saved state of the
scheduler. So Tare claims the directory itself, by the link that the job script would make first.
Whoever has the claim decides: the job was provably never executed, or it has begun and its files
say how it ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

from experiments.execution.repairs import is_taken_back
from experiments.models import Job, Operation
from runners.records import Record
from runners.runner import Runner
from runners.schedulers import JobEnding

LOST = "lost before it began"
GONE = "gone before it began"
CLAIMED = "Tare has claimed its directory, so no copy of it can begin"


def is_unbegun(
    row: Job | Operation, record: Record, reason: str, ending: JobEnding | None
) -> TypeGuard[Job]:
    """Return whether a job's scheduler has lost it, and nothing that it left says that it began.

    Of a job that a person has cancelled it does not matter; one that is taken back is sent again.
    """
    if not isinstance(row, Job) or (row.cancel_requested_at and not is_taken_back(row)):
        return False
    # A node that never started the job lets its time pass, until the scheduler calls that TIMEOUT.
    is_lost = (reason == "lost" and ending is None) or reason in ("controller failure", "time-out")
    has_begun = record.started_by or record.exit_code is not None or record.journal
    return is_lost and not has_begun


def claim_unbegun(unbegun: Mapping[Job, str], runner: Runner) -> dict[int, tuple[str, str]]:
    """Claim the directories of jobs that seem not to have begun, by one command.

    `unbegun` has what the scheduler says of each, "" if nothing. Return the reason of their end,
    with its evidence, by key; without those that have begun all the same, or whose directories
    cannot be claimed. To claim one again gives the same answer.
    """
    if not unbegun:
        return {}
    claimed = runner.claim([job.directory for job in unbegun])
    reason = LOST if runner.scheduler.remembers_deleted_jobs else GONE
    named = {}
    for job, evidence in unbegun.items():
        if job.directory in claimed:
            why = evidence or runner.scheduler.absence
            named[job.pk] = reason, f"{why}, and it had not begun: {CLAIMED}"
    return named
