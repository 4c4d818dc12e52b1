"""Named points between PLANNED and DONE at which a worker kills itself.

Nothing in Tare knows of them: they wrap its functions, in the process that is to die alone. Each
has a moment `before` or `after` the function that it names, for calls that match.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from experiments.models import Job, Run
from tests.conftest import pause_longer

Match = Callable[..., bool]
ALWAYS: Match = lambda *args, **kwargs: True  # noqa: E731
TRANSPORTS = ("runners.transports.local:Local.run", "runners.transports.ssh:SSH.run")


@dataclass(frozen=True)
class Point:
    """Where a process kills itself: before or after a call of one of `functions` that matches."""

    functions: tuple[str, ...]  # "package.module:name", or ":Class.name"
    moment: str  # before, after, or: during
    matches: Match = ALWAYS
    is_late: bool = False  # reached only after jobs have ended


def _moves(model: type, before: str, to: str) -> Match:
    """Match the function that moves rows of a kind from one state to another."""
    return lambda *args: args[0] is model and args[2:] == (before, to)


def _stores(model: type, *states: str) -> Match:
    """Match the statement that stores new states, inside the transaction that writes events."""
    return lambda rows, names, **options: bool(
        rows and isinstance(rows[0], model) and "state" in names and rows[0].state in states
    )


def _runs(text: str) -> Match:
    """Match a remote command by a part of its script."""
    return lambda transport, argv, **options: any(text in part for part in argv)


SENDS, SUBMITS, READS_JOURNALS = "incoming=$1", "number=0 began=", "room="
MOVE, STORE = "experiments.execution.moves:_move_locked", "experiments.execution.moves:update_each"
KEEPING = "experiments.execution.keeping"
TOGETHER = "experiments.execution.collect_together"

POINTS = {
    "before a portion is moved to submitting": Point(
        (MOVE,), "before", _moves(Job, "planned", "submitting")
    ),
    "in the transaction that moves it to submitting": Point(
        (STORE,), "after", _stores(Job, "submitting")
    ),
    "after it was moved to submitting": Point(
        (MOVE,), "after", _moves(Job, "planned", "submitting")
    ),
    "before its files are sent": Point(TRANSPORTS, "before", _runs(SENDS)),
    "after its files were sent": Point(TRANSPORTS, "after", _runs(SENDS)),
    "before sbatch": Point(TRANSPORTS, "before", _runs(SUBMITS)),
    "while the loop of sbatch runs": Point(TRANSPORTS, "during", _runs(SUBMITS)),
    "after sbatch, before its answer is read": Point(TRANSPORTS, "after", _runs(SUBMITS)),
    "before the jobs' ids are stored": Point(
        (MOVE,), "before", _moves(Job, "submitting", "queued")
    ),
    "in the transaction that stores the jobs' ids": Point(
        (STORE,), "after", _stores(Job, "queued")
    ),
    "after the jobs' ids were stored": Point((MOVE,), "after", _moves(Job, "submitting", "queued")),
    "after the queue was asked": Point(("runners.runner:Runner.poll",), "after"),
    "in the transaction that stores that jobs run": Point(
        (STORE,), "after", _stores(Job, "running")
    ),
    "after it was stored that jobs run": Point((MOVE,), "after", _moves(Job, "queued", "running")),
    "after journals were read, before they are stored": Point(
        TRANSPORTS, "after", _runs(READS_JOURNALS)
    ),
    "after it was stored that a run has begun": Point(
        ("experiments.execution.following:follow_jobs",), "after"
    ),
    "in the transaction that stores that jobs have left the queue": Point(
        (STORE,), "after", _stores(Job, "collecting"), is_late=True
    ),
    "after it was stored that jobs have left the queue": Point(
        ("experiments.execution.tick:_handle_absences",), "after", is_late=True
    ),
    "after the files were fetched": Point(
        ("runners.runner:Runner.collect_all", "runners.runner:Runner.collect"),
        "after",
        is_late=True,
    ),
    "before results are stored": Point((f"{KEEPING}:_keep_each",), "before", is_late=True),
    "in the transaction that stores results": Point(
        (STORE,), "after", _stores(Run, "succeeded"), is_late=True
    ),
    "after results were written, before they are committed": Point(
        (f"{KEEPING}:_end_jobs",), "after", is_late=True
    ),
    "after results were committed": Point(
        (f"{TOGETHER}:keep_endings", "experiments.execution.collect:keep_endings"),
        "after",
        is_late=True,
    ),
}
"""In the order in which a visit comes to them."""


def kill_at(name: str, work: Path) -> None:
    """Have this process kill itself when it comes to the point of this name.

    `work` is the cluster's work directory as this process sees it.
    """
    point = POINTS[name]
    for function in point.functions:
        _wrap(function, point, work)


def find_function(path: str) -> tuple[Any, str, Callable[..., Any]]:
    """Return the module or class that holds a function, the function's name, and itself."""
    module_name, _, attribute = path.partition(":")
    holder: Any = import_module(module_name)
    *classes, name = attribute.split(".")
    for part in classes:
        holder = getattr(holder, part)
    return holder, name, getattr(holder, name)


def _wrap(path: str, point: Point, work: Path) -> None:
    holder, name, function = find_function(path)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        matches = point.matches(*args, **kwargs)
        if matches and point.moment == "before":
            die()
        if matches and point.moment == "during":
            threading.Thread(target=_die_when_a_job_is_known, args=(work,), daemon=True).start()
        result = function(*args, **kwargs)
        if matches:  # of "during" too, should the command have been faster
            die()
        return result

    setattr(holder, name, wrapped)


def die() -> None:
    """End this process without a word, as the kernel does when memory is short."""
    os.kill(os.getpid(), signal.SIGKILL)


def _die_when_a_job_is_known(work: Path) -> None:
    """Wait until the first job of the loop has left a sign of itself on the disk, then die."""
    pauses = pause_longer()
    while not any(any(work.glob(f"jobs/*/{sign}")) for sign in ("scheduler.id", "started")):
        next(pauses)
    die()
