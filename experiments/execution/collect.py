"""Collecting ended jobs: fetch what they left in one transfer, and let the files decide the end."""

from __future__ import annotations

import math
from datetime import timedelta
from functools import partial
from textwrap import shorten

from django.db import transaction
from django.utils import timezone

from experiments.comparisons.step_summaries import add_step_summary
from experiments.execution.files_left import (
    explain_unread_files,
    keep_files,
    list_damaged_files,
    list_workload_files,
)
from experiments.execution.guard import contain_failure
from experiments.execution.journals import find_journal_line, parse_moment, read_times
from experiments.execution.late_files import plan_next
from experiments.execution.lifecycle import end_runs
from experiments.execution.moves import move
from experiments.execution.moves import record_event as note_event
from experiments.execution.operations import EMPTY_RECORD, finish_operation
from experiments.execution.repairs import is_taken_back, plan_on_any_node
from experiments.models import Job, Measurement, Operation, Run, Series, Snapshot, User
from experiments.models.states import NOT_STARTED
from experiments.snapshots import find_differing_facts
from runners.directories import Fetched
from runners.errors import Refused
from runners.job_failures import name_failure, name_run_failure
from runners.records import Record, RunRecord, read_record
from runners.runner import Runner
from runners.untrusted import clean_text
from runners.workloads import WORKLOADS, Result, SanityError

# A shared file system may show the last files late; after this, silence is an answer.
FILES_MAY_BE_LATE = timedelta(seconds=30)


MOST_STEPS = 2**31 - 1  # the largest value of the column
LONGEST_MESSAGE = 5000  # characters


def collect(row: Job | Operation, runner: Runner, files: Fetched | None = None) -> None:
    """End the job or operation by what it left, unless its last files may still appear.

    `files` are what it left; they are fetched if there are none yet.
    """
    ending = _fetch_ending(row, runner, files)
    if ending is None:
        return
    if isinstance(row, Job):
        _keep_job(row, *ending)
    else:
        finish_operation(row, *ending)


def _fetch_ending(
    row: Job | Operation, runner: Runner, files: Fetched | None
) -> tuple[Record, str, str] | None:
    """Return the record with the reason and the message of its failure, both "" for a success.

    None while files may still appear: the next visit collects again.
    """
    extra_files = list_workload_files(row)
    location = f"Its files are in {row.directory} on {row.cluster}."
    is_there = True
    fetched_before = bool(files)
    try:
        files = files or runner.collect(row.directory, extra_files=extra_files)
    except FileNotFoundError:
        files, is_there = Fetched({}, {}), False
        location = f"Its directory {row.directory} on {row.cluster} is not there."
    except Refused as refusal:  # the file system refuses, or there is more than a transfer holds
        if not row.cancel_requested_at and _files_may_be_late(row):
            return None
        return read_record({}), "unreadable", f"{str(refusal).rstrip('.')}. {location}"
    record = read_record(files, extra_files=extra_files)
    if fetched_before and (record.exit_code is None or record.missing):
        return _fetch_ending(row, runner, None)  # more may have arrived since
    if record.exit_code == 0:
        return None if record.missing and _files_may_be_late(row) else (record, "", "")
    scheduler_ending = runner.read_endings([row.scheduler_id]).get(row.scheduler_id)
    reason, message = name_failure(record, scheduler_ending)
    if reason == "lost" and not row.cancel_requested_at and _files_may_be_late(row):
        return None
    if reason == "lost" and is_there and record.started_by is None:
        # A job that meets a full disk leaves no files either, and not every site keeps accounts.
        problem = runner.why_not_written(row.directory)
        if problem and problem.kind == "disk full":
            reason, message = (
                problem.kind,
                f"the job left nothing, and there is no room for it: {problem}",
            )
    return record, reason, f"{message}. {location}"


def end_as_damaged(row: Job | Operation, problem: str) -> None:
    """End a job or operation whose files cannot be read. The files stay where they are."""
    message = f"{problem.rstrip('.')}. Its files are in {row.directory} on {row.cluster}."
    if isinstance(row, Job):
        _keep_job(row, EMPTY_RECORD, "damaged", message)
        return
    with contain_failure(row, row.cluster, partial(_end_damaged_operation, row, message)):
        finish_operation(row, EMPTY_RECORD, "damaged", message)


