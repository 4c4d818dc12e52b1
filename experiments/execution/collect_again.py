"""Reading an ended job's files once more: late files are added, and no result is taken away."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from experiments.execution.files_left import list_workload_files
from experiments.execution.further_attempts import MAY_CHANGE
from experiments.execution.guard import contain_failure
from experiments.execution.journals import read_nodes, read_times
from experiments.execution.keeping import describe_outside, keep_run_ends
from experiments.execution.late_files import is_verdict_out, note_after_verdict, plan_next
from experiments.execution.moves import move, record_event
from experiments.execution.run_ends import describe_own_end, has_ended_by_itself
from experiments.models import Job, Run, Snapshot
from runners.errors import Refused
from runners.records import Record, RunRecord, read_record
from runners.runner import Runner

WHY = "files that arrived late"


def collect_again(job: Job, runner: Runner) -> None:
    """Fetch an ended job's files again, and store the runs that now prove to have succeeded."""
    extra_files = list_workload_files(job)
    try:
        job_record = read_record(
            runner.collect(job.directory, extra_files=extra_files), extra_files=extra_files
        )
    except FileNotFoundError:
        _note(job, "its directory is not there")
        plan_next(job, complete=False)
        return
    except Refused as refusal:
        _note(job, str(refusal))
        plan_next(job, complete=False)
        return
    changed = _keep_late(job, job_record)
    complete = job_record.exit_code is not None and not job_record.missing
    if not changed:
        _note(job, "nothing that was not known")
    plan_next(job, complete=complete)
    verified_at = timezone.now() if job_record.is_verified else None
    Job.objects.filter(pk=job.pk, attempt=job.attempt).update(verified_at=verified_at)


def _note(job: Job, why: str) -> None:
    """Record the outcome if a person asked for it; ticks record only what they change."""
    if job.collect_asked_by:
        record_event(job.experiment, "collected again", job=job, why=why)


def _keep_late(job: Job, job_record: Record) -> int:
    """Store what the files add, in one transaction; return how many runs changed."""
    changed = 0
    is_out = is_verdict_out(job)
    with transaction.atomic():
        # The next attempt may have been planned meanwhile: then these files are out of date.
        rows = Job.objects.select_for_update().filter(pk=job.pk, attempt=job.attempt)
        if not rows.filter(state__in=Job.FINAL).exists():
            return 0
        for run in job.runs.filter(state__in=MAY_CHANGE).order_by("position"):
            run_record = job_record.runs.get(run.uid)
            if run_record is None or not has_ended_by_itself(run_record, job_record):
                continue
            with contain_failure(run, job.cluster), transaction.atomic():
                changed += _keep_late_run(job, run, run_record, job_record, is_out=is_out)
        if job_record.snapshot and job.snapshot_id is None:
            rows.update(snapshot=Snapshot.objects.keep(describe_outside(job, job_record)))
        if nodes := read_nodes(job_record):
            rows.update(nodes=nodes)
        if job.state == Job.State.FAILED and job_record.exit_code == 0:
            ended = {"reason": "", "message": "", "exit_code": 0, **read_times(job, job_record)}
            move(job, Job.State.DONE, why=WHY, **ended)
    return changed


def _keep_late_run(
    job: Job, run: Run, run_record: RunRecord, job_record: Record, *, is_out: bool
) -> bool:
    """Store what a run has left if it adds to what is known; return whether it does."""
    end = describe_own_end(run, run_record, job_record)
    if end.to == Run.State.SUCCEEDED:
        if not keep_run_ends([end], why=WHY, by=job.collect_asked_by):
            return False
        if is_out:
            note_after_verdict(run, job.collect_asked_by)
        return True
    says_more = run.exit_code is None and (
        run_record.exit_code is not None or bool(run_record.failure)
    )
    if run.state != Run.State.FAILED or not says_more:
        return False
    columns = {name: end.columns[name] for name in ("reason", "message", "exit_code")}
    for name, text in (("command", run_record.command), ("output_tail", run_record.output_tail)):
        if text:
            columns[name] = text
    Run.objects.filter(pk=run.pk, state=Run.State.FAILED).update(**columns)
    why = f"{WHY}: {end.why}"
    record_event(
        job.experiment, "collected again", job=job, run=run, why=why, by=job.collect_asked_by
    )
    return True


def put_off(job: Job, problem: str, *, is_away: bool = False) -> None:
    """Plan to look again later, because the files cannot be read now.

    `is_away`: the cluster did not answer.
    """
    _note(job, problem)
    plan_next(job, complete=False, is_away=is_away)
