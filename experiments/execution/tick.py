"""One visit to a cluster. It may safely be repeated, late or left out.

PostgreSQL holds the state; a tick only advances it. Each step queries the rows again, so the next
tick finishes what one that died has left. A problem with one row ends or postpones that row alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from textwrap import shorten

from django.db import DatabaseError, InterfaceError, transaction
from django.db.models.functions import Now
from django.utils import timezone

from experiments.execution.cancelling import NewCancellations, cancel, list_unwanted
from experiments.execution.collect import collect, end_as_damaged
from experiments.execution.collect_again import collect_again, put_off
from experiments.execution.collect_together import collect_together, split_first_portion
from experiments.execution.connections import connect
from experiments.execution.following import follow
from experiments.execution.guard import (
    contain_failure,
    handle_together,
    make_storable,
    note_failure,
)
from experiments.execution.holder import name_process
from experiments.execution.interrupted_sendings import recover
from experiments.execution.late_files import plan_next
from experiments.execution.lease import Lease, LeaseLost, hold_lease
from experiments.execution.limits import LimitReached
from experiments.execution.live_readings import read_watched
from experiments.execution.moves import Move, move_each, record_event, update_each
from experiments.execution.own_failures import Failure, describe_failure
from experiments.execution.queue_places import read_queues
from experiments.execution.read_attempts import (
    MOST_ATTEMPTS,
    count_attempt,
    has_ended_workers,
    sort_untried_first,
    take_turn,
)
from experiments.execution.requeued_jobs import note_requeued
from experiments.execution.retention_operations import plan_removals
from experiments.execution.rows import find_states, list_followed, list_jobs, list_rows, make_handle
from experiments.execution.scheduler_answers import NoAccounts, find_status, read_expected_start
from experiments.execution.sending import send_planned
from experiments.execution.submitting import SendingPaused
from experiments.execution.visit_outcomes import (
    ask_for_another_visit,
    back_off,
    back_off_from,
    note_success,
    wait_for_limit,
)
from experiments.execution.visit_times import is_urgent, time_visit
from experiments.models import Cluster, Job, Operation
from experiments.models.database_time import database_now
from runners.errors import TryAgain
from runners.jobs import JobSpec
from runners.runner import Runner
from runners.schedulers import Status

MOST_AGAIN = 5  # jobs in one visit
LEAST_SECONDS = 1.0  # between two looks at the live jobs in one visit
# Of a visit, for which its worker has 600: after as many it begins to read the files of no further
# row, and to send no further portion.
COLLECTING_SECONDS = 240
SENDING_SECONDS = 360
MOST_ABSENT = 200  # rows that are looked for together


def tick(cluster_pk: int) -> str:
    """Visit a cluster once and return the outcome in a word or two."""
    cluster = Cluster.objects.select_related("credential", "jump_host").get(pk=cluster_pk)
    if not cluster.enabled:
        return "disabled"
    now = database_now()
    due_at = cluster.due_at(now)
    if due_at and now < due_at and not is_urgent(cluster, now):
        ask_for_another_visit(cluster)
        return "early"
    visit = {"last_tick_at": now, "wanted_at": None, "visitor": name_process()}
    with hold_lease(cluster, visit) as held, time_visit(cluster, held, now):
        if held is None:
            ask_for_another_visit(cluster)
            return "busy"
        try:
            with connect(cluster) as runner:
                _visit(held, runner)
        except LimitReached as reached:
            wait_for_limit(cluster, reached)
            return "limit"
        except TryAgain as error:
            back_off(cluster, error)
            return "try again"
        except LeaseLost:
            return "lease lost"
        except Exception as error:
            with suppress(DatabaseError, InterfaceError):  # it may be what failed
                back_off_from(cluster, describe_failure(error))
            raise
        note_success(held)
        return "done"


def _visit(held: Lease, runner: Runner) -> None:
    """Do all steps of a visit. Results are collected before anything new is sent."""
    guarded = held.guard(runner.transport)
    runner = runner.with_transport(guarded, has_older_gate=held.cluster.has_older_gate)
    last_look = began = time.monotonic()
    cancellations = NewCancellations(held, runner)
    collect_in_time = partial(
        _collect, between=cancellations.cancel, deadline=began + COLLECTING_SECONDS
    )

    def look_after() -> None:
        """Look after the live jobs again, as often as the cluster may be asked."""
        nonlocal last_look
        cancellations.cancel()
        if time.monotonic() - last_look >= max(held.cluster.poll_seconds, LEAST_SECONDS):
            last_look = time.monotonic()
            _poll(held, runner)
            collect_in_time(held, runner)

    for step in (
        plan_removals,
        _poll,
        collect_in_time,
        read_watched,
        read_queues,
        _collect_again,
    ):
        held.renew()
        step(held, runner)
    deadline = began + SENDING_SECONDS
    with suppress(SendingPaused):  # which comes last: all else is done
        held.renew()
        waiting = find_states(held, Job.State.SUBMITTING, Job.State.PLANNED)
        is_late = Job.State.SUBMITTING in waiting and recover(held, runner, deadline)
        # `recover` may have planned jobs again that were about to be sent.
        if not is_late and (waiting or held.cluster.pauses.exists()):
            is_late = send_planned(held, runner, look_after, deadline)
        if is_late:
            ask_for_another_visit(held.cluster)


def _poll(held: Lease, runner: Runner) -> None:
    """Ask the scheduler once for all live jobs, then read what their journals have gained."""
    rows = list_followed(held)
    if not rows:
        return
    ids = [row.scheduler_id for row in rows]
    was_known = runner.has_older_gate
    statuses = runner.poll(ids)
    _note_gate(held.cluster, is_older=runner.has_older_gate, was_known=was_known)
    if unwanted := list_unwanted(rows, statuses):
        cancel(unwanted, runner)
        statuses = runner.poll(ids)
    status_by_row = {row: find_status(row, statuses) for row in rows}
    known = [row for row, status in status_by_row.items() if status]
    cancel(note_requeued(known, statuses, runner), runner)
    # What waits has no journal yet.
    if follow([row for row, status in status_by_row.items() if not _is_queued(status)], runner):
        held.note_change()
    states = [row.state for row in rows]
    for kind in (Operation, Job):
        live = [row for row in known if isinstance(row, kind)]
        handle_together(live, partial(_keep_statuses, statuses))
        gone = [row for row in rows if isinstance(row, kind) and not status_by_row[row]]
        for start in range(0, len(gone), MOST_ABSENT):
            held.renew()
            portion = gone[start : start + MOST_ABSENT]
            handle_together(portion, partial(_handle_absences, runner))
    if states != [row.state for row in rows]:
        held.note_change()


def _note_gate(cluster: Cluster, *, is_older: bool, was_known: bool) -> None:
    """Store when the key's forced command was found to be older, or that it is not any more."""
    if is_older and not was_known:
        cluster.older_gate_at = timezone.now()
    elif not is_older and cluster.older_gate_at:
        cluster.older_gate_at = None
    else:
        return
    cluster.save(update_fields=["older_gate_at"])


