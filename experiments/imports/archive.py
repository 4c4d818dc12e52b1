"""A folder, zip or tar of logs, file by file and line by line.

Nothing is unpacked to disk and no name is trusted: no path leaves the archive, and links, devices
and whatever else is no plain file are refused.
"""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from experiments.imports.problems import ImportProblem
from experiments.imports.reading import DAMAGED, LIMITS, MEGABYTE, File, Limits, Meter
from runners.payload.strict_tar import StrictTarInfo

LONGEST_PATH = 500
DEEPEST_PATH = 20
LARGEST_READ = 8 * MEGABYTE
"""Bytes: a zip's list of members is read at once; no list within the limits is larger."""


def list_files(source: Path | BinaryIO, *, limits: Limits = LIMITS) -> Iterator[File]:
    """Yield the plain files of a folder, a zip, a tar or a tar.gz, whatever its name.

    Files of a folder come by their names, those of an archive in its order. Raises ImportProblem
    for what cannot be trusted, is damaged or exceeds a limit.
    """
    if isinstance(source, Path) and source.is_dir():
        yield from _files_of_folder(source, limits)
    elif isinstance(source, Path):
        with source.open("rb") as stream:
            yield from _files_of_archive(stream, limits)
    else:
        yield from _files_of_archive(source, limits)


def _files_of_folder(root: Path, limits: Limits) -> Iterator[File]:
    meter = Meter(limits)
    for folder, names, entries in os.walk(root):
        names.sort()
        for name in sorted([*names, *entries]):
            path = Path(folder, name)
            shown = path.relative_to(root).as_posix()
            meter.member()
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                continue
            _check_kind(shown, plain=stat.S_ISREG(mode), link=stat.S_ISLNK(mode))
            _check_path(shown)
            with path.open("rb") as stream:
                yield File(shown, stream.read, meter)


def _files_of_archive(stream: BinaryIO, limits: Limits) -> Iterator[File]:
    size = stream.seek(0, os.SEEK_END)
    if size > limits.archive_bytes:
        raise ImportProblem(
            f"The archive is larger than {limits.archive_bytes // MEGABYTE} MB. Import it in parts."
        )
    stream.seek(0)
    begin = stream.read(512)
    stream.seek(0)
    meter = Meter(limits, size)
    try:
        if begin.startswith(b"PK"):
            yield from _files_of_zip(stream, meter)
        elif begin.startswith(b"\x1f\x8b"):
            with gzip.GzipFile(fileobj=stream, mode="rb") as plain:
                yield from _files_of_tar(plain, meter)
        elif begin[257:262] == b"ustar":
            yield from _files_of_tar(stream, meter)
        else:
            raise ImportProblem("This is neither a zip, a tar nor a tar.gz.")
    except ImportProblem:
        raise
    except DAMAGED as error:
        raise ImportProblem(f"The archive is damaged or cut off: {error}.") from error


class BoundedStream:
    """A stream for the zip reader that refuses to take much at once."""

    def __init__(self, stream: BinaryIO, most: int = LARGEST_READ) -> None:
        self._stream, self._most = stream, most
        self.seek, self.tell = stream.seek, stream.tell

    def seekable(self) -> bool:
        return True

    def read(self, count: int = -1) -> bytes:
        if count > self._most:
            raise ImportProblem("The zip's list of members is too long.")
        return self._stream.read(self._most if count < 0 else count)


def _files_of_zip(stream: BinaryIO, meter: Meter) -> Iterator[File]:
    with zipfile.ZipFile(BoundedStream(stream)) as archive:
        members = archive.infolist()
        for member in members:
            meter.member()
            _check_path(member.filename)
        _check_repeated([member.filename for member in members])
        for member in members:
            mode = member.external_attr >> 16
            _check_kind(
                member.filename,
                plain=stat.S_IFMT(mode) in (0, stat.S_IFREG, stat.S_IFDIR),
                link=stat.S_ISLNK(mode),
            )
            if member.is_dir():
                continue
            if member.flag_bits & 1:
                raise ImportProblem(f"{member.filename} is encrypted.")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ImportProblem(f"{member.filename}: of zips only plain deflate is read.")
            with archive.open(member) as plain:
                yield File(member.filename, plain.read, meter)


def _refuse_header(why: str) -> ImportProblem:
    is_sentence = why.startswith(("a ", "the "))  # else it begins with a file's name
    return ImportProblem(f"{why[:1].upper() if is_sentence else why[:1]}{why[1:]}.")


class _TarInfo(StrictTarInfo):
    refusal = staticmethod(_refuse_header)
    other_kind = "neither a plain file nor a folder"


class _Metered:
    """A stream that counts a tar's bytes as they come out of the decompressor."""

    def __init__(self, stream: BinaryIO | gzip.GzipFile, meter: Meter) -> None:
        self._stream = stream
        self._meter = meter
        self._end = b""

    def read(self, count: int) -> bytes:
        content = self._stream.read(count)
        self._meter.unpacked(len(content))
        self._end = (self._end + content)[-2 * tarfile.BLOCKSIZE :]
        return content

    @property
    def has_end(self) -> bool:
        """Return whether the two empty blocks that end a tar have been read."""
        return self._end == bytes(2 * tarfile.BLOCKSIZE)


def _files_of_tar(stream: BinaryIO | gzip.GzipFile, meter: Meter) -> Iterator[File]:
    metered = _Metered(stream, meter)
    seen: set[str] = set()
    with tarfile.open(fileobj=metered, mode="r|", tarinfo=_TarInfo) as archive:  # type: ignore[call-overload]
        for member in archive:
            meter.member()
            name = member.name.removeprefix("./") if member.name != "." else ""
            _check_kind(
                name, plain=member.isreg() or member.isdir(), link=member.islnk() or member.issym()
            )
            if member.isdir():
                if name:
                    _check_path(name)
                continue
            _check_path(name)
            if name in seen:
                raise ImportProblem(f"{name} is there twice.")
            seen.add(name)
            plain = archive.extractfile(member)
            if plain is not None:
                yield File(name, plain.read, meter, weighed=True)
    if not metered.has_end:
        raise ImportProblem("The tar is cut off: its end is missing.")


def _check_kind(path: str, *, plain: bool, link: bool) -> None:
    if link:
        raise ImportProblem(f"{path!r} is a link. Only plain files and folders are read.")
    if not plain:
        raise ImportProblem(f"{path!r} is neither a plain file nor a folder.")


def _check_path(path: str) -> None:
    """Raise ImportProblem for a path that leads out of the archive or cannot be shown."""
    parts = path.rstrip("/").split("/")
    if path.startswith("/") or "\\" in path or ".." in parts or path[1:2] == ":":
        raise ImportProblem(f"{path!r} leads out of the archive, or is no path that Tare reads.")
    if len(path) > LONGEST_PATH or len(parts) > DEEPEST_PATH:
        raise ImportProblem(f"{path[:80]!r}...: a path this long or deep is not read.")
    if not path.isprintable() or "" in parts or "." in parts:
        raise ImportProblem(f"{path!r} is not a name that can be shown.")


def _check_repeated(names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ImportProblem(f"{name} is there twice.")
        seen.add(name)
