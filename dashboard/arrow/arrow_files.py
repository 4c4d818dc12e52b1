"""Batches of Arrow as files that are written while they are sent, and never look whole if cut."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from dashboard.arrow.safe_cells import make_safe_cell

if TYPE_CHECKING:
    import pyarrow as pa

Ending = Literal["csv", "parquet", "arrow"]
CONTENT_TYPES: dict[Ending, str] = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.stream",
}
HELD_BACK = 16
"""Bytes of an Arrow stream that wait for the next piece: a cut always falls inside a message."""
LONGEST_PIECE = 1 << 20
"""Bytes of a piece of an Arrow stream: who forwards it holds one at a time."""
ROWS_OF_A_PIECE = 2_500
"""Rows of a piece of CSV."""


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


def write_file(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], ending: Ending, *, rows_of_a_part: int = 1
) -> Iterator[bytes]:
    """Yield the file piece by piece.

    A part ("row group") of Parquet has so many rows at least; a batch is a message of Arrow.
    A file whose sending broke off is refused by its readers: Parquet lacks its end, Arrow breaks
    off inside a message, and CSV inside a cell between quotation marks.
    """
    if ending == "csv":
        return _write_csv(schema, batches)
    if ending == "arrow":
        return _write_stream(schema, batches)
    return _write_parquet(schema, batches, rows_of_a_part)


def _write_parquet(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], rows_of_a_part: int
) -> Iterator[bytes]:
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    file = Pieces()
    with ParquetWriter(file, schema, compression="snappy") as writer:
        kept: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            kept.append(batch)
            rows += len(batch)
            if rows >= rows_of_a_part:
                writer.write_table(pa.Table.from_batches(kept, schema), row_group_size=rows)
                kept, rows = [], 0
                yield from file.take()
        if kept:
            writer.write_table(pa.Table.from_batches(kept, schema), row_group_size=max(rows, 1))
    yield from file.take()


def _write_stream(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    import pyarrow as pa

    file, held = Pieces(), b""
    writer = pa.ipc.new_stream(file, schema)
    for batch in batches:
        writer.write_batch(batch)
        written = held + b"".join(file.take())
        for start in range(0, len(written) - HELD_BACK, LONGEST_PIECE):
            yield written[start : min(start + LONGEST_PIECE, len(written) - HELD_BACK)]
        held = written[-HELD_BACK:]
    writer.close()
    yield held + b"".join(file.take())


def _write_csv(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    """Yield CSV. Texts stand between quotation marks, the first column holds texts alone.

    After each piece the file breaks off behind the mark that begins its last row, so that a reader
    misses the end of a cell. What is held back comes with the next piece.
    """
    from pyarrow import csv

    heads = ",".join(
        '"' + str(make_safe_cell(name)).replace('"', '""') + '"' for name in schema.names
    )
    held = heads.encode() + b"\r\n"
    options = csv.WriteOptions(include_header=False)
    for batch in batches:
        safe = _make_safe(batch)
        for start in range(0, len(safe), ROWS_OF_A_PIECE):
            piece = safe.slice(start, ROWS_OF_A_PIECE)
            parts = piece.slice(0, len(piece) - 1), piece.slice(len(piece) - 1)
            rows, row = (_write_rows(part, options) for part in parts)
            yield held + rows + row[:1]
            held = row[1:]
    yield held


def _write_rows(batch: pa.RecordBatch, options: Any) -> bytes:
    from pyarrow import csv

    file = Pieces()
    csv.write_csv(batch, file, options)
    return b"".join(file.take())


def _make_safe(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with an apostrophe before each text that a spreadsheet would run."""
    import pyarrow as pa

    arrays = []
    for array in batch.columns:
        if pa.types.is_string(array.type):
            packed = array.dictionary_encode()
            texts = packed.dictionary.to_pylist()
            safe = [make_safe_cell(text) for text in texts]
            if safe != texts:
                array = pa.array(safe, pa.string()).take(packed.indices)
        arrays.append(array)
    return pa.record_batch(arrays, names=batch.schema.names)