def _end_damaged_operation(operation: Operation, message: str, problem: str) -> None:
    """End a damaged operation where the `finish` of its kind has failed too."""
    to = Operation.State.CANCELLED if operation.cancel_requested_at else Operation.State.FAILED
    move(operation, to, reason="damaged", message=f"{message} {problem}", ended_at=timezone.now())


def _files_may_be_late(row: Job | Operation) -> bool:
    return row.gone_at is not None and timezone.now() - row.gone_at < FILES_MAY_BE_LATE


def _keep_job(job: Job, record: Record, reason: str, message: str) -> None:
    """Store the outcome of each run, then end the job, in one transaction."""
    cancelled = bool(reason and job.cancel_requested_at)
    has_begun = record.started_by or record.journal or reason in ("damaged", "unreadable")
    if cancelled and is_taken_back(job) and not has_begun:
        plan_on_any_node(job)
        return
    if cancelled:
        reason, message = "cancelled", "cancelled by a person"
    damage = f"Its journal cannot be read: {'; '.join(record.damage)}." if record.damage else ""
    with transaction.atomic():
        if damage:
            note_event(job.experiment, "damaged journal", job=job, why=damage)
        for run in job.runs.filter(state__in=(Run.State.PLANNED, Run.State.RUNNING)):
            run_record = record.runs.get(run.uid)
            with (
                contain_failure(run, job.cluster, partial(_end_damaged_run, run)),
                transaction.atomic(),
            ):
                if run_record and has_ended_by_itself(run_record, record):
                    keep_run(run, run_record, record)
                elif run_record:
                    _keep_progress(run, run_record, record)
                if reason and not cancelled and _has_never_begun(run, record):
                    _end_unstarted(run, record, message)
        end_runs(
            job,
            Run.State.CANCELLED if cancelled else Run.State.FAILED,
            reason=reason or ("damaged" if damage else "not run"),
            message=message or damage or "The job ended without a word about this run.",
        )
        failed_state = Job.State.CANCELLED if cancelled else Job.State.FAILED
        move(
            job,
            failed_state if reason else Job.State.DONE,
            why=message,
            reason=reason,
            message=message,
            exit_code=record.exit_code,
            **read_times(job, record),
        )
        if not cancelled:
            plan_next(job, complete=record.exit_code is not None and not record.missing)


def _has_never_begun(run: Run, record: Record) -> bool:
    """Return whether the job's journal is complete and does not mention this run."""
    is_mentioned = (
        record.damage or not record.journal or find_journal_line(record, "run began", run.uid)
    )
    return run.state == Run.State.PLANNED and not is_mentioned


def _end_unstarted(run: Run, record: Record, message: str) -> None:
    """End a run that did not start because its job ended earlier, and say in which run."""
    uid = find_journal_line(record, "run began").get("run")
    last = Run.objects.filter(uid=uid, job=run.job_id).select_related("environment").first()
    when = f"in its run of {last.environment}" if last else "before its first run"
    message = f"Not started, because its job ended {when}: {message}"
    move(run, Run.State.FAILED, why=message, reason=NOT_STARTED, message=message)


def _end_damaged_run(run: Run, problem: str) -> None:
    """End a run whose files cannot be read; the other runs of its job keep their results."""
    message = f"{problem.rstrip('.')}. Its files are in {run.job.directory} on {run.job.cluster}."
    now = timezone.now()
    move(run, Run.State.FAILED, why=message, reason="damaged", message=message, ended_at=now)


def has_ended_by_itself(run_record: RunRecord, record: Record) -> bool:
    """Return whether the run ended by itself, rather than being cut off together with its job."""
    if run_record.failure:
        return True
    terminated = find_journal_line(record, "terminated").get("time", math.inf)
    return (
        run_record.exit_code is not None
        and run_record.ended is not None
        and run_record.ended < terminated
    )


