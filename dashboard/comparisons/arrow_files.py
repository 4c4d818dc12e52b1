"""Batches of Arrow as files that are written while they are sent, and never look whole if cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from dashboard.comparisons.parquet_files import Pieces
from dashboard.comparisons.safe_files import make_safe_cell
from experiments.comparisons.arrow_tables import ArrowTable

if TYPE_CHECKING:
    import pyarrow as pa

Ending = Literal["csv", "parquet", "arrow"]
KINDS = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.stream",
}
HELD_BACK = 16
"""Bytes of an Arrow stream that wait for the next piece: a cut always falls inside a message."""


def write_file(table: ArrowTable, ending: Ending) -> Iterator[bytes]:
    """Yield the file piece by piece: a batch is a row group of Parquet, a message of Arrow.

    A file whose sending broke off is refused by its readers: Parquet lacks its end, Arrow breaks
    off inside a message, and CSV inside a cell between quotation marks.
    """
    if ending == "csv":
        return _write_csv(table)
    return _write_parquet(table) if ending == "parquet" else _write_stream(table)


def _write_parquet(table: ArrowTable) -> Iterator[bytes]:
    from pyarrow.parquet import ParquetWriter

    file = Pieces()
    with ParquetWriter(file, table.schema, compression="snappy") as writer:
        for batch in table.batches:
            writer.write_batch(batch, row_group_size=len(batch))
            yield from file.take()
    yield from file.take()


def _write_stream(table: ArrowTable) -> Iterator[bytes]:
    import pyarrow as pa

    file, held = Pieces(), b""
    writer = pa.ipc.new_stream(file, table.schema)
    for batch in table.batches:
        writer.write_batch(batch)
        written = held + b"".join(file.take())
        yield written[:-HELD_BACK]
        held = written[-HELD_BACK:]
    writer.close()
    yield held + b"".join(file.take())


def _write_csv(table: ArrowTable) -> Iterator[bytes]:
    """Yield CSV. Texts stand between quotation marks, the first column holds texts alone.

    After each piece the file breaks off behind the mark that begins its last row, so that a reader
    misses the end of a cell. What is held back comes with the next piece.
    """
    from pyarrow import csv

    heads = ",".join(
        '"' + str(make_safe_cell(name)).replace('"', '""') + '"' for name in table.schema.names
    )
    held = heads.encode() + b"\r\n"
    options = csv.WriteOptions(include_header=False)
    for batch in table.batches:
        safe = _make_safe(batch)
        last = len(safe) - 1
        rows, row = (_write_rows(part, options) for part in (safe.slice(0, last), safe.slice(last)))
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
