"""Readers of files line by line, and the limits on all files together.

What is read is counted as it comes, not as the archive declares it, so that a bomb is refused where
it passes a limit, with flat memory.
"""

from __future__ import annotations

import hashlib
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from experiments.imports.problems import ImportProblem

CHUNK = 1 << 16
MEGABYTE = 1_000_000
RATIO_FROM = 10 * MEGABYTE
"""The compression ratio is only limited above so many bytes."""
DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    OSError,
    EOFError,
    ValueError,
    OverflowError,
    RecursionError,
    NotImplementedError,
)
"""Errors that the readers of zip, tar and gzip raise for damaged files."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits beyond which an import is refused."""

    archive_bytes: int = 64 * MEGABYTE
    members: int = 20_000
    unpacked_bytes: int = 256 * MEGABYTE
    file_bytes: int = 32 * MEGABYTE
    file_lines: int = 200_000
    lines: int = 1_000_000
    line_bytes: int = MEGABYTE
    ratio: int = 200

    def in_words(self) -> str:
        return (
            f"At most {self.archive_bytes // MEGABYTE} MB as it is sent and "
            f"{self.unpacked_bytes // MEGABYTE} MB unpacked, {self.members:,} members, and "
            f"{self.file_bytes // MEGABYTE} MB or {self.file_lines:,} lines a file."
        )


LIMITS = Limits()


@dataclass(frozen=True)
class Line:
    """One line of a file, with its number."""

    number: int
    content: bytes
    ended: bool
    """True if a line break followed: a writer that was cut off leaves none."""


class File:
    """One plain file. Read `lines` before asking for the next file."""

    def __init__(
        self, path: str, read: Callable[[int], bytes], meter: Meter, *, weighed: bool = False
    ) -> None:
        """Take over a stream; `weighed` if the meter has counted its bytes already."""
        self.path = path
        self._read = read
        self._meter = meter
        self._weighed = weighed
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """Return the check sum of what has been read so far."""
        return self._hash.hexdigest()

    def lines(self) -> Iterator[Line]:
        """Yield each line without its line break. Raises ImportProblem at a limit."""
        limits = self._meter.limits
        rest, number, size = b"", 0, 0
        while chunk := self._chunk():
            size += len(chunk)
            self._hash.update(chunk)
            if size > limits.file_bytes:
                raise ImportProblem(
                    f"{self.path} holds more than {limits.file_bytes // MEGABYTE} MB; "
                    "a log of one run is far smaller."
                )
            *whole, rest = (rest + chunk).split(b"\n")
            if len(rest) > limits.line_bytes:
                raise ImportProblem(
                    f"{self.path}, line {number + len(whole) + 1}: longer than "
                    f"{limits.line_bytes // MEGABYTE} MB; this is not a log."
                )
            for content in whole:
                number += 1
                self._count(number)
                yield Line(number, content, ended=True)
        if rest:
            self._count(number + 1)
            yield Line(number + 1, rest, ended=False)

    def _chunk(self) -> bytes:
        try:
            chunk = self._read(CHUNK)
        except ImportProblem:
            raise
        except DAMAGED as error:
            raise ImportProblem(f"{self.path} is damaged or cut off: {error}.") from error
        if not self._weighed:
            self._meter.unpacked(len(chunk))
        return chunk

    def _count(self, number: int) -> None:
        limits = self._meter.limits
        if number > limits.file_lines:
            raise ImportProblem(
                f"{self.path} holds more than {limits.file_lines:,} lines; "
                "a log of one run has some for every ten steps."
            )
        self._meter.line()


class Meter:
    """Counter over all files; raises ImportProblem beyond a limit."""

    def __init__(self, limits: Limits, archive_bytes: int | None = None) -> None:
        self.limits = limits
        self._archive_bytes = archive_bytes
        self._bytes = self._lines = self._members = 0

    def member(self) -> None:
        self._members += 1
        if self._members > self.limits.members:
            raise ImportProblem(f"More than {self.limits.members:,} files and folders.")

    def line(self) -> None:
        self._lines += 1
        if self._lines > self.limits.lines:
            raise ImportProblem(f"More than {self.limits.lines:,} lines in all files together.")

    def unpacked(self, count: int) -> None:
        self._bytes += count
        if self._bytes > self.limits.unpacked_bytes:
            raise ImportProblem(
                f"More than {self.limits.unpacked_bytes // MEGABYTE} MB when unpacked."
            )
        packed = self._archive_bytes
        if packed and self._bytes > max(RATIO_FROM, packed * self.limits.ratio):
            raise ImportProblem(
                f"It unpacks to more than {self.limits.ratio} times its size: no log does that."
            )
