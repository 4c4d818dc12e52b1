"""Jobs that the site has put back into its queue after they had begun.

Slurm starts such a job a second time under the same id. Its script steps aside, since its runs have
begun: so the second start is spared, and what it was put back for is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.execution.moves import record_event
from experiments.execution.rows import make_handle
from experiments.models import Job, Operation
from runners.runner import Runner
from runners.schedulers import Status

REQUEUED = "requeued by the site"


def note_requeued(
    rows: Sequence[Job | Operation], statuses: Mapping[str, Status], runner: Runner
) -> list[Job | Operation]:
    """Return the rows that wait again though they had begun, to be cancelled; tell it in events.

    A job whose start failed before its script began is left: it has its runs still before it.
    """
    again = [
        row
        for row in rows
        if row.state == row.State.RUNNING
        and row.cancel_requested_at is None
        and row.scheduler_id in statuses
        and statuses[row.scheduler_id].state == "queued"
    ]
    if not again:
        return []
    handles = {row.pk: make_handle(row) for row in again}
    owners = runner.find_started(list(handles.values()))
    begun = [row for row in again if owners.get(handles[row.pk].directory) == row.scheduler_id]
    for row in begun:
        if isinstance(row, Job) and not was_requeued(row):
            status = statuses[row.scheduler_id]
            why = (
                f"the scheduler says {status.native} {status.reason}".rstrip()
                + ", though it had begun: it is taken out of the queue"
            )
            record_event(row.experiment, REQUEUED, job=row, why=why)
    return begun


def was_requeued(row: Job | Operation) -> bool:
    """Return whether this attempt of a job was seen to wait again after it had begun."""
    if not isinstance(row, Job) or row.submitted_at is None:
        return False
    return row.events.filter(what=REQUEUED, at__gte=row.submitted_at).exists()
