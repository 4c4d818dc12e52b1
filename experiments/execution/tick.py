"""One visit to a cluster: safe to make twice, late or never.

PostgreSQL is the truth; a tick only carries it forward. Each step asks the rows anew, so a tick
that dies anywhere is finished by the next one. What is odd about one row ends or parks that row.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from datetime import timedelta
from functools import partial
from textwrap import shorten

from django.db import DatabaseError, InterfaceError, transaction
from django.utils import timezone

from experiments.execution.collect import collect, keep_damaged
from experiments.execution.collect_again import collect_again, put_off
from experiments.execution.connections import connect
from experiments.execution.guard import guarded, note_failure, storable
from experiments.execution.journals import follow_runs, follow_steps
from experiments.execution.late_files import plan_next
from experiments.execution.lease import Lease, LeaseLost, lease
from experiments.execution.lifecycle import move, record
from experiments.execution.own_failures import Failure, describe
from experiments.execution.read_attempts import (
    MOST_ATTEMPTS,
    counted_attempt,
    has_ended_workers,
    untried_first,
)
from experiments.execution.rows import handle_of, jobs_in, rows_in
from experiments.execution.sending import SendingPaused, recover, send_planned
from experiments.models import Chore, Cluster, Credential, Job
from runners.errors import Refused, TryAgain
from runners.records import parse_journal
from runners.runner import Runner
from runners.schedulers import Status
from runners.untrusted import clean_text

logger = logging.getLogger(__name__)

MOST_AGAIN = 5  # jobs in one visit
LONGEST_BACK_OFF = timedelta(minutes=5)
COLLECTING_SECONDS = 240  # after which a visit begins to read the files of no further row


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
        for step in (_poll, _collect, _collect_again, recover, send_planned):
            held.renew()
            step(held, runner)


def _poll(held: Lease, runner: Runner) -> None:
    """Ask the scheduler once for all that is live, then read what it wrote since last time."""
    rows = rows_in(held, Job.State.QUEUED, Job.State.RUNNING)
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
    owner = runner.find(handle_of(row))
    if owner and owner != row.scheduler_id:
        type(row)._default_manager.filter(pk=row.pk).update(scheduler_id=owner)
        if isinstance(row, Job):
            words = f"{owner} instead of {row.scheduler_id}"
            record(row.experiment, "adopted", job=row, why=words)
        return
    move(row, Job.State.COLLECTING, why="left the queue", gone_at=timezone.now())
    row.cluster.pauses.filter(kind="limit").update(retry_at=timezone.now())  # there may be room


def _follow(rows: list[Job | Chore], runner: Runner) -> None:
    """Read the journals of all that is live in one call and tell what they speak of."""
    by_directory = {row.directory: row for row in rows}
    news = runner.read_journals({row.directory: row.journal_offset for row in rows})
    for directory, content in news.items():
        row = by_directory[directory]
        # What cannot be followed is left out: the files decide in the end.
        with guarded(row, row.cluster, partial(_skip, row, len(content))):
            _follow_row(row, content, runner)


def _follow_row(row: Job | Chore, content: bytes, runner: Runner) -> None:
    lines, consumed = parse_journal(content)
    if not lines:
        return
    tail = runner.read_tail(f"{row.directory}/output.txt") if isinstance(row, Chore) else ""
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
    for row in untried_first(rows_in(held, Job.State.COLLECTING)):
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
    due = jobs_in(held, *Job.FINAL).filter(collect_at__lte=timezone.now()).order_by("collect_at")
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
            # Else each visit would end here, and nothing be sent.
            put_off(job, str(error), is_away=error.kind != "time-out")
            raise


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
