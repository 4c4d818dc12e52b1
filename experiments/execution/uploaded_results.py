"""Results that somebody brings by the page: unpacked by a web process, which others need too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from django.db import connection

from experiments.execution.by_hand_results import Brought, NotBrought, bring_results
from experiments.models import Experiment, User
from runners.transports.base import MIB

MOST_BYTES = 512 * MIB
"""Of files, unpacked. What jobs leave becomes eight times smaller: as much is in 64 MB."""
LOCK = "results by hand"


def bring_uploaded_results(
    experiment: Experiment, archive: BinaryIO, by: User, *, name: str, is_final: bool
) -> Brought:
    """Enter the results in an uploaded archive, as `bring_results`, in a web process's limits.

    One archive of the site is unpacked at a time. Raises NotBrought.
    """
    with _hold_lock():
        return bring_results(
            experiment, archive, by, name=name, is_final=is_final, most_bytes=MOST_BYTES
        )


@contextmanager
def _hold_lock() -> Iterator[None]:
    """Keep others from unpacking meanwhile. Raises NotBrought if somebody does already.

    PostgreSQL ends the lock with this process.
    """
    if not _call("pg_try_advisory_lock"):
        raise NotBrought(
            "Other results are being entered at this moment: try again in a minute or two."
        )
    try:
        yield
    finally:
        _call("pg_advisory_unlock")


def _call(function: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(hashtextextended(%s, 0))", [LOCK])
        return bool(cursor.fetchone()[0])
