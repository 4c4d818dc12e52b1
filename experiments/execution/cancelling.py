"""Taking jobs that people have cancelled out of the scheduler's queue."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from experiments.execution.guard import contain_failure
from experiments.execution.lease import Lease
from experiments.execution.rows import list_followed
from experiments.execution.scheduler_answers import find_status
from experiments.models import Cluster, Job, Operation
from runners.errors import Refused
from runners.runner import Runner

SENT = (Job.State.SUBMITTING, Job.State.QUEUED, Job.State.RUNNING)


def has_cancellations(cluster: Cluster, *, since: datetime) -> bool:
    """Return whether somebody has cancelled jobs that the scheduler may have, since that time."""
    return any(
        model._default_manager.filter(
            cluster=cluster, state__in=SENT, cancel_requested_at__gt=since
        ).exists()
        for model in (Job, Operation)
    )


def cancel(rows: list[Job | Operation], runner: Runner) -> None:
    """Cancel jobs in one call, or one by one if the scheduler refuses one of them."""
    try:
        runner.cancel([row.scheduler_id for row in rows])
    except Refused:
        for row in rows:
            with contain_failure(row, row.cluster):
                runner.cancel([row.scheduler_id])


@dataclass
class NewCancellations:
    """What people cancel during a visit, which may take minutes."""

    held: Lease
    runner: Runner
    since: datetime

    def cancel(self) -> None:
        """Cancel the jobs of which that was requested since the last look."""
        if not has_cancellations(self.held.cluster, since=self.since):
            return
        now = timezone.now()
        rows = [
            row
            for row in list_followed(self.held)
            if row.cancel_requested_at and row.cancel_requested_at > self.since
        ]
        self.since = now
        if not rows:  # they are being submitted: `recover` cancels what it finds of them
            return
        statuses = self.runner.poll([row.scheduler_id for row in rows])
        # Not by the number alone, as in `tick`: it may be another job's by now.
        if unwanted := [row for row in rows if find_status(row, statuses)]:
            cancel(unwanted, self.runner)
