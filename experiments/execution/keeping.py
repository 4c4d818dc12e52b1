"""Storing how jobs and their runs ended: a portion of jobs in a few statements.

All of a portion is stored in one transaction. A run whose values the database refuses ends as
damaged; the other runs keep theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.utils import timezone

from experiments.comparisons.step_summaries import add_step_summary
from experiments.execution.attempts_by_rule import plan_by_rule
from experiments.execution.files_left import describe_files, list_files
from experiments.execution.guard import contain_failure, is_about_the_visit
from experiments.execution.journals import read_nodes, read_times
from experiments.execution.late_files import compute_next_look
from experiments.execution.moves import Move, lock_in_order, move_each, record_event
from experiments.execution.node_samples import keep_samples
from experiments.execution.rejected_again import plan_rejected_again
from experiments.execution.run_ends import (
    Ending,
    RunEnd,
    decide_run_end,
    describe_damaged_end,
)
from experiments.execution.run_measures import keep_measures
from experiments.execution.segments import keep_segments, plan_further_segments
from experiments.execution.series_copy import copy_series
from experiments.execution.stored_records import keep_stored_records
from experiments.models import Job, Measurement, Run, RunFile, Series, Snapshot, User
from experiments.snapshots import replace_paths
from runners.records import Record

MOST_STEPS = 2**31 - 1  # the largest value of the column
MOST_BYTES = 2**63 - 1  # the same; sparse files may say that they are larger together


def keep_endings(endings: Sequence[Ending]) -> None:
    """Store the outcome of each run of these jobs, then end the jobs, in one transaction."""
    jobs = [ending.job for ending in endings]
    runs_by_job: dict[int, list[Run]] = {job.pk: [] for job in jobs}
    runs = Run.objects.filter(job__in=jobs).select_related("environment").defer("output_tail")
    for run in runs.order_by("pk"):
        runs_by_job[run.job_id].append(run)
    ends: list[RunEnd] = []
    for ending in endings:
        _decide(ending, runs_by_job[ending.job.pk], ends)
    try:
        with transaction.atomic():
            lock_in_order(jobs)
            for ending in endings:
                if ending.damage:
                    experiment = ending.job.experiment
                    record_event(experiment, "damaged journal", job=ending.job, why=ending.damage)
            _keep_each(ends)
            _end_jobs(endings)
    except BaseException:
        for job in jobs:  # what was rolled back is not what they say
            job.state = Job.State.COLLECTING
        raise


def _decide(ending: Ending, runs: Sequence[Run], ends: list[RunEnd]) -> None:
    """Add the ends of a job's runs that have none yet. What cannot be read ends as damaged."""
    for run in runs:
        run.job = ending.job
        if run.state not in (Run.State.PLANNED, Run.State.RUNNING):
            continue

        def add_damaged(problem: str, run: Run = run) -> None:
            ends.append(describe_damaged_end(run, problem))

        with contain_failure(run, ending.job.cluster, add_damaged):
            ends.append(decide_run_end(ending, run, runs))


def _keep_each(ends: Sequence[RunEnd]) -> None:
    """Store the ends of runs together; if one of them makes that fail, each by itself."""
    try:
        keep_run_ends(ends)
    except Exception as error:
        if is_about_the_visit(error):
            raise
        for end in ends:

            def keep_as_damaged(problem: str, run: Run = end.run) -> None:
                keep_run_ends([describe_damaged_end(run, problem)])

            with contain_failure(end.run, end.run.job.cluster, keep_as_damaged):
                keep_run_ends([end])


def keep_run_ends(ends: Sequence[RunEnd], *, why: str = "", by: User | None = None) -> list[RunEnd]:
    """Store the ends of runs, and return those of runs whose state nobody else has changed.

    Only runs that have succeeded get measurements.
    """
    groups: dict[tuple[str, str, frozenset[str]], list[RunEnd]] = {}
    for end in ends:
        key = end.run.state, end.to, end.list_columns()
        groups.setdefault(key, []).append(end)
    try:
        return _keep_groups(groups, why, by)
    except BaseException:
        for (before, *_), group in groups.items():
            for end in group:  # what was rolled back is not what they say
                end.run.state = before
        raise


def _keep_groups(
    groups: Mapping[tuple[str, str, frozenset[str]], Sequence[RunEnd]], why: str, by: User | None
) -> list[RunEnd]:
    """Store the ends of runs, those of one transition with the same columns at a time."""
    kept: list[RunEnd] = []
    with transaction.atomic():
        for (before, to, _), group in groups.items():
            snapshots = _keep_snapshots(group)
            moves = [
                Move(
                    end.run,
                    " ".join(filter(None, [why, end.why])),
                    {**end.columns, **_describe_size(end), **snapshot},
                    by,
                )
                for end, snapshot in zip(group, snapshots, strict=True)
            ]
            moved = {run.pk for run in move_each(moves, before, to)}
            kept += [end for end in group if end.run.pk in moved]
        _keep_files([end for end in kept if end.run_record])
        _keep_numbers(kept)
        kept = keep_segments(kept)
        keep_measures(kept)
        keep_samples(kept)
        keep_stored_records(kept)
    return kept


