"""Fetching what several ended jobs left in one transfer.

Most jobs leave little. What is large, missing or odd is left to `collect`, which fetches the files
of one job; so is what an earlier visit has tried before, as its files may have ended that worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from django.db import DatabaseError, InterfaceError
from django.utils import timezone
from rq.timeouts import BaseTimeoutException

from experiments.execution.files_left import list_workload_files
from experiments.execution.guard import is_about_the_visit
from experiments.models import Job, Operation
from runners.directories import Fetched
from runners.errors import TryAgain
from runners.runner import Runner

PORTION = 50


def split_first_portion(
    rows: Sequence[Job | Operation],
) -> tuple[list[Job | Operation], list[Job | Operation]]:
    """Return the rows whose files to fetch next, and the others. Operations are fetched alone."""
    portion: list[Job | Operation] = []
    for row in rows[:PORTION]:
        if not isinstance(row, Job) or row.collecting_attempts:
            break
        portion.append(row)
    size = len(portion) or 1
    return list(rows[:size]), list(rows[size:])


def fetch_portion(rows: Sequence[Job | Operation], runner: Runner) -> dict[str, Fetched]:
    """Return what these jobs left, by directory; nothing of those to be fetched alone.

    A worker that ends meanwhile has them fetched alone by the next one.
    """
    if len(rows) < 2:
        return {}
    jobs = Job.objects.filter(pk__in=[row.pk for row in rows])
    jobs.update(collecting_attempts=1, collecting_tried_at=timezone.now())
    try:
        records = runner.collect_all({row.directory: list_workload_files(row) for row in rows})
    except BaseTimeoutException:  # the worker's time is over: as if it had been killed
        raise
    except BaseException as error:
        with suppress(DatabaseError, InterfaceError):  # it may be what failed
            jobs.update(collecting_attempts=0)
        takes_long = isinstance(error, TryAgain) and error.kind == "time-out"
        if not isinstance(error, Exception) or (is_about_the_visit(error) and not takes_long):
            raise
        return {}  # which of them is at fault is seen when each is fetched alone
    jobs.update(collecting_attempts=0)
    return records
