"""Processes of a site that begin at once: copies of one that has Django loaded already.

Each is a real process with connections of its own, and can be killed like any other. This module is
loaded in that first process, so it may be imported only where the settings are complete.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

import django

django.setup()

from django.conf import settings  # noqa: E402 - after the set-up
from django.core.management import call_command  # noqa: E402
from django.db import OperationalError, connection  # noqa: E402
from django.utils import timezone  # noqa: E402

from experiments import execution  # noqa: E402
from experiments.execution import attempts_by_rule, tasks  # noqa: E402, F401 - loaded once for all
from experiments.management.commands import clock, worker  # noqa: E402, F401 - the same
from tests.conftest import pause_longer  # noqa: E402
from tests.faults.points import kill_at  # noqa: E402

MODULE = "tests.faults.children"


def point_to(database: dict[str, object], valkey: str) -> None:
    """Have this process use a site's PostgreSQL and Valkey."""
    connection.settings_dict.update(database)
    settings.REDIS_URL = valkey
    for queue in settings.RQ_QUEUES.values():
        queue["URL"] = valkey


def start(
    folder: Path, database: dict[str, object], valkey: str, work: Callable[..., None], *args: object
) -> BaseProcess:
    """Start a process that does `work(*args)` on a site; its output goes to `folder`."""
    context = get_context("forkserver")
    context.set_forkserver_preload([MODULE])
    process = context.Process(
        target=_run, args=(folder, database, valkey, work, args), name=work.__name__
    )
    process.start()
    return process


def _run(
    folder: Path,
    database: dict[str, object],
    valkey: str,
    work: Callable[..., None],
    args: tuple[object, ...],
) -> None:
    log = os.open(folder / f"{work.__name__}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ["HOME"] = str(folder)  # jobs read the login profile
    point_to(database, valkey)
    try:
        work(*args)
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        raise


def visit(cluster_pk: int, point: str = "", work: Path = Path()) -> None:
    """Visit a cluster again and again; with `point`, be killed as soon as it is reached."""
    if point:
        kill_at(point, work)
    pauses = pause_longer()
    while True:
        try:
            execution.tick(cluster_pk)
        except OperationalError:
            traceback.print_exc()
            connection.close()
        next(pauses)


def run_worker() -> None:
    """Do what `manage.py worker` does; but what a node's end has cost is tried again at once."""
    attempts_by_rule.LATE_RESULTS = timedelta(0)
    call_command("worker", slots=4)


def run_clock() -> None:
    """Do what `manage.py clock` does."""
    call_command("clock")


def visit_by_another_clock(cluster_pk: int, hours: float) -> None:
    """Visit a cluster again and again, by a clock that is so many hours ahead."""
    now = timezone.now
    timezone.now = lambda: now() + timedelta(hours=hours)
    visit(cluster_pk)
