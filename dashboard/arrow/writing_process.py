"""Files of tables, written by a process of their own while they are sent."""

from __future__ import annotations

import json
import logging
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from io import BufferedReader, BufferedWriter, RawIOBase
from typing import IO, Any

from django.conf import settings

from dashboard.arrow.arrow_files import Ending
from dashboard.arrow.table_frames import (
    ANSWERED,
    ASK,
    COPIED,
    END_OF_COPY,
    END_OF_TABLE,
    PIECE,
    TABLE,
    Writable,
    read_frame,
    write_frame,
)
from dashboard.arrow.table_messages import send_batch
from experiments.comparisons.typed_tables import CopiedTable, TypedTable

PROGRAM = "dashboard.arrow.write_table_file"
ROWS_OF_A_PART = 100_000
"""Rows that the program keeps until it writes them as one part of Parquet ("row group"), at least;
of a copied table each part is one, whose statement decides how many rows it has."""
ASKED_AFTER = 1 << 20
"""Bytes after which the program is asked for what it has written meanwhile."""
COPIED_AT_ONCE = 1 << 18
SECONDS_OF_SILENCE = 60
"""How long the program may neither read nor write while it is waited for; a part takes one."""
SECONDS_TO_END = 10
"""How long the program may take to end after its last answer."""
SHOWN_OF_ERRORS = 2000
log = logging.getLogger(__name__)


class NotWritten(Exception):
    """A file that breaks off, because the program that writes it has ended."""


def write_table(table: TypedTable | CopiedTable, ending: Ending) -> Iterator[bytes]:
    """Yield the file of a table piece by piece.

    The process starts with the first piece and ends with the last one, with an error, and when the
    caller closes this generator. NotWritten where it ends before, or hangs; the file so far has no
    end then, and no program reads it.
    """
    with _start_program() as program:
        try:
            yield from program.write(table, ending)
        except (EOFError, BrokenPipeError, TimeoutError) as error:
            said = program.read_errors()
            log.warning("Writing a file ended with %s: %s %s", program.wait(), error, said)
            raise NotWritten(
                "The program that writes the file ended before it was done."
            ) from error


@contextmanager
def _start_program() -> Iterator[_Program]:
    """Start the program, and end it after the block, however that is left."""
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", PROGRAM],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=settings.BASE_DIR,
                env=_make_environment(),
            )
        except OSError as error:
            log.warning("No process could be started to write a file: %s", error)
            raise NotWritten("The server could not start the program that writes it.") from error
        try:
            yield _Program(process, errors)
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # of what it has not read
                    pipe.close()  # type: ignore[union-attr]


class _Program:
    """A running program: it is sent a table, and asked for its file now and then."""

    def __init__(self, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        self._process, self._errors = process, errors
        self._input: Any = _CountingFile(BufferedWriter(_Pipe(process, process.stdin)))
        self._output: Any = BufferedReader(_Pipe(process, process.stdout))

    def write(self, table: TypedTable | CopiedTable, ending: Ending) -> Iterator[bytes]:
        send_head(table, ending, self._input)
        for _ in send_rows(table, self._input):
            if self._input.written >= ASKED_AFTER:
                yield from self._ask(ASK)
        yield from self._ask(END_OF_TABLE)  # after whose answer the file is whole

    def _ask(self, kind: bytes) -> Iterator[bytes]:
        """Yield what the program has written since the last answer."""
        write_frame(self._input, kind)
        self._input.flush()
        while (frame := read_frame(self._output))[0] == PIECE:
            yield frame[1]
        if frame[0] != ANSWERED:
            raise EOFError

    def wait(self) -> int:
        """Return how the process ended; it is killed where it does not."""
        try:
            return self._process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def read_errors(self) -> str:
        """Return the last that the program wrote to its standard error."""
        self.wait()
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(size - SHOWN_OF_ERRORS, 0))
        return self._errors.read().decode(errors="replace")


def send_head(table: TypedTable | CopiedTable, ending: Ending, file: Writable) -> None:
    """Send what the program has to know before the first row."""
    is_copied = isinstance(table, CopiedTable)
    facts: Mapping[str, str] = {} if isinstance(table, CopiedTable) else table.facts
    head = {
        "ending": ending,
        "columns": [asdict(column) for column in table.columns],
        "facts": dict(facts),
        "rows_of_a_part": 1 if is_copied else ROWS_OF_A_PART,
    }
    write_frame(file, TABLE, json.dumps(head).encode())


def send_rows(table: TypedTable | CopiedTable, file: Writable) -> Iterator[None]:
    """Send one batch after the other, each when the next is asked for."""
    if isinstance(table, TypedTable):
        for batch in table.batches:
            send_batch(batch, table.columns, file)
            yield
        return
    for copy in table.parts:
        with BufferedWriter(_CopiedFrames(file), COPIED_AT_ONCE) as copied:
            copy(copied)
        write_frame(file, END_OF_COPY)
        yield


class _Pipe(RawIOBase):
    """A pipe to or from the program, which is killed where it hangs: nobody waits for it for ever.

    How long the reader of the file takes is not counted: nothing is asked of the program meanwhile.
    """

    def __init__(self, process: subprocess.Popen[bytes], pipe: Any) -> None:
        self._process, self._pipe = process, pipe
        self._problem = ""
        os.set_blocking(pipe.fileno(), False)

    def readable(self) -> bool:
        return bool(self._pipe.readable())

    def writable(self) -> bool:
        return bool(self._pipe.writable())

    def readinto(self, buffer: Any) -> int:
        while (count := self._pipe.readinto(buffer)) is None:
            self._wait(select.POLLIN)
        return int(count)

    def write(self, content: Any) -> int:
        if self._problem:  # what was kept of it is written when a buffer is closed
            raise TimeoutError(self._problem)
        while (count := self._pipe.write(content)) is None:
            self._wait(select.POLLOUT)
        return int(count)

    def _wait(self, event: int) -> None:
        """Wait until the program reads or writes. TimeoutError, and its end, where it hangs."""
        poll = select.poll()
        poll.register(self._pipe.fileno(), event)
        if not poll.poll(SECONDS_OF_SILENCE * 1000):
            self._process.kill()
            self._problem = f"It did nothing for {SECONDS_OF_SILENCE} s."
            raise TimeoutError(self._problem)


class _CountingFile:
    """A file that counts what was written to it since it was flushed."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.written = 0

    def write(self, content: Any) -> None:
        self.written += len(content)
        self._file.write(content)

    def flush(self) -> None:
        self._file.flush()
        self.written = 0


class _CopiedFrames(RawIOBase):
    """A file of which each piece becomes a frame."""

    def __init__(self, file: Writable) -> None:
        self._frames = file

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        write_frame(self._frames, COPIED, piece)
        return len(piece)


def _make_environment() -> dict[str, str]:
    """Return what the process may know: no passwords, and one thread for its arithmetic."""
    kept = ("PATH", "LANG", "LD_LIBRARY_PATH", "PYTHONDONTWRITEBYTECODE", "TMPDIR")
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
