"""One visit to a cluster: safe to make twice, late or never.

PostgreSQL is the truth; a tick only carries it forward. Each step asks the rows anew, so a tick
that dies anywhere is finished by the next one. What is odd about one row ends or parks that row.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from textwrap import shorten

from django.db import DatabaseError, InterfaceError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from experiments.execution.attempts import (
    MOST_ATTEMPTS,
    counted_attempt,
    has_ended_workers,
    untried_first,
)
from experiments.execution.chores import (
    NotPossible,
    chore_directory,
    chore_handle,
    chore_spec,
    end_unsent,
    is_due,
)
from experiments.execution.collect import collect, keep_damaged
from experiments.execution.collect_again import collect_again, put_off
from experiments.execution.guard import guarded, note_failure, storable
from experiments.execution.journals import follow_runs, follow_steps
from experiments.execution.lease import Lease, LeaseLost, lease
from experiments.execution.links import (
    connect,
    job_directory,
    job_spec,
    partition_problem,
    sent_files,
)
from experiments.execution.own_failures import Failure, describe
from experiments.late_files import plan_next
from experiments.lifecycle import REFUSED, end_runs, move, record
from experiments.models import Chore, Cluster, Credential, Job, Pause, Run
from experiments.pauses import end_pauses, hold, is_held, without_held
from runners.errors import NotNow, Refused, TryAgain
from runners.jobs import JobSpec
from runners.records import parse_journal
from runners.runner import Runner
from runners.schedulers import Status
from runners.scripts import render
from runners.untrusted import clean_text

logger = logging.getLogger(__name__)

# What is large of an image, and read nowhere during a visit but where a chore is sent.
IMAGE_FACTS = tuple(f"staged_image__image__{name}" for name in ("facts", "packages", "recipe"))
MOST_AGAIN = 5  # jobs in one visit
LONGEST_BACK_OFF = timedelta(minutes=5)
COLLECTING_SECONDS = 240  # after which a visit begins to read the files of no further row


class SendingPaused(TryAgain):
    """The site takes no more now: nothing else is sent in this visit."""


def tick(cluster_pk: int) -> str:
    """Visit a cluster once and return in one word what came of it."""
    cluster = Cluster.objects.select_related("credential", "jump_host").get(pk=cluster_pk)
    now = timezone.now()
    if not cluster.enabled:
        return "disabled"
    if cluster.due_at and now < cluster.due_at:
        _come_back(cluster)
        return "early"
    with lease(cluster) as held:
        if held is None:
            _come_back(cluster)
            return "busy"
        Cluster.objects.filter(pk=cluster.pk).update(last_tick_at=now, wanted_at=None)
        try:
            with connect(cluster) as runner:
                _visit(held, runner)
        except TryAgain as error:
            _back_off(cluster, error)
            return "try again"
        except LeaseLost:
            return "lease lost"
        except Exception as error:
            with suppress(DatabaseError, InterfaceError):  # it may be what failed
                _back_off_from(cluster, describe(error))
            raise
        _seen(cluster)
        return "done"


def _come_back(cluster: Cluster) -> None:
    """Have the clock ask again as soon as the cluster may be visited: somebody waits for it."""
    Cluster.objects.filter(pk=cluster.pk).update(wanted_at=timezone.now())


def _visit(held: Lease, runner: Runner) -> None:
    """Results first: what is on the cluster's disk is safe before anything new is sent."""
    runner = Runner(held.guard(runner.transport), runner.scheduler)
    with suppress(SendingPaused):  # which comes last: all else is done
        for step in (_poll, _collect, _collect_again, _recover, _submit):
            held.renew()
            step(held, runner)


def _jobs(held: Lease, *states: str) -> QuerySet[Job]:
    return (
        Job.objects.filter(cluster=held.cluster, state__in=states)
        .select_related("experiment__partition", "workload", "cluster")
        .defer("script", "experiment__plan")
        .order_by("pk")
    )


def _chores(held: Lease, *states: str) -> QuerySet[Chore]:
    return (
        Chore.objects.filter(cluster=held.cluster, state__in=states)
        .select_related("cluster", "partition", "staged_image__image")
        .defer("script", "output_tail", "result", *IMAGE_FACTS)
        .order_by("pk")
    )


def _both(held: Lease, *states: str) -> list[Job | Chore]:
    """Chores first: experiments wait for them, and they are short."""
    return [*_chores(held, *states), *_jobs(held, *states)]


def _handle(row: Job | Chore) -> JobSpec:
    return job_spec(row) if isinstance(row, Job) else chore_handle(row)


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


def _poll(held: Lease, runner: Runner) -> None:
    """Ask the scheduler once for all that is live, then read what it wrote since last time."""
    rows = _both(held, Job.State.QUEUED, Job.State.RUNNING)
    if not rows:
        return
    _cancel([row for row in rows if row.cancel_requested_at], runner)
    statuses = runner.poll([row.scheduler_id for row in rows])
    _follow(rows, runner)
    for row in rows:
        with guarded(row, row.cluster):
            if status := statuses.get(row.scheduler_id):
                _keep_status(row, status)
            else:
                _left_the_queue(row, runner)


