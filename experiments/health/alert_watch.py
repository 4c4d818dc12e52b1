"""Looking for what administrators are to be told, beside what a worker or a clock does.

All of them look: where one service has died, another one says so.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import close_old_connections, connection

from experiments.health.alerts import watch_health
from experiments.health.signs import DATABASE_FAILS

logger = logging.getLogger(__name__)

WATCH_SECONDS = 60.0


@contextmanager
def watch_beside() -> Iterator[None]:
    """Look once a minute from a thread beside the block, which may be busy for minutes."""
    ended = threading.Event()
    thread = threading.Thread(
        target=watch_until, args=(ended.wait,), name="watch for alerts", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(WATCH_SECONDS / 10)  # a database that hangs must not keep the process


def watch_until(wait: Callable[[float], bool]) -> None:
    """Look until `wait` says that it is over; through any absence of the database."""
    while not wait(WATCH_SECONDS):
        try:
            for text in watch_health():
                logger.info("Administrators are told: %s", text)
        except DATABASE_FAILS as error:
            logger.warning("Nobody could look for alerts: %s", error)
            close_old_connections()
        except Exception:  # one mistake must not end all alerts of this process
            logger.exception("Looking for alerts failed")
    connection.close()  # this thread's own
