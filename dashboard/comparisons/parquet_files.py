"""Tables as Parquet files, written a part of a table at a time."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from experiments.comparisons.arrow_tables import make_record_batch, make_schema
from experiments.comparisons.typed_tables import TypedTable

ROWS_OF_A_PART = 100_000
"""Rows that are kept until they are written as one part ("row group"), at least."""


class Pieces(io.RawIOBase):
    """A file that keeps what is written to it until it is taken, so that it can be sent."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        self._pieces.append(bytes(piece))
        self._size += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._size

    def take(self) -> list[bytes]:
        """Return what was written since the last time."""
        pieces, self._pieces = self._pieces, []
        return pieces


def write_parquet(table: TypedTable) -> Iterator[bytes]:
    """Yield the Parquet file of a table piece by piece.

    A file whose sending broke off has no end, and no program reads it.
    """
    import pyarrow as pa  # lazily: processes that write none do without 50 MB
    from pyarrow.parquet import ParquetWriter

    schema = make_schema(table)
    file = Pieces()
    with ParquetWriter(file, schema, compression="snappy") as writer:
        kept: list[Any] = []
        rows = 0
        for batch in table.batches:
            kept.append(make_record_batch(batch, table.columns, schema))
            rows += len(kept[-1])
            if rows >= ROWS_OF_A_PART:
                writer.write_table(pa.Table.from_batches(kept, schema))
                kept, rows = [], 0
                yield from file.take()
        if kept:
            writer.write_table(pa.Table.from_batches(kept, schema))
    yield from file.take()
