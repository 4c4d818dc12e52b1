"""Reading what runs have printed and reported so far, only while somebody looks at their pages.

A page that is open asks for a visit every few seconds; the visit reads all runs that are watched by
one command. What was read is shown and nothing else: a run's end is decided by its files.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import F, Q
from django.db.models.functions import Now

from experiments.execution.guard import contain_failure, make_storable
from experiments.execution.lease import Lease
from experiments.execution.visit_outcomes import ask_for_another_visit
from experiments.models import LiveReading, Run
from runners.errors import TryAgain
from runners.live_files import MOST_REPORT_BYTES, LiveFiles, read_live_files
from runners.node_samples import describe_so_far
from runners.runner import Runner
from runners.workloads.live_reports import restore_report

WATCHED = timedelta(seconds=20)
"""How long a run counts as watched after its page has asked for it."""
LEAST_INTERVAL = timedelta(seconds=4)
"""The least time between two readings of a run."""
AFTER_PROBLEM = timedelta(seconds=60)
"""The same where it could not be read: a file system that hangs costs each visit seconds."""
READ = (
    *("directory", "offset", "report"),
    *("run__uid", "run__position", "run__began_at", "run__job__directory"),
)
"""Columns of readings, and of their runs, that a visit needs."""
NOTE_WATCHED = """
INSERT INTO experiments_livereading
    (run_id, watched_at, directory, "offset", report, output_tail, samples, problem)
VALUES (%s, statement_timestamp(), '', 0, '{}', '', '{}', '')
ON CONFLICT (run_id) DO UPDATE SET watched_at = statement_timestamp()
RETURNING *, statement_timestamp() AS now
"""
MOST_RUNS = 20
"""Runs that are read in one visit; the others' turn comes with the next one."""


def watch(run: Run) -> LiveReading:
    """Have a running run read soon, as somebody looks at it; return what was read last.

    Of an earlier attempt nothing is returned.
    """
    # One statement: a visit may delete the row at any time, as the run has ended.
    (reading,) = LiveReading.objects.raw(NOTE_WATCHED, [run.pk])
    now: datetime = getattr(reading, "now")  # noqa: B009 - a column of the statement alone
    if reading.directory != _name_directory(run):
        reading = LiveReading(run=run)
    cluster = run.job.cluster
    pause = AFTER_PROBLEM if reading.problem else LEAST_INTERVAL
    is_due = reading.read_at is None or now - reading.read_at >= pause
    if is_due and cluster.enabled and cluster.wanted_at is None:
        ask_for_another_visit(cluster)
    return reading


def _name_directory(run: Run) -> str:
    """Return a run's directory on its cluster, which no other attempt has."""
    return f"{run.job.directory}/{run.folder}"


def read_watched(held: Lease, runner: Runner) -> None:
    """Read the runs of the held cluster that somebody looks at, those first that waited longest.

    A site that does not let them be read is noted beside each of them, and the visit goes on.
    """
    if held.cluster.wanted_at is None:  # as it was before the visit: nobody waits for anything
        return
    readings = LiveReading.objects.filter(run__job__cluster=held.cluster)
    watched = readings.filter(
        Q(read_at=None)
        | Q(read_at__lte=Now() - LEAST_INTERVAL, problem="")
        | Q(read_at__lte=Now() - AFTER_PROBLEM),
        run__state=Run.State.RUNNING,
        run__ended_at=None,
        watched_at__gt=Now() - WATCHED,
    )
    rows = list(
        watched.select_related("run__job")
        .only(*READ)
        .order_by(F("read_at").asc(nulls_first=True), "pk")[:MOST_RUNS]
    )
    if not rows:
        return
    rows_by_directory = {_name_directory(row.run): row for row in rows}
    offsets = {
        directory: row.offset if row.directory == directory else 0
        for directory, row in rows_by_directory.items()
    }
    try:
        files = read_live_files(runner.transport, offsets)
    except TryAgain as error:
        for directory, row in rows_by_directory.items():
            problem = make_storable(str(error))
            _change(row, directory=directory, problem=problem, read_at=Now())
        return
    for directory, row in rows_by_directory.items():
        with contain_failure(row.run, held.cluster):
            _store(row, directory, files[directory])
    readings.exclude(run__state=Run.State.RUNNING).delete()


def _store(row: LiveReading, directory: str, files: LiveFiles) -> None:
    """Add to a reading what its run's report has gained."""
    # A program that was started again has begun its report anew, and so has a further attempt.
    goes_on = row.directory == directory and files.offset == row.offset
    report = restore_report(row.report if goes_on else {})
    is_all = len(files.report) < MOST_REPORT_BYTES
    known_bytes = report.add_lines(files.report, is_all=is_all)
    began = row.run.began_at
    _change(
        row,
        directory=directory,
        read_at=Now(),
        offset=files.offset + known_bytes,
        report=report.build_document(),
        output_tail=files.output,
        samples=describe_so_far(files.samples, began.timestamp() if began else 0.0),
        problem="",
    )


def _change(row: LiveReading, **columns: object) -> None:
    LiveReading.objects.filter(pk=row.pk).update(**columns)