def _cancel(rows: list[Job | Chore], runner: Runner) -> None:
    """End jobs in one call, or one by one where the scheduler says no to one of them."""
    try:
        runner.cancel([row.scheduler_id for row in rows])
    except Refused:
        for row in rows:
            with guarded(row, row.cluster):
                runner.cancel([row.scheduler_id])


def _keep_status(row: Job | Chore, status: Status) -> None:
    words = shorten(f"{status.native} {status.reason}", 200, placeholder=" ...")
    if words != row.scheduler_state:
        type(row)._default_manager.filter(pk=row.pk).update(scheduler_state=words)
    if status.state == "running" and row.state == Job.State.QUEUED:
        move(row, Job.State.RUNNING, why=words, started_at=timezone.now())


def _left_the_queue(row: Job | Chore, runner: Runner) -> None:
    """Absence proves nothing: the files decide, unless a twin of this job holds them."""
    owner = runner.find(_handle(row))
    if owner and owner != row.scheduler_id:
        type(row)._default_manager.filter(pk=row.pk).update(scheduler_id=owner)
        if isinstance(row, Job):
            words = f"{owner} instead of {row.scheduler_id}"
            record(row.experiment, "adopted", job=row, why=words)
        return
    move(row, Job.State.COLLECTING, why="has left the queue", gone_at=timezone.now())
    row.cluster.pauses.filter(kind="limit").update(retry_at=timezone.now())  # there may be room


def _follow(rows: list[Job | Chore], runner: Runner) -> None:
    """Read the journals of all that is live in one call and tell what they speak of."""
    by_directory = {row.directory: row for row in rows}
    news = runner.journals({row.directory: row.journal_offset for row in rows})
    for directory, content in news.items():
        row = by_directory[directory]
        # What cannot be followed is left out: the files decide in the end.
        with guarded(row, row.cluster, partial(_skip, row, len(content))):
            _follow_row(row, content, runner)


def _follow_row(row: Job | Chore, content: bytes, runner: Runner) -> None:
    lines, consumed = parse_journal(content)
    if not lines:
        return
    tail = runner.tail(f"{row.directory}/output.txt") if isinstance(row, Chore) else ""
    with transaction.atomic():
        if isinstance(row, Job):
            follow_runs(row, lines)
        else:
            follow_steps(row, lines, tail)
        _skip(row, consumed)


def _skip(row: Job | Chore, size: int, problem: str = "") -> None:
    """Read the journal from `size` bytes further on next time."""
    offset = row.journal_offset + size
    type(row)._default_manager.filter(pk=row.pk).update(journal_offset=offset)


def _collect(held: Lease, runner: Runner) -> None:
    """Fetch what has ended. One row whose files take too long waits; two, and the site is slow."""
    too_slow: Job | Chore | None = None
    began = time.monotonic()
    for row in untried_first(_both(held, Job.State.COLLECTING)):
        if time.monotonic() - began > COLLECTING_SECONDS:
            return  # the next visit begins with what is left
        held.renew()
        try:
            with guarded(row, row.cluster, partial(keep_damaged, row)):
                _collect_row(row, runner)
        except TryAgain as error:
            if error.kind != "time-out" or too_slow:
                raise
            too_slow = row
            words = f"its files could not be fetched. {storable(str(error))}"
            note_failure(row.cluster, Failure(words), of=row)


def _collect_row(row: Job | Chore, runner: Runner) -> None:
    """Fetch what a row has left, unless that has ended one worker after the other."""
    if has_ended_workers(row):
        what = "job" if isinstance(row, Job) else "operation"
        problem = (
            f"Tare's worker ended {MOST_ATTEMPTS} times while it read this {what}'s files, by its "
            "memory or by its time: they are left alone until somebody has them read again"
        )
        note_failure(row.cluster, Failure(f"{problem}."), of=row)
        keep_damaged(row, problem)
        return
    with counted_attempt(row):
        collect(row, runner)


def _collect_again(held: Lease, runner: Runner) -> None:
    """Look a few times more for files of ended jobs that had not come when they were collected."""
    due = _jobs(held, *Job.FINAL).filter(collect_at__lte=timezone.now()).order_by("collect_at")
    for job in due[:MOST_AGAIN]:
        held.renew()
        # Before they are read: a worker that ends over these files finds them put off.
        plan_next(job, complete=has_ended_workers(job))
        if has_ended_workers(job) and not job.collect_asked_by_id:
            continue
        try:
            with guarded(job, job.cluster, partial(put_off, job)), counted_attempt(job):
                collect_again(job, runner)
        except TryAgain as error:
            put_off(job, str(error))  # else each visit would end here, and nothing be sent
            raise


