"""Collecting several ended jobs together: what they left comes and is stored in a few steps.

Most jobs leave little. What is large, missing or odd is left to `collect`, which handles one job by
itself; so is what an earlier visit has tried before, as its files may have ended that worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rq.timeouts import BaseTimeoutException

from experiments.execution.attempts_by_rule import must_wait
from experiments.execution.collect import (
    end_as_damaged,
    files_may_be_late,
    make_ending,
)
from experiments.execution.files_left import list_files_of_workloads
from experiments.execution.guard import (
    handle_together,
    is_about_the_visit,
    make_storable,
    note_failure,
)
from experiments.execution.keeping import keep_endings
from experiments.execution.own_failures import Failure
from experiments.execution.read_attempts import count_attempt
from experiments.execution.repairs import is_taken_back
from experiments.execution.requeued_jobs import find_requeued
from experiments.execution.run_ends import Ending
from experiments.execution.scheduler_answers import NoAccounts, ask_endings, find_ending
from experiments.execution.unbegun_jobs import claim_unbegun, is_unbegun
from experiments.models import Job, Operation
from runners.directories import Fetched
from runners.errors import Refused, TryAgain
from runners.job_failures import name_failure
from runners.records import Record, read_record
from runners.runner import Runner

PORTION = 50


def split_first_portion(
    rows: Sequence[Job | Operation],
) -> tuple[list[Job | Operation], list[Job | Operation]]:
    """Return the rows to collect next, and the others. Operations are collected alone."""
    portion: list[Job | Operation] = []
    for row in rows[:PORTION]:
        if not isinstance(row, Job) or row.collecting_attempts:
            break
        portion.append(row)
    size = len(portion) or 1
    return list(rows[:size]), list(rows[size:])


def collect_together(rows: Sequence[Job | Operation], runner: Runner) -> list[Job | Operation]:
    """End the jobs of a portion by what they left; return the rows to be collected alone.

    A worker that ends meanwhile has each of them collected alone by the next one. Those that wait
    for late files stay as they are.
    """
    jobs = [row for row in rows if isinstance(row, Job)]
    if len(jobs) < 2:
        return list(rows)
    with count_attempt(*jobs):
        extra_files = list_files_of_workloads(jobs)
        records = _read_records(jobs, extra_files, runner)
        try:
            endings = _find_endings(jobs, records, runner)
        except Exception as error:
            if is_about_the_visit(error):
                raise
            return list(rows)  # which of them is at fault is seen when each is collected alone

        def keep(portion: Sequence[Job]) -> None:
            keep_endings([ending for job in portion if (ending := endings[job.pk])])

        handle_together([job for job in jobs if endings.get(job.pk)], keep, end_as_damaged)
    return [job for job in jobs if job.pk not in endings]


def _read_records(
    jobs: Sequence[Job], extra_files: Mapping[int, set[str]], runner: Runner
) -> dict[int, Record]:
    """Return the records of those jobs that left all that is needed of them, by key."""
    records = {}
    for job, files in _fetch(jobs, extra_files, runner):
        try:
            record = read_record(files, extra_files=extra_files[job.pk])
        except Exception as error:
            if is_about_the_visit(error):
                raise
            continue  # said, and kept, when the job is collected alone
        if not record.missing:
            records[job.pk] = record
    return records


def _fetch(
    jobs: Sequence[Job], extra_files: Mapping[int, set[str]], runner: Runner
) -> list[tuple[Job, Fetched]]:
    """Return jobs with what they left, in one transfer; none if that fails for one of them."""
    try:
        fetched = runner.collect_all({job.directory: extra_files[job.pk] for job in jobs})
    except BaseTimeoutException:  # the worker's time is over: as if it had been killed
        raise
    except Exception as error:
        takes_long = isinstance(error, TryAgain) and error.kind == "time-out"
        if is_about_the_visit(error) and not takes_long:
            raise
        return []  # which of them is at fault is seen when each is collected alone
    return [(job, fetched[job.directory]) for job in jobs if job.directory in fetched]


def _find_endings(
    jobs: Sequence[Job], records: Mapping[int, Record], runner: Runner
) -> dict[int, Ending | None]:
    """Return how jobs ended, by key: those of which files and scheduler say it without a doubt.

    None for those whose files, or accounts, are waited for.
    """
    read = [job for job in jobs if job.pk in records and not is_taken_back(job)]
    failed = [job for job in read if records[job.pk].exit_code != 0]
    endings: dict[int, Ending | None] = {}
    try:
        named = _name_failures(failed, records, runner)
    except Refused:
        named = {}
        read = [job for job in read if job not in failed]
    except NoAccounts as error:
        note_failure(failed[0].cluster, Failure(make_storable(str(error))), of=failed[0])
        named = {}
        read = [job for job in read if job not in failed]
        endings |= dict.fromkeys(job.pk for job in failed)
    for job in read:
        named_end = named.get(job.pk, ("", ""))
        if named_end is None:
            endings[job.pk] = None
            continue
        record, (reason, message) = records[job.pk], named_end
        if reason != "lost" or job.cancel_requested_at:  # then it has ended all the same
            waits = must_wait(job, record, reason)
            ending = make_ending(job, record, reason, message)
            endings[job.pk] = None if waits else ending
        elif files_may_be_late(job):
            endings[job.pk] = None
    return endings


def _name_failures(
    failed: Sequence[Job], records: Mapping[int, Record], runner: Runner
) -> dict[int, tuple[str, str] | None]:
    """Return why jobs failed, and the evidence, by key. Those that never began are claimed.

    None for those that may still show that they began.
    """
    if not failed:
        return {}
    last_words = ask_endings(failed, runner)
    requeued = find_requeued(failed)
    named: dict[int, tuple[str, str] | None] = {}
    unbegun = {}
    for job in failed:
        record, last_word = records[job.pk], find_ending(job, last_words)
        reason, message = name_failure(record, last_word, was_requeued=job.pk in requeued)
        named[job.pk] = reason, message
        if not is_unbegun(job, record, reason, last_word):
            continue
        if files_may_be_late(job):
            named[job.pk] = None
        else:
            unbegun[job] = message if last_word else ""
    return named | claim_unbegun(unbegun, runner)
