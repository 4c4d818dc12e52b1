"""Jobs that the site has put back into its queue after they had begun.

Slurm starts such a job a second time under the same id. Its script steps aside, since its runs have
begun: so the second start is spared, and what it was put back for is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db.models import F

from experiments.execution.moves import record_event
from experiments.execution.rows import make_handle
from experiments.models import Event, Job, Operation
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
    handles = [make_handle(row) for row in again]
    owners = runner.find_started(handles)
    begun = [
        row
        for row, handle in zip(again, handles, strict=True)
        if owners.get(handle.directory) == row.scheduler_id
    ]
    known = find_requeued(begun)
    for row in begun:
        if isinstance(row, Job) and row.pk not in known:
            status = statuses[row.scheduler_id]
            why = (
                f"the scheduler says {status.native} {status.reason}".rstrip()
                + ", though it had begun: it is taken out of the queue"
            )
            record_event(row.experiment, REQUEUED, job=row, why=why)
    return begun


def find_requeued(rows: Sequence[Job | Operation]) -> set[int]:
    """Return the keys of the jobs whose attempt was seen to wait again after it had begun."""
    jobs = [row.pk for row in rows if isinstance(row, Job)]
    events = Event.objects.filter(what=REQUEUED, job__in=jobs, at__gte=F("job__submitted_at"))
    return set(events.values_list("job", flat=True)) if jobs else set()
