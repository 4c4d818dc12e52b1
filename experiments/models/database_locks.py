"""Locks that PostgreSQL holds for a process, and ends with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection


@contextmanager
def try_lock(name: str) -> Iterator[bool]:
    """Hold the lock of this name, unless somebody does already; yield whether it is held here.

    Locks of one name exclude each other in all processes of the site.
    """
    if not _call("pg_try_advisory_lock", name):
        yield False
        return
    try:
        yield True
    finally:
        _call("pg_advisory_unlock", name)


def wait_for_lock(name: str) -> None:
    """Hold the lock of this name until the transaction ends; wait for it first.

    It is the lock that `try_lock` holds. To be called in a transaction.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])


def _call(function: str, name: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(hashtextextended(%s, 0))", [name])
        return bool(cursor.fetchone()[0])