def _is_queued(status: Status | None) -> bool:
    return status is not None and status.state == "queued"


def _keep_statuses(statuses: Mapping[str, Status], rows: Sequence[Job | Operation]) -> None:
    """Store the scheduler's words on rows of one kind, and that they run where they do."""
    model = type(rows[0])
    changed: dict[str, list[int]] = {}
    expected_anew = []
    moves = []
    for row in rows:
        status = statuses[row.scheduler_id]
        description = _describe_status(row, status)
        if description != row.scheduler_state:
            changed.setdefault(description, []).append(row.pk)
        if (expected := read_expected_start(status)) != row.expected_start_at:
            row.expected_start_at = expected
            expected_anew.append(row)
        if status.state == "running" and row.state == Job.State.QUEUED:
            moves.append(Move(row, description, {"started_at": timezone.now()}))
    for description, keys in changed.items():
        model._default_manager.filter(pk__in=keys).update(scheduler_state=description)
    update_each(expected_anew, ["expected_start_at"])
    move_each(moves, Job.State.QUEUED, Job.State.RUNNING)


def _describe_status(row: Job | Operation, status: Status) -> str:
    """Return the text of the column `scheduler_state`."""
    return shorten(f"{status.native} {status.reason}", 200, placeholder=" ...")


def _handle_absences(runner: Runner, rows: Sequence[Job | Operation]) -> None:
    """Begin to collect rows that have left the queue, unless a twin of a job holds its files.

    Absence alone proves nothing: the files decide how a job ended.
    """
    handles = [make_handle(row) for row in rows]
    owners = runner.find_all(handles)
    now = timezone.now()
    states = [row.state for row in rows]
    try:
        with transaction.atomic():
            _leave_queue(rows, handles, owners, now)
    except BaseException:
        for row, state in zip(rows, states, strict=True):  # what was rolled back is not so
            row.state = state
        raise


