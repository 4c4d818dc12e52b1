"""A program that reads a table from its standard input and writes its file while it reads.

`python -m dashboard.arrow.write_table_file` is started by `writing_process.write_table`. It knows
neither the database nor a password: the web server sends it rows, and forwards what it answers.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dashboard.arrow.table_frames import (
    ANSWERED,
    ARRAY,
    ASK,
    BATCH,
    COPIED,
    END_OF_COPY,
    END_OF_TABLE,
    PIECE,
    TABLE,
    Readable,
    read_frame,
    write_frame,
)

if TYPE_CHECKING:
    import pyarrow as pa

MEMORY = 4 << 30
"""Bytes of address space that the process may have; a file of 100,000 runs needs a third of it."""


def main() -> None:
    """Write the file of the table that standard input holds."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ends without a word when the server has gone
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        write_answers(sys.stdin.buffer, sys.stdout.buffer)
    except EOFError:  # the web server has gone, or its reader
        raise SystemExit(1) from None


def write_answers(source: Readable, target: Any) -> None:
    """Answer each question with the pieces of the file so far, the last one with its end.

    EOFError where the table breaks off: then the file has no end either.
    """
    from dashboard.arrow.arrow_batches import make_schema
    from dashboard.arrow.arrow_files import write_file

    kind, content = read_frame(source)
    if kind != TABLE:
        raise ValueError(f"A table was expected, not a frame of the kind {kind!r}.")
    table = json.loads(content)
    schema = make_schema(table["columns"], table["facts"])
    waiting: list[bytes] = []

    def answer() -> None:
        for piece in waiting:
            write_frame(target, PIECE, piece)
        waiting.clear()
        write_frame(target, ANSWERED)
        target.flush()

    def read_batches() -> Iterator[pa.RecordBatch]:
        while (frame := read_frame(source))[0] != END_OF_TABLE:
            if frame[0] == ASK:
                answer()
            elif (batch := _read_batch(frame, source, schema)) is not None:
                yield batch

    rows = table["rows_of_a_part"]
    for piece in write_file(schema, read_batches(), table["ending"], rows_of_a_part=rows):
        waiting.append(piece)
    answer()


def _read_batch(
    frame: tuple[bytes, bytes], source: Readable, schema: pa.Schema
) -> pa.RecordBatch | None:
    """Return the batch that begins with a frame, None where it has no rows."""
    from dashboard.arrow.arrow_batches import make_batch, read_copied

    kind, content = frame
    if kind == BATCH:
        columns = json.loads(content)
        count = sum("array" in column for column in columns)
        return make_batch(columns, [_read(source, ARRAY) for _ in range(count)], schema)
    pieces = []
    while kind == COPIED:
        pieces.append(content)
        kind, content = read_frame(source)
    if kind != END_OF_COPY:
        raise ValueError(f"A batch was expected, not a frame of the kind {kind!r}.")
    copied = b"".join(pieces)
    return read_copied(copied, schema) if copied else None


def _read(source: Readable, expected: bytes) -> bytes:
    kind, content = read_frame(source)
    if kind != expected:
        raise ValueError(f"{expected!r} was expected, not a frame of the kind {kind!r}.")
    return content


if __name__ == "__main__":
    main()
