"""Frames by which the web server and the program that writes files talk, each of one kind.

The program reads until it is asked for an answer, and writes nothing before. So both never write at
the same time, and neither waits for a pipe that nobody empties.
"""

from __future__ import annotations

import struct
from typing import Any, Protocol

TABLE = b"T"
"""JSON: the file's ending, the columns, the facts, and how many rows a part of it has."""
BATCH = b"B"
"""JSON: a column each, as `arrow_batches.make_batch` reads it; its arrays follow in ARRAY."""
ARRAY = b"A"
"""Numbers of 8 bytes, integers in a column of them and floats in all others."""
COPIED, END_OF_COPY = b"C", b"E"
"""CSV as PostgreSQL's COPY writes it, with one column before all others; and the batch's end."""
ASK = b"?"
"""Asks for all that was written of the file since the last answer."""
END_OF_TABLE = b"Z"
"""Asks for the rest of the file. A program that reads no such frame leaves the file unfinished."""
PIECE, ANSWERED = b"P", b"."
"""Pieces of the file in an answer, and the end of the answer."""
HEAD = struct.Struct("<cQ")


class Writable(Protocol):
    """A binary file that one can write to."""

    def write(self, content: Any, /) -> Any: ...


class Readable(Protocol):
    """A binary file that one can read from."""

    def read(self, size: int, /) -> bytes: ...


def write_frame(file: Writable, kind: bytes, content: Any = b"") -> None:
    """Write a frame of some bytes, an array's too."""
    content = memoryview(content).cast("B") if len(content) else b""
    file.write(HEAD.pack(kind, len(content)))
    file.write(content)


def read_frame(file: Readable) -> tuple[bytes, bytes]:
    """Return the kind of the next frame and its content. EOFError where the other side has gone."""
    kind, size = HEAD.unpack(_read(file, HEAD.size))
    return kind, _read(file, size)


def _read(file: Readable, size: int) -> bytes:
    content = file.read(size) if size else b""
    if len(content) < size:
        raise EOFError
    return content
