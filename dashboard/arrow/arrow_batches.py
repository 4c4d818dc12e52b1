"""Batches of Arrow made of what the web server sends of a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Column = dict[str, str]
"""A column's "name", "kind", "unit" and "about", as `TypedColumn` has them."""


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


def make_schema(columns: Sequence[Column], facts: dict[str, str]) -> pa.Schema:
    """Return the columns with their types; units stand at each, and once more in the file's facts.

    Only readers by Arrow know what stands at a column.
    """
    import pyarrow as pa

    described = {column["name"]: _describe(column) for column in columns if _describe(column)}
    written = {f"tare.{name}": text for name, text in facts.items()}
    if described:
        written["tare.columns"] = json.dumps(described, ensure_ascii=False)
    types = _list_types()
    fields = [
        pa.field(column["name"], types[column["kind"]], metadata=_describe(column) or None)
        for column in columns
    ]
    return pa.schema(fields, metadata=written)


def _describe(column: Column) -> dict[str, str]:
    return {name: column[name] for name in ("unit", "about") if column[name]}


def make_batch(
    described: Sequence[dict[str, Any]], arrays: Sequence[bytes], schema: pa.Schema
) -> pa.RecordBatch:
    """Return a batch.

    A column is {"values": [...]}, times in microseconds since 1970; with "counts" each value stands
    so often; or {"array": place}, whose numbers are in `arrays`.
    """
    import pyarrow as pa

    columns = [
        _make_column(column, arrays, field.type)
        for column, field in zip(described, schema, strict=True)
    ]
    return pa.record_batch(columns, schema=schema)


def _make_column(column: dict[str, Any], arrays: Sequence[bytes], type_: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if "array" in column:
        numbers = arrays[column["array"]]
        return pa.Array.from_buffers(type_, len(numbers) // 8, [None, pa.py_buffer(numbers)])
    values = pa.array(column["values"], type_)
    counts = column.get("counts")
    if counts is None:
        return values
    if len(counts) == 1:
        return pa.repeat(values[0], counts[0])
    import numpy as np

    return values.take(pa.array(np.repeat(np.arange(len(counts)), counts)))


def read_copied(text: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Return what COPY wrote without its first column, which is not of the file."""
    import pyarrow as pa
    from pyarrow import csv

    zoned = {field.name for field in schema if pa.types.is_timestamp(field.type)}
    types = {field.name: pa.string() if field.name in zoned else field.type for field in schema}
    table = csv.read_csv(
        pa.BufferReader(pa.py_buffer(text)),
        csv.ReadOptions(column_names=["row_key", *schema.names], use_threads=False),
        csv.ParseOptions(newlines_in_values=True),
        csv.ConvertOptions(
            column_types=types,
            include_columns=schema.names,
            null_values=[""],
            true_values=["t"],
            false_values=["f"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return table.cast(schema).combine_chunks().to_batches()[0]
