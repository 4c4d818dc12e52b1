"""One visit to a cluster: safe to make twice, late or never.

PostgreSQL is the truth; a tick only carries it forward. Each step asks the rows anew, so a tick
that dies anywhere is finished by the next one.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from textwrap import shorten

from django.db.models import QuerySet
from django.utils import timezone

from experiments.execution.collect import collect
from experiments.execution.lease import Lease, LeaseLost, lease
from experiments.execution.links import connect, job_directory, job_spec
from experiments.lifecycle import end_runs, move, record
from experiments.models import Cluster, Credential, Job, Run
from runners.errors import Refused, TryAgain
from runners.records import parse_journal
from runners.runner import Runner
from runners.scripts import render

logger = logging.getLogger(__name__)

LONGEST_BACK_OFF = timedelta(minutes=5)


def tick(cluster_pk: int) -> str:
    """Visit a cluster once and return in one word what came of it."""
    cluster = Cluster.objects.select_related("credential", "jump_host").get(pk=cluster_pk)
    now = timezone.now()
    if not cluster.enabled:
        return "disabled"
    if not _is_due(cluster, now):
        return "early"
    with lease(cluster) as held:
        if held is None:
            return "busy"
        Cluster.objects.filter(pk=cluster.pk).update(last_tick_at=now)
        try:
            with connect(cluster) as runner:
                _visit(held, runner)
        except TryAgain as error:
            _back_off(cluster, error)
            return "try again"
        except LeaseLost:
            return "lease lost"
        _seen(cluster)
        return "done"


def _is_due(cluster: Cluster, now: datetime) -> bool:
    """Polite: at most one visit every `poll_seconds`, and none while backing off."""
    if cluster.retry_at and now < cluster.retry_at:
        return False
    floor = timedelta(seconds=cluster.poll_seconds)
    return cluster.last_tick_at is None or now - cluster.last_tick_at >= floor


def _visit(held: Lease, runner: Runner) -> None:
    """Results first: what is on the cluster's disk is safe before anything new is sent."""
    for step in (_poll, _collect, _recover, _submit):
        held.renew()
        step(held, runner)


def _jobs(held: Lease, *states: str) -> QuerySet[Job]:
    return (
        Job.objects.filter(cluster=held.cluster, state__in=states)
        .select_related("experiment__partition", "workload", "cluster")
        .order_by("pk")
    )


def _poll(held: Lease, runner: Runner) -> None:
    """Ask the scheduler once for all live jobs, then read what they wrote since last time."""
    jobs = list(_jobs(held, Job.State.QUEUED, Job.State.RUNNING))
    if not jobs:
        return
    doomed = [job.scheduler_id for job in jobs if job.cancel_requested_at]
    if doomed:
        runner.cancel(doomed)
    statuses = runner.poll([job.scheduler_id for job in jobs])
    _follow(jobs, runner)
    for job in jobs:
        status = statuses.get(job.scheduler_id)
        if status is None:
            _left_the_queue(job, runner)
            continue
        words = shorten(f"{status.native} {status.reason}", 200, placeholder=" ...")
        if words != job.scheduler_state:
            Job.objects.filter(pk=job.pk).update(scheduler_state=words)
        if status.state == "running" and job.state == Job.State.QUEUED:
            move(job, Job.State.RUNNING, why=words, started_at=timezone.now())


def _left_the_queue(job: Job, runner: Runner) -> None:
    """Absence proves nothing: the files decide, unless a twin of this job holds them."""
    owner = runner.find(job_spec(job))
    if owner and owner != job.scheduler_id:
        Job.objects.filter(pk=job.pk).update(scheduler_id=owner)
        record(job.experiment, "adopted", job=job, why=f"{owner} instead of {job.scheduler_id}")
        return
    move(job, Job.State.COLLECTING, why="has left the queue", gone_at=timezone.now())


