"""Storing series by COPY in PostgreSQL's binary format: a million steps take a second.

Formats: https://www.postgresql.org/docs/current/sql-copy.html and, of arrays, the functions
`array_recv` and `float8recv` of the server.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from typing import Any

from django.db import connection

from experiments.models import Series

SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # no flags, no further header
END = struct.pack("!h", -1)
NULL = struct.pack("!i", -1)
INT4, FLOAT8 = 23, 701  # the types' numbers in every server


def copy_series(rows: Sequence[Series]) -> None:
    """Store new rows. ValueError for a number of a step that its column does not hold."""
    if not rows:
        return
    names = list(COLUMNS)
    header = struct.pack("!h", len(names))
    content = io.BytesIO()
    content.write(SIGNATURE)
    for row in rows:
        content.write(header)
        for name, encode in COLUMNS.items():
            value = getattr(row, name)
            content.write(NULL if value is None else _with_length(encode(value)))
    content.write(END)
    content.seek(0)
    quoted = ", ".join(f'"{name}"' for name in names)
    # Django does so for `execute` alone; what ends a visit is known by Django's classes.
    with connection.cursor() as cursor, connection.wrap_database_errors:
        cursor.copy_expert(
            f"COPY {Series._meta.db_table} ({quoted}) FROM STDIN WITH (FORMAT binary)", content
        )


def _with_length(encoded: bytes) -> bytes:
    return struct.pack("!i", len(encoded)) + encoded


def _encode_array(values: Sequence[float], oid: int, code: str) -> bytes:
    """Return a list of numbers as an array of one dimension: each with its length before it."""
    if not values:
        return struct.pack("!iiI", 0, 0, oid)
    lengths = repeat(struct.calcsize(f"!{code}"))
    items = chain.from_iterable(zip(lengths, values, strict=False))
    return struct.pack(f"!iiIii{('i' + code) * len(values)}", 1, 0, oid, len(values), 1, *items)


def _encode_floats(values: Sequence[float]) -> bytes:
    # As in the text format, no zero has a sign.
    return _encode_array([value + 0.0 for value in values], FLOAT8, "d")


def _encode_steps(steps: Sequence[int]) -> bytes:
    if steps and not 0 <= min(steps) <= max(steps) < 2**31:
        raise ValueError(f"steps {min(steps)} to {max(steps)} cannot be stored")
    return _encode_array(steps, INT4, "i")


def _encode_whole(number: int) -> bytes:
    if not 0 <= number < 2**31:
        raise ValueError(f"{number} cannot be stored")
    return struct.pack("!i", number)


def _encode_key(number: int) -> bytes:
    return struct.pack("!q", number)


def _encode_float(number: float) -> bytes:
    return struct.pack("!d", number)


COLUMNS: dict[str, Callable[[Any], bytes]] = {
    "run_id": _encode_key,
    "metric": str.encode,
    "unit": str.encode,
    "values": _encode_floats,
    "steps": _encode_steps,
    "burn_in": _encode_whole,
    "shape": str.encode,
    "block_steps": _encode_whole,
    "warm_up": _encode_whole,
    "steady_from": _encode_whole,
    "trend": _encode_float,
    "trend_p": _encode_float,
    "settled_mean": _encode_float,
    "tail_means": _encode_floats,
    "first_value": _encode_float,
    "last_value": _encode_float,
    "digest": str.encode,
}
"""All columns but the key, which the database gives, with the binary form of each."""
