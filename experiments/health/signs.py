"""Signs of life of workers and clocks, which they write into PostgreSQL every few seconds.

RQ's own list of workers is in Valkey, and lost with it; a worker goes on all the same.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

from django.db import DatabaseError, InterfaceError, close_old_connections, connection
from django.db.models.functions import Now

from experiments.execution.holder import name_process
from experiments.models import ServiceSign

logger = logging.getLogger(__name__)

BEAT_SECONDS = 5.0
KEPT = timedelta(days=7)
MOST_KEPT = 20  # ended or lost, of one service on one host
DATABASE_FAILS = (DatabaseError, InterfaceError)


class Sign:
    """The row by which this process shows that it lives."""

    def __init__(self, service: str, queue: str = "") -> None:
        self.token = name_process()
        self.what = {"service": service, "queue": queue, "host": socket.gethostname()}
        self._next_beat = 0.0
        self._is_written = False

    def beat(self) -> None:
        """Say that this process lives, at most every few seconds."""
        if time.monotonic() < self._next_beat:
            return
        rows = ServiceSign.objects.filter(token=self.token)
        if not (self._is_written and rows.update(seen_at=Now())):
            self._write()
        self._next_beat = time.monotonic() + BEAT_SECONDS

    def end(self) -> None:
        """Say that this process ends in order; if the database is away, say nothing."""
        with suppress(*DATABASE_FAILS):
            ServiceSign.objects.filter(token=self.token).update(seen_at=Now(), ended_at=Now())

    def _write(self) -> None:
        """Write the row, and forget old ones: a service that ends again and again leaves few."""
        # It may be there already, if the answer to the first attempt was lost.
        columns = {**self.what, "pid": os.getpid(), "started_at": Now(), "seen_at": Now()}
        ServiceSign.objects.update_or_create(token=self.token, defaults=columns)
        self._is_written = True
        ServiceSign.objects.filter(seen_at__lt=Now() - KEPT).delete()
        same = ServiceSign.objects.filter(**self.what)
        same.exclude(pk__in=list(same.values_list("pk", flat=True)[:MOST_KEPT])).delete()


@contextmanager
def show_sign(service: str, queue: str = "") -> Iterator[Sign]:
    """Yield a sign that ends with the block; whoever works calls its `beat` in each round.

    After an error it does not end: the process was not told to stop.
    """
    sign = Sign(service, queue)
    try:
        yield sign
    except Exception:
        raise
    except BaseException:  # Ctrl-C, or the exit that was asked for
        sign.end()
        raise
    sign.end()


@contextmanager
def beat_beside(service: str, queue: str = "") -> Iterator[Sign]:
    """Show a sign from a thread beside the block: its rounds may take minutes."""
    ended = threading.Event()
    with show_sign(service, queue) as sign:
        thread = threading.Thread(
            target=_beat_until, args=(ended.wait, sign), name=f"sign of {service}", daemon=True
        )
        thread.start()
        try:
            yield sign
        finally:
            ended.set()
            thread.join(BEAT_SECONDS)  # a database that hangs must not keep the process


def _beat_until(wait: Callable[[float], bool], sign: Sign) -> None:
    """Beat until `wait` says that it is over; through any absence of the database."""
    is_away = False
    while True:
        try:
            sign.beat()
            is_away = False
        except DATABASE_FAILS as error:
            if not is_away:  # said once an absence
                logger.warning("No sign of life could be written: %s", error)
            is_away = True
            close_old_connections()
        if wait(BEAT_SECONDS):
            break
    connection.close()  # this thread's own