def _leave_queue(
    rows: Sequence[Job | Operation],
    handles: Sequence[JobSpec],
    owners: Mapping[str, str],
    now: datetime,
) -> None:
    """Adopt the twins of rows, and begin to collect the others."""
    gone: dict[str, list[Move[Job | Operation]]] = {}
    for row, handle in zip(rows, handles, strict=True):
        owner = owners.get(handle.directory)
        if owner and owner != row.scheduler_id:
            _adopt(row, owner)
        else:
            gone.setdefault(row.state, []).append(Move(row, "left the queue", {"gone_at": now}))
    for before, moves in gone.items():
        move_each(moves, before, Job.State.COLLECTING)
    if gone:  # there may be room
        rows[0].cluster.pauses.filter(kind="limit").update(retry_at=Now())


def _adopt(row: Job | Operation, owner: str) -> None:
    """Follow the twin of a row's job that holds its files."""
    type(row)._default_manager.filter(pk=row.pk).update(scheduler_id=owner, cancel_sent_at=None)
    if isinstance(row, Job):
        change = f"{owner} instead of {row.scheduler_id}"
        record_event(row.experiment, "adopted", job=row, why=change)


def _collect(
    held: Lease, runner: Runner, *, between: Callable[[], object], deadline: float
) -> None:
    """Collect what has ended, and call `between` before each further portion.

    If two rows time out the site is slow: raise TryAgain. A single one waits for the next visit. So
    do those to be read alone, as soon as one of them has waited for its turn in vain.
    """
    too_slow: Job | Operation | None = None
    has_turn = True
    rows = sort_untried_first(list_rows(held, Job.State.COLLECTING))
    while rows and time.monotonic() <= deadline:
        portion, rows = split_first_portion(rows)
        held.renew()
        for row in collect_together(portion, runner):
            if time.monotonic() > deadline:
                return
            if not has_turn:
                continue
            held.renew()
            try:
                with contain_failure(row, row.cluster, partial(end_as_damaged, row)):
                    has_turn = _collect_row(row, runner)
            except NoAccounts as error:
                note_failure(row.cluster, Failure(make_storable(str(error))), of=row)
            except TryAgain as error:
                if error.kind != "time-out" or too_slow:
                    raise
                too_slow = row
                message = f"its files could not be fetched. {make_storable(str(error))}"
                note_failure(row.cluster, Failure(message), of=row)
        if any(row.is_final for row in portion):
            held.note_change()
        if rows:
            between()


def _collect_row(row: Job | Operation, runner: Runner) -> bool:
    """Collect one row, unless reading its files has killed several workers.

    Return False if others read theirs, and it was not this visit's turn.
    """
    if has_ended_workers(row):
        what = "job" if isinstance(row, Job) else "operation"
        problem = (
            f"Tare's worker ended {MOST_ATTEMPTS} times while it read this {what}'s files, by its "
            "memory or by its time: they are left alone until somebody has them read again"
        )
        note_failure(row.cluster, Failure(f"{problem}."), of=row)
        end_as_damaged(row, problem)
        return True
    with take_turn() as has_turn:
        if has_turn:
            with count_attempt(row):
                collect(row, runner)
        return has_turn


def _collect_again(held: Lease, runner: Runner) -> None:
    """Look again for files of ended jobs that were late when the jobs were collected."""
    due = list_jobs(held, *Job.FINAL).filter(collect_at__lte=timezone.now()).order_by("collect_at")
    for job in due[:MOST_AGAIN]:
        held.renew()
        with take_turn() as has_turn:
            if not has_turn:
                return
            _collect_job_again(job, runner)


def _collect_job_again(job: Job, runner: Runner) -> None:
    # Planned before they are read: if these files kill the worker, they are not due again.
    plan_next(job, complete=has_ended_workers(job))
    if has_ended_workers(job) and not job.collect_asked_by_id:
        return
    try:
        with contain_failure(job, job.cluster, partial(put_off, job)), count_attempt(job):
            collect_again(job, runner)
    except TryAgain as error:
        # Otherwise each visit would end here, and nothing would be sent.
        put_off(job, str(error), is_away=error.kind != "time-out")
        raise
