"""Send what is planned, and find out what became of what was being sent.

A no for now of the site's is written down as a pause. It holds back whoever else would meet it;
only one of the whole site ends the visit's sending.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from django.utils import timezone

from experiments.clusters.pauses import end_pauses, hold, is_held, without_held
from experiments.execution.guard import guarded, storable
from experiments.execution.lease import Lease
from experiments.execution.lifecycle import REFUSED, end_runs, move
from experiments.execution.operations import (
    NotPossible,
    chore_directory,
    chore_spec,
    end_unsent,
    is_due,
)
from experiments.execution.rows import chores_in, handle_of, jobs_in, rows_in
from experiments.execution.senders import why_not_sent
from experiments.execution.specs import job_directory, job_spec, partition_problem, sent_files
from experiments.models import Chore, Job, Pause, Run
from runners.errors import NotNow, Refused, TryAgain
from runners.jobs import JobSpec
from runners.runner import Runner
from runners.scripts import render
from runners.untrusted import clean_text

logger = logging.getLogger(__name__)

MOST_NOES = 10
"""A scheduler is asked for no more in one visit, however many experiments it says no to."""


class SendingPaused(TryAgain):
    """The site said no for now, and `pause` holds back whoever else would meet that."""

    def __init__(self, no: NotNow, pause: Pause) -> None:
        super().__init__(str(no), kind=no.kind)
        self.pause = pause


@dataclass
class Sending:
    """What has been tried in this visit: no row twice, and no pause after its no."""

    held: Lease
    runner: Runner
    began: datetime
    tried: set[str] = field(default_factory=set)  # uids
    noes: set[int] = field(default_factory=set)  # keys of pauses


def recover(held: Lease, runner: Runner) -> None:
    """What was caught between send and answer: adopt it if the cluster has it, else send it.

    Raises SendingPaused, after the last of them, where the whole site takes nothing now.
    """
    site: SendingPaused | None = None
    for row in rows_in(held, Job.State.SUBMITTING):
        held.renew()
        with guarded(row, row.cluster, partial(_park, row)):
            try:
                _recover_row(row, runner, list(held.cluster.pauses.all()))
            except SendingPaused as no:
                site = no if no.pause.is_of_the_site else site
    if site:
        raise site


def _recover_row(row: Job | Chore, runner: Runner, pauses: Sequence[Pause]) -> None:
    known = runner.find(handle_of(row))
    if known:
        move(
            row,
            Job.State.QUEUED,
            why=f"found again as {known}",
            scheduler_id=known,
            submitted_at=row.submitted_at or timezone.now(),
        )
    elif row.cancel_requested_at:
        _end_unsent(row, "cancelled", "cancelled before it was sent", Job.State.CANCELLED)
    elif is_held(row, pauses):
        move(row, Job.State.PLANNED, why="it was not sent, and sending is paused")
    else:
        _send(row, runner)


def _park(row: Job | Chore, problem: str) -> None:
    """Leave what may have been sent for the next visit, unless a person has given it up."""
    if row.cancel_requested_at:
        why = f"cancelled; whether it was sent is not known. {problem}"
        _end_unsent(row, "cancelled", why, Job.State.CANCELLED)


def send_planned(held: Lease, runner: Runner) -> None:
    """Send what is planned, within the cluster's limit, in the plan's order.

    Then try one job of each pause whose time has come; where it is taken, others may be. Raises
    SendingPaused where the whole site takes nothing now.
    """
    for row in _given_up(held):
        with guarded(row, row.cluster):
            _end_unsent(row, "cancelled", "cancelled before it was sent", Job.State.CANCELLED)
    visit = Sending(held, runner, timezone.now())
    while len(visit.noes) < MOST_NOES and (rows := _next_rows(visit)):
        _send_until_a_no(visit, rows)


def _given_up(held: Lease) -> list[Job | Chore]:
    """Return what is planned and no longer wanted."""
    chores = chores_in(held, Chore.State.PLANNED).exclude(cancel_requested_at=None)
    jobs = jobs_in(held, Job.State.PLANNED).exclude(experiment__cancelled_at=None)
    return [*chores.iterator(), *jobs.iterator()]


def _next_rows(visit: Sending) -> list[Job | Chore]:
    """Return what no pause holds back; where that is nothing, one row of a pause that is due."""
    pauses = list(visit.held.cluster.pauses.order_by("retry_at", "pk"))
    if rows := _in_line(visit, pauses):
        return rows
    due = [row for row in pauses if row.retry_at <= visit.began and row.pk not in visit.noes]
    waiting = [row for row in pauses if row not in due]
    for pause in due:
        if rows := _in_line(visit, waiting, under=pause):
            return rows[:1]
        if not (pause.jobs.exists() or chores_in(visit.held, Chore.State.PLANNED).exists()):
            pause.delete()  # nothing waits for its end
    return []


def _in_line(
    visit: Sending, pauses: Sequence[Pause], *, under: Pause | None = None
) -> list[Job | Chore]:
    """Return what may be sent now: as much as the limit allows of what no pause holds back.

    With `under`, of what that one holds back.
    """
    held = visit.held
    live = jobs_in(held, *Job.LIVE).count() + chores_in(held, *Job.LIVE).count()
    free = max(held.cluster.max_live_jobs - live, 0)
    planned = without_held(jobs_in(held, Job.State.PLANNED), pauses)
    chores = [row for row in chores_in(held, Chore.State.PLANNED) if not is_held(row, pauses)]
    if under:
        planned = planned.filter(pk__in=under.jobs.values("pk"))
        chores = [row for row in chores if is_held(row, [under])]
    in_order = planned.exclude(uid__in=visit.tried).order_by(
        "experiment__launched_at", "block", "pk"
    )
    new = [row for row in chores if row.uid not in visit.tried and _is_due_chore(row)]
    rows: list[Job | Chore] = [*new, *in_order[:free]]
    return rows[:free]


def _send_until_a_no(visit: Sending, rows: Sequence[Job | Chore]) -> None:
    """Send `rows`, up to a no: whom of the others that would meet, its pause knows.

    Raises SendingPaused where it would meet them all.
    """
    for row in rows:
        visit.tried.add(row.uid)
        try:
            _start(visit.held, row, visit.runner)
        except SendingPaused as no:
            if no.pause.is_of_the_site:
                raise
            visit.noes.add(no.pause.pk)
            return


def _start(held: Lease, row: Job | Chore, runner: Runner) -> None:
    held.renew()
    with guarded(row, row.cluster, partial(_refuse, row)):
        if _prepare(row, runner):
            with guarded(row, row.cluster):  # from here on it may be there
                _send(row, runner)


def _is_due_chore(chore: Chore) -> bool:
    with guarded(chore, chore.cluster, partial(_refuse, chore)):
        return is_due(chore)
    return False


def _spec(row: Job | Chore) -> JobSpec:
    """Return what is sent. Raises NotPossible."""
    if not isinstance(row, Job):
        return chore_spec(row)
    try:
        return replace(job_spec(row), sent=tuple(sent_files(row).items()))
    except KeyError as missing:
        raise NotPossible(
            f"A file that {row.workload} sends is gone: sha256 {missing.args[0]}. Hand it in anew."
        ) from None


def _prepare(row: Job | Chore, runner: Runner) -> bool:
    """Write the script down before it is sent; False if it is not to be."""
    try:
        spec = replace(_spec(row), directory=_directory(row))
        script = render(spec, runner.scheduler)
    except ValueError as error:  # what cannot be said safely in a script is not sent
        words = f"The job script cannot be written: {error}."
        partition = row.experiment.partition if isinstance(row, Job) else row.asked_partition()
        if partition and partition_problem(partition, row.cluster.scheduler):
            raise _held_back(row, NotNow(words, kind="partition", scope="partition")) from None
        _refuse(row, words)
        return False
    except NotPossible as problem:
        _refuse(row, str(problem))
        return False
    return move(row, Job.State.SUBMITTING, script=script, directory=spec.directory)


def _directory(row: Job | Chore) -> str:
    return job_directory(row) if isinstance(row, Job) else chore_directory(row)


def _send(row: Job | Chore, runner: Runner) -> None:
    """Submit a row; its own fault ends it, a no of the site's pauses sending."""
    try:
        if isinstance(row, Job) and (why_not := why_not_sent(row)):
            raise NotNow(why_not, kind="account", scope="request")
        scheduler_id = runner.submit(_spec(row))
    except NotNow as no:
        if isinstance(row, Chore) and no.scope == "request":  # nothing else asks for the same
            _refuse(row, str(no))
            return
        move(row, Job.State.PLANNED, why=storable(str(no)))
        raise _held_back(row, no) from None
    except Refused as refusal:
        _refuse(row, str(refusal))
        if isinstance(row, Job):  # the others of its experiment may well share its fault
            too = NotNow(str(refusal), kind="refused", scope="request")
            raise _held_back(row, too) from None
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


def _held_back(row: Job | Chore, no: NotNow) -> SendingPaused:
    """Write a pause down, and return what tells the visit of it."""
    words, details = storable(str(no)), storable(no.details)
    pause = hold(row, words, kind=no.kind, scope=no.scope, details=details)
    logger.warning("%s: %s (%s)", row.cluster, clean_text(str(no)), no.kind)
    return SendingPaused(no, pause)


def _refuse(row: Job | Chore, words: str) -> None:
    """End what nobody will run, with the words of whoever refused it."""
    _end_unsent(row, REFUSED, storable(words), Job.State.FAILED)


def _end_unsent(row: Job | Chore, reason: str, words: str, to: str) -> None:
    if isinstance(row, Chore):
        end_unsent(row, reason, words, to=to)
        return
    if to == Job.State.CANCELLED:
        move(row, to, why=words)
        end_runs(row, Run.State.CANCELLED, reason=reason)
        return
    now = timezone.now()
    if move(row, to, why=words, reason=reason, message=words, ended_at=now):
        end_runs(row, Run.State.FAILED, reason="not submitted", message=words)