def _keep_snapshots(group: Sequence[RunEnd]) -> list[dict[str, Any]]:
    """Return the column `snapshot` of each run of a group, of which all have one or none has."""
    contents = [dict(end.snapshot) for end in group if end.snapshot is not None]
    if not contents:
        return [{} for _ in group]
    return [{"snapshot": snapshot} for snapshot in Snapshot.objects.keep_all(contents)]


def _describe_size(end: RunEnd) -> dict[str, int]:
    """Return the columns that count a run's files."""
    if end.run_record is None or end.record is None:
        return {}
    sizes = [size for _, size in list_files(end.run, end.record)]
    return {"files_count": len(sizes), "files_bytes": min(sum(sizes), MOST_BYTES)}


def _keep_files(ends: Sequence[RunEnd]) -> None:
    """Store a row for each file that runs left, in place of those of an earlier attempt."""
    if not ends:
        return
    RunFile.objects.filter(run__in=[end.run.pk for end in ends]).delete()
    RunFile.objects.bulk_create(
        row
        for end in ends
        if end.run_record and end.record
        for row in describe_files(end.run, end.run_record, end.record)
    )


def _keep_numbers(ends: Sequence[RunEnd]) -> None:
    """Store measurements and series; no run keeps series of an earlier attempt."""
    with_steps = [end for end in ends if end.result or end.steps]
    if not with_steps:
        return
    Measurement.objects.bulk_create(
        Measurement(run=end.run, metric=name, value=value, unit=unit)
        for end in with_steps
        if end.result
        for name, (value, unit) in end.result.measurements.items()
    )
    Series.objects.filter(run__in=[end.run.pk for end in with_steps]).delete()
    copy_series([series for end in with_steps for series in _describe_series(end)])


def _describe_series(end: RunEnd) -> list[Series]:
    """Return the steps of a run, with their summaries if it has succeeded."""
    reported = end.result or end.steps
    assert reported
    rows = [
        Series(
            run=end.run,
            metric=name,
            unit=unit,
            values=list(values),
            steps=reported.steps.get(name),
        )
        for name, (unit, values) in reported.series.items()
    ]
    if end.result:
        burn_in = _read_burn_in(end.result.facts)
        for row in rows:
            row.burn_in = burn_in
            add_step_summary(row)
    return rows


def _read_burn_in(facts: Mapping[str, Any]) -> int | None:
    """Return the steps that a program itself leaves out of its means; None if it does not say."""
    count = facts.get("burn_in")
    is_count = isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MOST_STEPS
    return count if is_count else None


def _end_jobs(endings: Sequence[Ending]) -> None:
    """Move the jobs to their final states, with what was true of their nodes."""
    snapshots = Snapshot.objects.keep_all(
        [describe_outside(ending.job, ending.record) for ending in endings]
    )
    moves: dict[str, list[Move[Job]]] = {}
    for ending, snapshot in zip(endings, snapshots, strict=True):
        job, record = ending.job, ending.record
        failed = Job.State.CANCELLED if ending.cancelled else Job.State.FAILED
        to: str = failed if ending.reason else Job.State.DONE
        times = read_times(job, record)
        complete = record.exit_code is not None and not record.missing
        next_look = {} if ending.cancelled else compute_next_look(job, times["ended_at"], complete)
        message = f"{ending.message} {ending.location}".strip()
        columns = {
            "reason": ending.reason,
            "message": message,
            "exit_code": record.exit_code,
            "snapshot": snapshot if record.snapshot else None,
            "nodes": read_nodes(record),
            "verified_at": timezone.now() if record.is_verified else None,
            **times,
            **next_look,
        }
        moves.setdefault(to, []).append(Move(job, message, columns))
    for to, group in moves.items():
        ended = move_each(group, Job.State.COLLECTING, to)
        keys = {job.pk for job in ended}
        going_on = plan_further_segments([e for e in endings if e.job.pk in keys])
        plan_by_rule([job for job in ended if job.pk not in going_on])
        plan_rejected_again(ended)


def describe_outside(job: Job, record: Record) -> dict[str, Any]:
    """Return what the job script saw of its node, outside the containers."""
    named: dict[str, Any] = replace_paths({"outside": dict(record.snapshot)}, job.directory)
    return named