def _follow(jobs: list[Job], runner: Runner) -> None:
    """Read the journals of all live jobs in one call and move the runs they speak of."""
    offsets = {job.directory: job.journal_offset for job in jobs}
    for directory, news in runner.journals(offsets).items():
        job = next(job for job in jobs if job.directory == directory)
        lines, consumed = parse_journal(news)
        if not lines:
            continue
        runs = {run.uid: run for run in job.runs.all()}
        for line in lines:
            run = runs.get(str(line.get("run")))
            if run and line["event"] == "run began" and run.state == Run.State.PLANNED:
                began = datetime.fromtimestamp(
                    float(line["time"]), tz=timezone.get_default_timezone()
                )
                move(run, Run.State.RUNNING, began_at=began, node=str(line.get("node", "")))
        offset = offsets[directory] + consumed
        Job.objects.filter(pk=job.pk).update(journal_offset=offset)


def _collect(held: Lease, runner: Runner) -> None:
    jobs = list(_jobs(held, Job.State.COLLECTING))
    for job in jobs:
        held.renew()
        collect(job, runner)


def _recover(held: Lease, runner: Runner) -> None:
    """A job caught between send and answer: adopt it if the cluster has it, else send it."""
    for job in _jobs(held, Job.State.SUBMITTING):
        held.renew()
        known = runner.find(job_spec(job))
        if known:
            move(
                job,
                Job.State.QUEUED,
                why=f"found again as {known}",
                scheduler_id=known,
                submitted_at=job.submitted_at or timezone.now(),
            )
        elif job.cancel_requested_at:
            move(job, Job.State.CANCELLED, why="cancelled before it was sent")
            end_runs(job, Run.State.CANCELLED, reason="cancelled")
        else:
            _send(job, runner)


def _submit(held: Lease, runner: Runner) -> None:
    """Send planned jobs, within the cluster's limit, in the plan's order."""
    free = held.cluster.max_live_jobs - _jobs(held, *Job.LIVE).count()
    planned = _jobs(held, Job.State.PLANNED).order_by("experiment__launched_at", "block", "pk")
    for job in planned[: max(free, 0)]:
        held.renew()
        try:
            script = render(job_spec(job), runner.scheduler)
        except ValueError as error:  # what cannot be said safely in a script is not sent
            _refuse(job, f"The job script cannot be written: {error}.")
            continue
        if move(job, Job.State.SUBMITTING, script=script, directory=job_directory(job)):
            _send(job, runner)


def _send(job: Job, runner: Runner) -> None:
    try:
        scheduler_id = runner.submit(job_spec(job))
    except Refused as refusal:
        _refuse(job, str(refusal))
        return
    move(
        job,
        Job.State.QUEUED,
        why=f"the scheduler calls it {scheduler_id}",
        scheduler_id=scheduler_id,
        submitted_at=timezone.now(),
    )


def _refuse(job: Job, words: str) -> None:
    """End a job that nobody will run, with the words of whoever refused it."""
    now = timezone.now()
    if move(job, Job.State.FAILED, why=words, reason="refused", message=words, ended_at=now):
        end_runs(job, Run.State.FAILED, reason="not submitted", message=words)


def _back_off(cluster: Cluster, error: TryAgain) -> None:
    """Keep every state as it is; say on the cluster's page what is wrong, and wait longer."""
    failures = cluster.failures + 1
    pause = min(
        timedelta(seconds=cluster.poll_seconds) * 2 ** min(failures - 1, 10), LONGEST_BACK_OFF
    )
    logger.warning("%s: %s (%s)", cluster, error, error.kind)
    Cluster.objects.filter(pk=cluster.pk).update(
        last_error=str(error),
        last_error_kind=error.kind,
        failures=failures,
        retry_at=timezone.now() + pause,
    )


def _seen(cluster: Cluster) -> None:
    now = timezone.now()
    Cluster.objects.filter(pk=cluster.pk).update(
        last_seen_at=now, last_error="", last_error_kind="", failures=0, retry_at=None
    )
    if cluster.credential_id:
        Credential.objects.filter(pk=cluster.credential_id).update(last_used_at=now)
