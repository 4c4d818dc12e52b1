"""Submitting planned jobs and operations, and recovering those whose submission was interrupted.

When the site refuses a job for now, a pause is stored. It holds back all rows that the site would
refuse for the same reason; only a pause of the whole site ends the visit's sending.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from django.utils import timezone

from experiments.clusters.pauses import end_pauses, exclude_held, hold, is_held
from experiments.execution.guard import contain_failure, make_storable
from experiments.execution.lease import Lease
from experiments.execution.lifecycle import REFUSED, end_runs, move
from experiments.execution.operations import (
    NotPossible,
    end_unsent,
    is_due,
    make_operation_spec,
    name_operation_directory,
)
from experiments.execution.rows import list_jobs, list_operations, list_rows, make_handle
from experiments.execution.sending_rights import why_not_sent
from experiments.execution.specs import (
    explain_partition_problem,
    make_job_spec,
    name_job_directory,
    read_sent_files,
)
from experiments.models import Job, Operation, Pause, Run
from runners.errors import NotNow, Refused, TryAgain
from runners.jobs import JobSpec
from runners.runner import Runner
from runners.scripts import render
from runners.untrusted import clean_text

logger = logging.getLogger(__name__)

MOST_REFUSALS = 10
"""After as many refusals a visit sends nothing more, however many experiments still wait."""


class SendingPaused(TryAgain):
    """The site refused a job for now; `pause` holds back those it would refuse likewise."""

    def __init__(self, refusal: NotNow, pause: Pause) -> None:
        super().__init__(str(refusal), kind=refusal.kind)
        self.pause = pause


@dataclass
class Sending:
    """The rows and pauses that this visit has tried: none is tried twice."""

    held: Lease
    runner: Runner
    began: datetime
    tried: set[str] = field(default_factory=set)  # uids
    refused_by: set[int] = field(default_factory=set)  # keys of pauses


def recover(held: Lease, runner: Runner) -> None:
    """Adopt the rows in SUBMITTING whose jobs the cluster has, and send the others again.

    Raises SendingPaused, after the last of them, where the whole site takes no jobs now.
    """
    site_pause: SendingPaused | None = None
    for row in list_rows(held, Job.State.SUBMITTING):
        held.renew()
        with contain_failure(row, row.cluster, partial(_park, row)):
            try:
                _recover_row(row, runner, list(held.cluster.pauses.all()))
            except SendingPaused as error:
                site_pause = error if error.pause.is_of_the_site else site_pause
    if site_pause:
        raise site_pause


def _recover_row(row: Job | Operation, runner: Runner, pauses: Sequence[Pause]) -> None:
    scheduler_id = runner.find(make_handle(row))
    if scheduler_id:
        move(
            row,
            Job.State.QUEUED,
            why=f"found again as {scheduler_id}",
            scheduler_id=scheduler_id,
            submitted_at=row.submitted_at or timezone.now(),
        )
    elif row.cancel_requested_at:
        _end_unsent(row, "cancelled", "cancelled before it was sent", Job.State.CANCELLED)
    elif is_held(row, pauses):
        move(row, Job.State.PLANNED, why="it was not sent, and sending is paused")
    else:
        _send(row, runner)


def _park(row: Job | Operation, problem: str) -> None:
    """Leave a row that may have been sent for the next visit, unless a person has cancelled it."""
    if row.cancel_requested_at:
        why = f"cancelled; whether it was sent is not known. {problem}"
        _end_unsent(row, "cancelled", why, Job.State.CANCELLED)


def send_planned(held: Lease, runner: Runner) -> None:
    """Send planned rows in the plan's order, up to the cluster's limit of live jobs.

    Then try one row of each pause that is due: if the site takes it, the pause ends. Raises
    SendingPaused where the whole site takes no jobs now.
    """
    for row in _list_cancelled(held):
        with contain_failure(row, row.cluster):
            _end_unsent(row, "cancelled", "cancelled before it was sent", Job.State.CANCELLED)
    visit = Sending(held, runner, timezone.now())
    while len(visit.refused_by) < MOST_REFUSALS and (rows := _next_rows(visit)):
        _send_until_refused(visit, rows)


def _list_cancelled(held: Lease) -> list[Job | Operation]:
    """Return the planned rows that have been cancelled."""
    operations = list_operations(held, Operation.State.PLANNED).exclude(cancel_requested_at=None)
    jobs = list_jobs(held, Job.State.PLANNED).exclude(experiment__cancelled_at=None)
    return [*operations.iterator(), *jobs.iterator()]


def _next_rows(visit: Sending) -> list[Job | Operation]:
    """Return the rows that no pause holds back; if there are none, one row of a due pause."""
    pauses = list(visit.held.cluster.pauses.order_by("retry_at", "pk"))
    if rows := _rows_to_send(visit, pauses):
        return rows
    due = [row for row in pauses if row.retry_at <= visit.began and row.pk not in visit.refused_by]
    waiting = [row for row in pauses if row not in due]
    for pause in due:
        if rows := _rows_to_send(visit, waiting, under=pause):
            return rows[:1]
        if not (
            pause.jobs.exists() or list_operations(visit.held, Operation.State.PLANNED).exists()
        ):
            pause.delete()  # it holds nothing back
    return []


def _rows_to_send(
    visit: Sending, pauses: Sequence[Pause], *, under: Pause | None = None
) -> list[Job | Operation]:
    """Return the rows to send now: as many as the limit allows of those that no pause holds back.

    With `under`, of those that this pause holds back.
    """
    held = visit.held
    live = list_jobs(held, *Job.LIVE).count() + list_operations(held, *Job.LIVE).count()
    free = max(held.cluster.max_live_jobs - live, 0)
    planned = exclude_held(list_jobs(held, Job.State.PLANNED), pauses)
    operations = [
        row for row in list_operations(held, Operation.State.PLANNED) if not is_held(row, pauses)
    ]
    if under:
        planned = planned.filter(pk__in=under.jobs.values("pk"))
        operations = [row for row in operations if is_held(row, [under])]
    in_order = planned.exclude(uid__in=visit.tried).order_by(
        "experiment__launched_at", "block", "pk"
    )
    new = [row for row in operations if row.uid not in visit.tried and _is_due_operation(row)]
    rows: list[Job | Operation] = [*new, *in_order[:free]]
    return rows[:free]


def _send_until_refused(visit: Sending, rows: Sequence[Job | Operation]) -> None:
    """Send `rows` until the site refuses one: its pause may hold back others of them.

    Raises SendingPaused where the site refuses all jobs.
    """
    for row in rows:
        visit.tried.add(row.uid)
        try:
            _start(visit.held, row, visit.runner)
        except SendingPaused as error:
            if error.pause.is_of_the_site:
                raise
            visit.refused_by.add(error.pause.pk)
            return


def _start(held: Lease, row: Job | Operation, runner: Runner) -> None:
    held.renew()
    with contain_failure(row, row.cluster, partial(_refuse, row)):
        if _prepare(row, runner):
            with contain_failure(row, row.cluster):  # from here on the cluster may have it
                _send(row, runner)


def _is_due_operation(operation: Operation) -> bool:
    with contain_failure(operation, operation.cluster, partial(_refuse, operation)):
        return is_due(operation)
    return False


def _make_spec(row: Job | Operation) -> JobSpec:
    """Return the specification of a row's job, with the files that travel with it.

    Raises NotPossible.
    """
    if not isinstance(row, Job):
        return make_operation_spec(row)
    try:
        return replace(make_job_spec(row), sent=tuple(read_sent_files(row).items()))
    except KeyError as missing:
        raise NotPossible(
            f"A file that {row.workload} sends is gone: sha256 {missing.args[0]}. Upload it anew."
        ) from None


def _prepare(row: Job | Operation, runner: Runner) -> bool:
    """Write the script down before it is sent; False if it is not to be."""
    try:
        spec = replace(_make_spec(row), directory=_directory(row))
        script = render(spec, runner.scheduler)
    except ValueError as error:  # what cannot be said safely in a script is not sent
        message = f"The job script cannot be written: {error}."
        partition = row.experiment.partition if isinstance(row, Job) else row.asked_partition()
        if partition and explain_partition_problem(partition, row.cluster.scheduler):
            raise _pause_sending(
                row, NotNow(message, kind="partition", scope="partition")
            ) from None
        _refuse(row, message)
        return False
    except NotPossible as problem:
        _refuse(row, str(problem))
        return False
    return move(row, Job.State.SUBMITTING, script=script, directory=spec.directory)


def _directory(row: Job | Operation) -> str:
    return name_job_directory(row) if isinstance(row, Job) else name_operation_directory(row)


def _send(row: Job | Operation, runner: Runner) -> None:
    """Submit a row; a fault of its own ends it, a refusal by the site pauses sending."""
    try:
        if isinstance(row, Job) and (why_not := why_not_sent(row)):
            raise NotNow(why_not, kind="account", scope="request")
        scheduler_id = runner.submit(_make_spec(row))
    except NotNow as refusal:
        if (
            isinstance(row, Operation) and refusal.scope == "request"
        ):  # nothing else asks for the same
            _refuse(row, str(refusal))
            return
        move(row, Job.State.PLANNED, why=make_storable(str(refusal)))
        raise _pause_sending(row, refusal) from None
    except Refused as refusal:
        _refuse(row, str(refusal))
        if isinstance(row, Job):  # the other jobs of its experiment may share the fault
            experiment_refusal = NotNow(str(refusal), kind="refused", scope="request")
            raise _pause_sending(row, experiment_refusal) from None
        return
    except NotPossible as problem:
        _refuse(row, str(problem))
        return
    move(
        row,
        Job.State.QUEUED,
        why=f"scheduler job {scheduler_id}",
        scheduler_id=scheduler_id,
        submitted_at=timezone.now(),
    )
    end_pauses(row)


def _pause_sending(row: Job | Operation, refusal: NotNow) -> SendingPaused:
    """Store a pause, and return the exception that reports it to the visit."""
    message, details = make_storable(str(refusal)), make_storable(refusal.details)
    pause = hold(row, message, kind=refusal.kind, scope=refusal.scope, details=details)
    logger.warning("%s: %s (%s)", row.cluster, clean_text(str(refusal)), refusal.kind)
    return SendingPaused(refusal, pause)


def _refuse(row: Job | Operation, message: str) -> None:
    """End a row that will not run, with the message of the refusal."""
    _end_unsent(row, REFUSED, make_storable(message), Job.State.FAILED)


def _end_unsent(row: Job | Operation, reason: str, message: str, to: str) -> None:
    if isinstance(row, Operation):
        end_unsent(row, reason, message, to=to)
        return
    if to == Job.State.CANCELLED:
        move(row, to, why=message)
        end_runs(row, Run.State.CANCELLED, reason=reason)
        return
    now = timezone.now()
    if move(row, to, why=message, reason=reason, message=message, ended_at=now):
        end_runs(row, Run.State.FAILED, reason="not submitted", message=message)
