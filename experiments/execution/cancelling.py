"""Taking jobs that people have cancelled out of the scheduler's queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Max, QuerySet
from django.db.models.functions import Now

from experiments.execution.guard import contain_failure
from experiments.execution.lease import Lease
from experiments.execution.repairs import release_started
from experiments.execution.rows import list_followed
from experiments.execution.scheduler_answers import find_status
from experiments.models import Cluster, Job, Operation
from runners.errors import Refused
from runners.runner import Runner
from runners.schedulers import Status

SENT = (Job.State.SUBMITTING, Job.State.QUEUED, Job.State.RUNNING)


def find_last_cancellation(cluster: Cluster) -> datetime | None:
    """Return when somebody last cancelled a job of which the scheduler has not been told."""
    latest = (
        rows.aggregate(latest=Max("cancel_requested_at"))["latest"]
        for rows in _list_untold(cluster)
    )
    return max((time for time in latest if time), default=None)


def _list_untold(cluster: Cluster) -> list[QuerySet[Job] | QuerySet[Operation]]:
    """Return cancelled rows that the scheduler may have, and of which it has not been told."""
    untold = {"cluster": cluster, "state__in": SENT, "cancel_sent_at": None}
    return [
        model._default_manager.filter(**untold).exclude(cancel_requested_at=None)
        for model in (Job, Operation)
    ]


def cancel(rows: list[Job | Operation], runner: Runner) -> None:
    """Cancel jobs in one call, or one by one if the scheduler refuses one of them."""
    try:
        runner.cancel([row.scheduler_id for row in rows])
    except Refused:
        for row in rows:
            with contain_failure(row, row.cluster):
                runner.cancel([row.scheduler_id])
    for model in (Job, Operation):
        told = [row.pk for row in rows if isinstance(row, model) and is_untold(row)]
        if told:
            model._default_manager.filter(pk__in=told).update(cancel_sent_at=Now())


def list_unwanted(
    rows: Sequence[Job | Operation], statuses: Mapping[str, Status]
) -> list[Job | Operation]:
    """Return the cancelled rows that the queue has. What runs that was to be taken back, may."""
    # Not by the number alone: it may be another job's by now.
    found = {
        row: status
        for row in rows
        if row.cancel_requested_at and (status := find_status(row, statuses))
    }
    running = [row for row, status in found.items() if status.state == "running"]
    release_started([row for row in running if isinstance(row, Job)])
    return [row for row in found if row.cancel_requested_at]


def is_untold(row: Job | Operation) -> bool:
    """Return whether a person has cancelled a row and the scheduler was not asked to."""
    return row.cancel_requested_at is not None and row.cancel_sent_at is None


@dataclass
class NewCancellations:
    """What people cancel during a visit, which may take minutes."""

    held: Lease
    runner: Runner
    handled: set[str] = field(default_factory=set)  # uids

    def cancel(self) -> None:
        """Cancel the jobs of which the scheduler has not been told, each once in a visit."""
        if not any(rows.exists() for rows in _list_untold(self.held.cluster)):
            return
        rows = [
            row
            for row in list_followed(self.held)
            if is_untold(row) and row.uid not in self.handled
        ]
        self.handled |= {row.uid for row in rows}
        if not rows:  # they are being submitted: `recover` cancels what it finds of them
            return
        statuses = self.runner.poll([row.scheduler_id for row in rows])
        if unwanted := list_unwanted(rows, statuses):
            cancel(unwanted, self.runner)