def keep_run(
    run: Run, run_record: RunRecord, record: Record, *, why: str = "", by: User | None = None
) -> bool:
    """Store one run's outcome; return False if its state has been changed meanwhile.

    A run that fails its sanity check gets no measurements.
    """
    state, reason, message, result = decide_outcome(run, run_record, record)
    snapshot = {
        "inside": run_record.snapshot,
        "outside": dict(record.snapshot),
        "runtime": run_record.runtime_version,
        "image": run.spec["environment"]["image_digest"],
    }
    if differing_facts := find_differing_facts(run_record.snapshot, run_record.others):
        snapshot["others"] = differing_facts
    moved = move(
        run,
        state,
        why=" ".join(filter(None, [why, message])),
        by=by,
        reason=reason,
        message=message,
        exit_code=run_record.exit_code,
        node=find_journal_line(record, "run began", run.uid).get("node") or "",
        began_at=parse_moment(run_record.began),
        ended_at=parse_moment(run_record.ended) or timezone.now(),
        command=run_record.command,
        output_tail=run_record.output_tail,
        snapshot=Snapshot.objects.keep(snapshot),
        phases=result.phases if result else {},
    )
    if not moved:
        return False
    keep_files(run, run_record, record)
    if result is None:
        _keep_steps(run, run_record)
        return True
    Measurement.objects.bulk_create(
        Measurement(run=run, metric=name, value=value, unit=unit)
        for name, (value, unit) in result.measurements.items()
    )
    run.series.all().delete()  # those of an earlier attempt
    reported_steps = result.facts.get("burn_in")
    is_count = (
        isinstance(reported_steps, int)
        and not isinstance(reported_steps, bool)
        and 0 <= reported_steps <= MOST_STEPS
    )
    fixed_warm_up = reported_steps if is_count else None
    Series.objects.bulk_create(
        add_step_summary(
            Series(
                run=run,
                metric=name,
                unit=unit,
                values=list(values),
                steps=result.steps.get(name),
                burn_in=fixed_warm_up,
            )
        )
        for name, (unit, values) in result.series.items()
    )
    return True


def _keep_progress(run: Run, run_record: RunRecord, record: Record) -> None:
    """Store how far a run came that was cut off together with its job; its state stays."""
    columns = {"command": run_record.command, "output_tail": run_record.output_tail}
    Run.objects.filter(pk=run.pk).update(**columns)
    keep_files(run, run_record, record)
    _keep_steps(run, run_record)


def _keep_steps(run: Run, run_record: RunRecord) -> None:
    """Store the steps of a run without a result. They are shown; no comparison uses them."""
    workload = run.spec["workload"]
    so_far = WORKLOADS[workload["kind"]].read_partial(run_record.files, workload["parameters"])
    run.series.all().delete()  # those of an earlier attempt
    Series.objects.bulk_create(
        Series(run=run, metric=name, unit=unit, values=values, steps=so_far.steps.get(name))
        for name, (unit, values) in so_far.series.items()
    )


def decide_outcome(
    run: Run, run_record: RunRecord, record: Record
) -> tuple[str, str, str, Result | None]:
    """Return the run's state, reason and message, and its result if it passed its sanity check."""
    if run_record.failure or run_record.exit_code != 0:
        return Run.State.FAILED, *name_run_failure(run_record, record), None
    if changed_files := list_damaged_files(run, record):
        message = f"{clean_text(', '.join(changed_files))} does not match its check sum."
        return Run.State.FAILED, "damaged", message, None
    if run_record.damage:
        return Run.State.FAILED, "damaged", f"{run_record.damage}.", None
    try:
        workload = run.spec["workload"]
        result = WORKLOADS[workload["kind"]].read(run_record.files, workload["parameters"])
    except SanityError as error:
        explanations = explain_unread_files(run, run_record, record)
        reason = "too large" if explanations else "not sane"
        message = clean_text(" ".join([*explanations, str(error)]))
        return Run.State.FAILED, reason, shorten(message, LONGEST_MESSAGE, placeholder=" ..."), None
    return Run.State.SUCCEEDED, "", result.note, result