def _recover(held: Lease, runner: Runner) -> None:
    """What was caught between send and answer: adopt it if the cluster has it, else send it."""
    for row in _both(held, Job.State.SUBMITTING):
        held.renew()
        with guarded(row, row.cluster, partial(_park, row)):
            _recover_row(row, runner)


def _recover_row(row: Job | Chore, runner: Runner) -> None:
    known = runner.find(_handle(row))
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
    else:
        _send(row, runner)


def _park(row: Job | Chore, problem: str) -> None:
    """Leave what may have been sent for the next visit, unless a person has given it up."""
    if row.cancel_requested_at:
        why = f"cancelled; whether it was sent is not known. {problem}"
        _end_unsent(row, "cancelled", why, Job.State.CANCELLED)


def _submit(held: Lease, runner: Runner) -> None:
    """Send what is planned, within the cluster's limit, in the plan's order.

    Then try one job of each pause whose time has come; where it is taken, others may be.
    """
    for row in _given_up(held):
        with guarded(row, row.cluster):
            _end_unsent(row, "cancelled", "cancelled before it was sent", Job.State.CANCELLED)
    pauses = list(held.cluster.pauses.order_by("retry_at", "pk"))
    for row in _in_line(held, pauses):
        _start(held, row, runner)
    now = timezone.now()
    for pause in pauses:
        if pause.retry_at > now:
            continue
        others = [other for other in pauses if other.retry_at > now]
        for row in _in_line(held, others, under=pause)[:1]:
            _start(held, row, runner)
            if row.state == Job.State.QUEUED:
                _submit(held, runner)
                return
        if not (pause.jobs.exists() or _chores(held, Chore.State.PLANNED).exists()):
            pause.delete()  # nothing waits for its end


def _given_up(held: Lease) -> list[Job | Chore]:
    """Return what is planned and no longer wanted."""
    chores = _chores(held, Chore.State.PLANNED).exclude(cancel_requested_at=None)
    jobs = _jobs(held, Job.State.PLANNED).exclude(experiment__cancelled_at=None)
    return [*chores.iterator(), *jobs.iterator()]


def _in_line(
    held: Lease, pauses: Sequence[Pause], *, under: Pause | None = None
) -> list[Job | Chore]:
    """Return what may be sent now: as much as the limit allows of what no pause holds back.

    With `under`, of what that one holds back.
    """
    live = _jobs(held, *Job.LIVE).count() + _chores(held, *Job.LIVE).count()
    free = max(held.cluster.max_live_jobs - live, 0)
    planned = without_held(_jobs(held, Job.State.PLANNED), pauses)
    chores = [row for row in _chores(held, Chore.State.PLANNED) if not is_held(row, pauses)]
    if under:
        planned = planned.filter(pk__in=under.jobs.values("pk"))
        chores = [row for row in chores if is_held(row, [under])]
    in_order = planned.order_by("experiment__launched_at", "block", "pk")
    rows: list[Job | Chore] = [*filter(_is_due_chore, chores), *in_order[:free]]
    return rows[:free]


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
        why=f"the scheduler calls it {scheduler_id}",
        scheduler_id=scheduler_id,
        submitted_at=timezone.now(),
    )
    end_pauses(row)


def _held_back(row: Job | Chore, no: NotNow) -> SendingPaused:
    """Write a pause down, and return what ends this visit's sending."""
    hold(row, storable(str(no)), kind=no.kind, scope=no.scope)
    logger.warning("%s: %s (%s)", row.cluster, clean_text(str(no)), no.kind)
    return SendingPaused(str(no), kind=no.kind)


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


def _back_off(cluster: Cluster, error: TryAgain) -> None:
    """Keep every state as it is; say on the cluster's page what is wrong, and wait longer."""
    failures = cluster.failures + 1
    pause = min(
        timedelta(seconds=cluster.poll_seconds) * 2 ** min(failures - 1, 10), LONGEST_BACK_OFF
    )
    logger.warning("%s: %s (%s)", cluster, clean_text(str(error)), error.kind)
    Cluster.objects.filter(pk=cluster.pk).update(
        last_error=storable(str(error)),
        last_error_kind=error.kind,
        failures=failures,
        retry_at=timezone.now() + pause,
    )


def _back_off_from(cluster: Cluster, problem: Failure) -> None:
    """Back off from what ended a visit and was not the cluster's fault."""
    _back_off(cluster, TryAgain(problem.words, kind="Tare itself failed"))
    Cluster.objects.filter(pk=cluster.pk).update(
        own_failure="", own_failure_details=problem.details, own_failed_at=timezone.now()
    )


def _seen(cluster: Cluster) -> None:
    now = timezone.now()
    Cluster.objects.filter(pk=cluster.pk).update(
        last_seen_at=now, last_error="", last_error_kind="", failures=0, retry_at=None
    )
    if cluster.credential_id:
        Credential.objects.filter(pk=cluster.credential_id).update(last_used_at=now)
