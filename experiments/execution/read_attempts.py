"""Attempts to read what a job or operation has left, counted before they begin.

Some files end the worker itself, by its memory or its time. Only what was written down before can
tell the next visit that it was this row, over which the one before it died.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.db import DatabaseError, InterfaceError
from django.db.models import F
from django.utils import timezone
from rq.timeouts import BaseTimeoutException

from experiments.models import Job, Operation

MOST_ATTEMPTS = 3
"""As many workers may end over the files of one row before they are left alone."""

# Rows that one process reads alone at the same time: such a row may need hundreds of megabytes, and
# the slots of a worker share its memory.
MOST_AT_A_TIME = 2
TURN_SECONDS = 5.0  # which a visit waits for its turn
_turns = threading.BoundedSemaphore(MOST_AT_A_TIME)


@contextmanager
def take_turn() -> Iterator[bool]:
    """Yield whether this visit may read a row alone in the block: few do so at the same time.

    Those that may not leave it to the next visit.
    """
    has_turn = _turns.acquire(timeout=TURN_SECONDS)
    try:
        yield has_turn
    finally:
        if has_turn:
            _turns.release()


@contextmanager
def count_attempt(*rows: Job | Operation) -> Iterator[None]:
    """Count an attempt at the files of rows of one kind, unless the block ends in any way we see.

    A site that does not answer, a mistake of ours or an orderly end of the worker count nothing. A
    worker that is killed does, and one whose time is over: a visit begins no row late, so that row
    has taken most of it.
    """
    attempted = type(rows[0])._default_manager.filter(pk__in=[row.pk for row in rows])
    one_more = F("collecting_attempts") + 1
    attempted.update(collecting_attempts=one_more, collecting_tried_at=timezone.now())
    try:
        yield
    except BaseTimeoutException:
        raise
    except BaseException:
        with suppress(DatabaseError, InterfaceError):  # it may be what failed
            attempted.update(collecting_attempts=F("collecting_attempts") - 1)
        raise
    attempted.update(collecting_attempts=0)


def has_ended_workers(row: Job | Operation) -> bool:
    """Return whether too many attempts at a row's files never came to an end."""
    return row.collecting_attempts >= MOST_ATTEMPTS


def sort_untried_first(rows: list[Job | Operation]) -> list[Job | Operation]:
    """Return rows in the order in which to read their files: what was tried last comes last."""

    def last_tried(row: Job | Operation) -> float:
        return row.collecting_tried_at.timestamp() if row.collecting_tried_at else 0.0

    return sorted(rows, key=last_tried)
