"""Collecting ended jobs: fetch what they left in one transfer, and let the files decide the end."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from django.utils import timezone

from experiments.execution.attempts_by_rule import must_wait
from experiments.execution.files_left import list_workload_files
from experiments.execution.guard import contain_failure
from experiments.execution.keeping import keep_endings
from experiments.execution.moves import move
from experiments.execution.operations import EMPTY_RECORD, finish_operation
from experiments.execution.repairs import is_taken_back, plan_on_any_node
from experiments.execution.requeued_jobs import find_requeued
from experiments.execution.run_ends import Ending
from experiments.execution.scheduler_answers import ask_endings, find_ending
from experiments.execution.unbegun_jobs import claim_unbegun, is_unbegun
from experiments.models import Job, Operation
from runners.directories import Fetched
from runners.errors import Refused
from runners.job_failures import name_failure
from runners.records import Record, read_record
from runners.runner import Runner

# A shared file system may show the last files late; after this, silence is an answer.
LATE_EXIT_CODE = timedelta(seconds=30)


def collect(row: Job | Operation, runner: Runner) -> None:
    """End the job or operation by what it left, unless its last files may still appear."""
    ending = _fetch_ending(row, runner)
    if ending is None:
        return
    record, reason, message, is_there = ending
    if isinstance(row, Job):
        _keep_job(row, record, reason, message, is_there=is_there)
    elif reason:
        location = describe_location(row, is_there=is_there)
        finish_operation(row, record, reason, f"{_end_sentence(message)} {location}")
    else:
        finish_operation(row, record, "", "")


def _fetch_ending(row: Job | Operation, runner: Runner) -> tuple[Record, str, str, bool] | None:
    """Return the record, the reason and the message of its failure, and whether it has a directory.

    Reason and message are "" for a success. None while files may still appear: the next visit
    collects again.
    """
    extra_files = list_workload_files(row)
    is_there = True
    try:
        files = runner.collect(row.directory, extra_files=extra_files)
    except FileNotFoundError:
        files, is_there = Fetched({}, {}), False
    except Refused as refusal:  # the file system refuses, or there is more than a transfer holds
        if not row.cancel_requested_at and files_may_be_late(row):
            return None
        return read_record({}), "unreadable", str(refusal), True
    record = read_record(files, extra_files=extra_files)
    if record.exit_code == 0:
        return None if record.missing and files_may_be_late(row) else (record, "", "", True)
    scheduler_ending = find_ending(row, ask_endings([row], runner))
    was_requeued = bool(find_requeued([row]))
    reason: str
    reason, message = name_failure(record, scheduler_ending, was_requeued=was_requeued)
    if is_there and is_unbegun(row, record, reason, scheduler_ending):
        if files_may_be_late(row):
            return None
        evidence = {row: message if scheduler_ending else ""}
        reason, message = claim_unbegun(evidence, runner).get(row.pk, (reason, message))
    if isinstance(row, Job) and must_wait(row, record, reason):
        return None
    if reason == "lost" and not row.cancel_requested_at and files_may_be_late(row):
        return None
    if reason == "lost" and is_there:
        # A job that meets a full disk leaves no exit code, and not every site keeps accounts.
        problem = runner.why_not_written(row.directory)
        if problem and problem.kind == "disk full":
            reason = "quota" if "quota" in str(problem).lower() else "disk full"
            message = f"the job left no exit code, and there is no room for one: {problem}"
    return record, reason, message, is_there


def describe_location(row: Job | Operation, *, is_there: bool = True) -> str:
    """Return a sentence on where a row's files are, or are not."""
    if is_there:
        return f"Its files are in {row.directory} on {row.cluster}."
    return f"Its directory {row.directory} on {row.cluster} is not there."


def end_as_damaged(row: Job | Operation, problem: str) -> None:
    """End a job or operation whose files cannot be read. The files stay where they are."""
    if isinstance(row, Job):
        _keep_job(row, EMPTY_RECORD, "damaged", problem)
        return
    message = f"{_end_sentence(problem)} {describe_location(row)}"
    with contain_failure(row, row.cluster, partial(_end_damaged_operation, row, message)):
        finish_operation(row, EMPTY_RECORD, "damaged", message)


def _end_damaged_operation(operation: Operation, message: str, problem: str) -> None:
    """End a damaged operation where the `finish` of its kind has failed too."""
    to = Operation.State.CANCELLED if operation.cancel_requested_at else Operation.State.FAILED
    move(operation, to, reason="damaged", message=f"{message} {problem}", ended_at=timezone.now())


def files_may_be_late(row: Job | Operation) -> bool:
    """Return whether a row has left the queue so lately that its last files may still appear."""
    return row.gone_at is not None and timezone.now() - row.gone_at < LATE_EXIT_CODE


def _keep_job(
    job: Job, record: Record, reason: str, message: str, *, is_there: bool = True
) -> None:
    """Store the end of one job, unless it was taken back to be sent again."""
    has_begun = record.started_by or record.journal or reason in ("damaged", "unreadable")
    if reason and is_taken_back(job) and not has_begun:
        plan_on_any_node(job)
        return
    keep_endings([make_ending(job, record, reason, message, is_there=is_there)])


def make_ending(
    job: Job, record: Record, reason: str, message: str, *, is_there: bool = True
) -> Ending:
    """Return how a job has ended: cancelled, if a person wanted that and it did not succeed."""
    if reason and job.cancel_requested_at and not is_taken_back(job):
        return Ending(job, record, "cancelled", "cancelled by a person", cancelled=True)
    if not reason:
        return Ending(job, record)
    message = _end_sentence(message)
    if is_there:
        return Ending(job, record, reason, message, location=describe_location(job))
    message = f"{message} Its directory on {job.cluster} is not there."
    return Ending(job, record, reason, message, location=f"It was {job.directory}.")


def _end_sentence(message: str) -> str:
    return f"{message.rstrip('.')}."
