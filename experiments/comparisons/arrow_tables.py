"""Tables with typed columns as tables of Arrow, a batch at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from experiments.comparisons.typed_tables import (
    Batch,
    Kind,
    Repeated,
    TypedColumn,
    TypedTable,
    change_values,
    read_number,
    read_time,
    write_text,
)

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class ArrowTable:
    """A schema and its batches, which are made when they are asked for."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


@cache
def _list_types() -> dict[str, Any]:
    import pyarrow as pa

    return {
        "text": pa.string(),
        "whole": pa.int64(),
        "number": pa.float64(),
        "time": pa.timestamp("us", tz="UTC"),
        "flag": pa.bool_(),
    }


def make_schema(table: TypedTable) -> Any:
    """Return the columns with their types; units stand at each, and once more in the file's facts.

    Only readers by Arrow know what stands at a column.
    """
    import pyarrow as pa

    described = {column.name: _describe(column) for column in table.columns if _describe(column)}
    facts = {f"tare.{name}": text for name, text in table.facts.items()}
    if described:
        facts["tare.columns"] = json.dumps(described, ensure_ascii=False)
    types = _list_types()
    fields = [
        pa.field(column.name, types[column.kind], metadata=_describe(column) or None)
        for column in table.columns
    ]
    return pa.schema(fields, metadata=facts)


def _describe(column: TypedColumn) -> dict[str, str]:
    known = {"unit": column.unit, "about": column.about}
    return {name: text for name, text in known.items() if text}


def make_record_batch(batch: Batch, columns: Sequence[TypedColumn], schema: Any) -> Any:
    """Return a batch of a table as one of Arrow."""
    import pyarrow as pa

    arrays = [
        _make_array(values, column.kind) for values, column in zip(batch, columns, strict=True)
    ]
    return pa.record_batch(arrays, schema=schema)


def _make_array(values: Sequence[Any], kind: Kind) -> Any:
    import pyarrow as pa

    type_ = _list_types()[kind]
    if hasattr(values, "dtype") or isinstance(values, range):  # numbers already
        return pa.array(values, type_)
    values = change_values(values, _CONVERSIONS[kind])
    if isinstance(values, Repeated):
        return pa.repeat(pa.scalar(values.value, type_), values.length)
    return pa.array(values, type_)


def _keep(value: Any) -> Any:
    return value


def _write_text_or_none(value: Any) -> str | None:
    return None if value is None else write_text(value)


_CONVERSIONS: dict[Kind, Callable[[Any], Any]] = {
    "text": _write_text_or_none,
    "whole": _keep,
    "number": read_number,
    "time": read_time,
    "flag": _keep,
}
