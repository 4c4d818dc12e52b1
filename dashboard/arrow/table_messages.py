"""Batches of tables as the program that writes files reads them."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from dashboard.arrow.table_frames import ARRAY, BATCH, Writable, write_frame
from experiments.comparisons.typed_tables import (
    Batch,
    Kind,
    Repeated,
    Spread,
    TypedColumn,
    change_values,
    read_number,
    read_time,
    write_text,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def send_batch(batch: Batch, columns: Sequence[TypedColumn], file: Writable) -> None:
    """Send a batch."""
    arrays: list[Any] = []
    described = [
        _describe(values, column.kind, arrays)
        for values, column in zip(batch, columns, strict=True)
    ]
    write_frame(file, BATCH, json.dumps(described, default=_read_numpy).encode())
    for numbers in arrays:
        write_frame(file, ARRAY, numbers)


def _describe(values: Sequence[Any], kind: Kind, arrays: list[Any]) -> dict[str, Any]:
    """Return a column as `arrow_batches.make_batch` reads it; numbers of 8 bytes join `arrays`."""
    if hasattr(values, "dtype") or isinstance(values, range):  # numbers already
        arrays.append(_make_array(values, kind))
        return {"array": len(arrays) - 1}
    changed = change_values(values, _CONVERSIONS[kind])
    if isinstance(changed, Repeated):
        return {"values": [changed.value], "counts": [changed.length]}
    if isinstance(changed, Spread):
        return {"values": list(changed.values), "counts": list(changed.counts)}
    return {"values": list(changed)}


def _make_array(values: Any, kind: Kind) -> Any:
    if isinstance(values, range):
        return array("q" if kind == "whole" else "d", values)
    import numpy as np

    return np.ascontiguousarray(values, np.int64 if kind == "whole" else np.float64)


def _read_numpy(value: Any) -> Any:
    """Return a number of numpy as one of Python; TypeError for what is none."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot stand in a file's column.")


def _keep(value: Any) -> Any:
    return value


def _write_text_or_none(value: Any) -> str | None:
    return None if value is None else write_text(value)


def _count_microseconds(value: Any) -> int | None:
    time = read_time(value)
    if time is None:
        return None
    zoned = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (zoned - EPOCH) // MICROSECOND


_CONVERSIONS: dict[Kind, Callable[[Any], Any]] = {
    "text": _write_text_or_none,
    "whole": _keep,
    "number": read_number,
    "time": _count_microseconds,
    "flag": _keep,
}
