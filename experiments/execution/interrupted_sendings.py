"""What becomes of rows that were being sent when a visit ended: the cluster may have their jobs.

A portion of them is looked for, moved and sent again together, as `submitting` sends planned ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial

from django.utils import timezone

from experiments.clusters.pauses import is_held
from experiments.execution.cancelling import cancel
from experiments.execution.guard import contain_failure, handle_together
from experiments.execution.lease import Lease
from experiments.execution.limits import count_submissions_left
from experiments.execution.moves import Move, move_each
from experiments.execution.operations import NotPossible
from experiments.execution.rows import list_rows, make_handle
from experiments.execution.submitting import (
    CANCELLED_BEFORE,
    MOST_BYTES,
    Row,
    SendingPaused,
    end_without_sending,
    make_spec,
    refuse,
    submit,
)
from experiments.models import Job
from runners.jobs import JobSpec
from runners.runner import Runner

PORTION = 50
"""As many jobs are looked for, and sent again, together."""
IS_PAUSED = "it was not sent, and sending is paused"
NO_SUBMISSION_LEFT = "it was not sent, and the cluster takes no more submissions in this minute"
TOO_LARGE = "it was not sent, and is too large for one portion with those before it"


def recover(held: Lease, runner: Runner, deadline: float) -> bool:
    """Adopt the rows in SUBMITTING whose jobs the cluster has, and send the others again.

    Return whether some are left to the next visit, as `deadline`, by `time.monotonic`, was over.
    Raises SendingPaused, after the last of them, where the whole site takes no jobs now.
    """
    refusals: list[SendingPaused] = []
    for portion in _split(list_rows(held, Job.State.SUBMITTING)):
        if time.monotonic() > deadline:
            return True
        held.note_change()
        held.renew()
        handle_together(portion, partial(_recover, held, runner, refusals), _park)
    if refusals:
        raise refusals[-1]
    return False


def _split(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield portions of jobs. Operations are handled alone, as they are sent."""
    for row in rows:
        if not isinstance(row, Job):
            yield [row]
    jobs = [row for row in rows if isinstance(row, Job)]
    for start in range(0, len(jobs), PORTION):
        yield list(jobs[start : start + PORTION])


def _recover(
    held: Lease, runner: Runner, refusals: list[SendingPaused], portion: Sequence[Row]
) -> None:
    """Recover rows of one kind, and note a refusal of the whole site.

    One that is recovered alone comes after its portion has failed, which may have moved it.
    """
    if len(portion) == 1:
        portion[0].refresh_from_db(fields=["state"])
    rows = [row for row in portion if row.state == row.State.SUBMITTING]
    try:
        _submit_again(_adopt(rows, runner), held, runner)
    except SendingPaused as error:
        if error.pause.is_of_the_site:
            refusals.append(error)


def _adopt(rows: Sequence[Row], runner: Runner) -> list[Row]:
    """Follow the jobs that the cluster has; return the rows of which there is no trace."""
    handles = {row: make_handle(row) for row in rows}
    ids = runner.find_all(list(handles.values()))
    now = timezone.now()
    known = {
        row: ids[handle.directory] for row, handle in handles.items() if handle.directory in ids
    }
    adopted = move_each(
        [
            Move(
                row,
                f"found again as {scheduler_id}",
                {"scheduler_id": scheduler_id, "submitted_at": row.submitted_at or now},
            )
            for row, scheduler_id in known.items()
        ],
        "submitting",
        "queued",
    )
    if unwanted := [row for row in adopted if row.cancel_requested_at]:
        cancel(unwanted, runner)
    return [row for row in rows if row not in known]


def _submit_again(rows: Sequence[Row], held: Lease, runner: Runner) -> None:
    """Submit rows that no scheduler has, as far as people, pauses and limits let them."""
    pauses = list(held.cluster.pauses.all())
    left = count_submissions_left(held.cluster)
    back: list[Move[Row]] = []
    prepared: list[tuple[Row, JobSpec]] = []
    size = 0
    for row in rows:
        if row.cancel_requested_at:
            end_without_sending(row, "cancelled", CANCELLED_BEFORE, Job.State.CANCELLED)
        elif is_held(row, pauses):
            back.append(Move(row, IS_PAUSED))
        elif left is not None and len(prepared) >= left:
            back.append(Move(row, NO_SUBMISSION_LEFT))
        elif size > MOST_BYTES:
            back.append(Move(row, TOO_LARGE))
        elif spec := _make_spec(row):
            size += sum(len(content) for _, content in spec.sent)
            if prepared and size > MOST_BYTES:
                back.append(Move(row, TOO_LARGE))
            else:
                prepared.append((row, spec))
    move_each(back, "submitting", "planned")
    if prepared:
        submit(prepared, runner)


def _make_spec(row: Row) -> JobSpec | None:
    """Return what is to be sent; None if the row cannot be sent any more, and was ended."""
    with contain_failure(row, row.cluster, partial(_park, row)):
        try:
            return make_spec(row)
        except NotPossible as problem:
            refuse(row, str(problem))
    return None


def _park(row: Row, problem: str) -> None:
    """Leave a row that may have been sent for the next visit, unless a person has cancelled it."""
    if row.cancel_requested_at:
        why = f"cancelled; whether it was sent is not known. {problem}"
        end_without_sending(row, "cancelled", why, Job.State.CANCELLED)
