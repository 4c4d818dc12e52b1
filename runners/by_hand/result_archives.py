"""Unpacks an archive of results, however odd, into a folder of its own: regular files, in bounds.

What is wrong with one job's files is said of that job; the others are unpacked all the same.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import lzma
import re
import shutil
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from runners.errors import Refused
from runners.transports.base import MIB
from runners.untrusted import clean_text

MOST_MEMBERS = 1_000_000
MOST_BYTES = 4096 * MIB  # of all files, unpacked
MOST_FILES_EACH = 20_000  # of one job
MOST_BYTES_EACH = 1024 * MIB  # of one job
MOST_EXTENDED_HEADER = 1 << 16  # bytes: the tar reader takes such a header into memory whole
MOST_NOTES = 100  # on members of no job
LZMA_MEMORY = 256 * MIB
CHUNK = MIB
EXTENDED_HEADERS = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)
MEMBER = re.compile(r"(?:.*/)?jobs/([^/]+)/(.+)", re.DOTALL)
NAME_ERRORS = (
    *(errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL),
    *(errno.ENOTDIR, errno.EISDIR),
)
DAMAGED = (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError, ValueError)


class TooMuch(Refused):
    """An archive that may be good, and is too large to be unpacked by whoever was asked."""


@dataclass
class JobFiles:
    """One job's folder, and what is wrong with it; "" if nothing is."""

    folder: Path
    problem: str = ""
    count: int = 0
    size: int = 0


@dataclass
class Unpacked:
    """What an archive held: the jobs by the names of their folders, in its order."""

    sha256: str = ""
    jobs: dict[str, JobFiles] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # on what belongs to no job
    damage: str = ""  # where it could be read no further, and why
    written: int = 0  # bytes of files
    most_bytes: int | None = None  # of them

    def take_room(self, size: int) -> None:
        """Count what is about to be written. Raises TooMuch if it is more than may be."""
        self.written += size
        if self.most_bytes is not None and self.written > self.most_bytes:
            raise TooMuch(f"Unpacked it has more than {self.most_bytes // MIB:,} MiB.")


def unpack_results(
    source: BinaryIO,
    folder: Path,
    why_not: Callable[[str], str] = lambda name: "",
    *,
    most_bytes: int | None = None,
) -> Unpacked:
    """Unpack a tar, tar.gz or tar.xz below `folder`, which is empty. Raises Refused for a bomb.

    `why_not` says for the name of a job's folder why nothing of it is to be unpacked; "" if it is.
    Raises TooMuch rather than write more than `most_bytes`.
    An archive that is cut off or damaged is unpacked up to there, and `damage` says so.
    """
    unpacked = Unpacked(most_bytes=most_bytes)
    hashed = _Hashed(source)
    try:
        plain = _open(hashed)
        with tarfile.open(fileobj=plain, mode="r|", tarinfo=_Header) as tar:  # type: ignore[call-overload]
            for count, member in enumerate(tar, start=1):
                if count > MOST_MEMBERS:
                    raise Refused(f"The archive holds more than {MOST_MEMBERS:,} files.")
                _unpack_member(tar, member, folder, unpacked, why_not)
        if not plain.has_end:
            unpacked.damage = "The archive is cut off: its end is missing."
        while plain.read(CHUNK):  # the check sum of a gzip comes last
            pass
    except DAMAGED as error:
        if isinstance(error, OSError) and error.errno:  # of our own disk
            raise Refused(f"The archive cannot be unpacked here: {error.strerror}.") from None
        unpacked.damage = f"The archive is damaged or cut off: {clean_text(str(error))[:200]}."
    unpacked.sha256 = hashed.finish()
    return unpacked


def _unpack_member(
    tar: tarfile.TarFile,
    member: tarfile.TarInfo,
    folder: Path,
    unpacked: Unpacked,
    why_not: Callable[[str], str],
) -> None:
    name = member.name
    match = MEMBER.fullmatch(name)
    if match is None:
        if not member.isdir() and len(unpacked.notes) < MOST_NOTES:
            unpacked.notes.append(f"{_show(name)} belongs to no job and was left out.")
        return
    job_name, path = match.groups()
    if job_name in (".", ".."):
        unpacked.notes.append(f"{_show(name)} leads out of the archive and was left out.")
        return
    job = unpacked.jobs.get(job_name)
    if job is None:
        job = JobFiles(folder / "jobs" / job_name, why_not(job_name))
        unpacked.jobs[job_name] = job
    if member.isdir() or path.startswith("payload/"):
        return
    job.count += 1
    job.size += member.size
    if job.problem:
        return
    job.problem = _find_problem(job, member, path)
    if not job.problem:
        unpacked.take_room(member.size)
        try:
            _write(tar, member, job.folder / path)
        except FileExistsError:
            job.problem = f"{_show(path)} is there twice"
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno not in NAME_ERRORS:
                raise
            job.problem = f"{_show(path)} is no name of a file here"


def _find_problem(job: JobFiles, member: tarfile.TarInfo, path: str) -> str:
    """Return why a job's file is not unpacked; "" if it is."""
    if member.name.startswith("/") or ".." in member.name.split("/"):
        return f"{_show(member.name)} leads out of the archive"
    if member.islnk() or member.issym():
        return f"{_show(path)} is a link"
    if not member.isreg() or member.issparse():
        return f"{_show(path)} is no regular file"
    if job.count > MOST_FILES_EACH:
        return f"it has more than {MOST_FILES_EACH:,} files"
    if job.size > MOST_BYTES_EACH:
        return f"it has more than {MOST_BYTES_EACH // MIB:,} MiB"
    return ""


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:  # a file has the name of a folder
        raise NotADirectoryError(errno.ENOTDIR, "not a folder") from None
    content = tar.extractfile(member)
    assert content is not None  # of a regular file
    with target.open("xb") as file:
        shutil.copyfileobj(content, file, CHUNK)


def _show(name: str) -> str:
    return clean_text(name)[:200]


class _Header(tarfile.TarInfo):
    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        """Read a header. Raises Refused for one that the tar reader could not handle safely."""
        header = super().frombuf(buf, encoding, errors)
        if header.type in EXTENDED_HEADERS and header.size > MOST_EXTENDED_HEADER:
            raise Refused("A header of the archive is larger than any name.")
        return header


class _Hashed:
    """The archive as it comes, hashed."""

    def __init__(self, source: BinaryIO) -> None:
        self._source, self._hash = source, hashlib.sha256()
        self._begin = b""

    def read(self, count: int = -1) -> bytes:
        if self._begin:
            begin, self._begin = self._begin[:count], self._begin[count:]
            return begin
        content = self._source.read(CHUNK if count < 0 else count)
        self._hash.update(content)
        return content

    def peek(self, count: int) -> bytes:
        """Return its first bytes, which are read again."""
        self._begin = self.read(count)
        return self._begin

    def finish(self) -> str:
        """Return the sha256 of all of it, in hex."""
        while self.read(CHUNK):
            pass
        return self._hash.hexdigest()


class _Plain:
    """The tar inside, as it comes out of the decompressor. Raises Refused for a bomb."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._size = 0
        self._end = b""

    def read(self, count: int) -> bytes:
        content = self._stream.read(count)
        self._size += len(content)
        self._end = (self._end + content[-2 * tarfile.BLOCKSIZE :])[-2 * tarfile.BLOCKSIZE :]
        if self._size > MOST_BYTES:
            raise Refused(f"The archive holds more than {MOST_BYTES // MIB:,} MiB.")
        return content

    @property
    def has_end(self) -> bool:
        """Return whether the two empty blocks that end a tar have been read."""
        return self._end == bytes(2 * tarfile.BLOCKSIZE)


def _open(packed: _Hashed) -> _Plain:
    begin = packed.peek(6)
    source = cast(BinaryIO, packed)
    if begin.startswith(b"\x1f\x8b"):
        return _Plain(cast(BinaryIO, gzip.GzipFile(fileobj=source, mode="rb")))
    if begin == b"\xfd7zXZ\x00":
        return _Plain(cast(BinaryIO, _Xz(packed)))
    return _Plain(source)


class _Xz:
    """The plain bytes of an xz stream, in bounded memory."""

    def __init__(self, packed: _Hashed) -> None:
        self._packed = packed
        self._decompressor = lzma.LZMADecompressor(memlimit=LZMA_MEMORY)

    def read(self, count: int) -> bytes:
        chunks, wanted = [], count
        while wanted > 0 and not self._decompressor.eof:
            more = self._packed.read(CHUNK) if self._decompressor.needs_input else b""
            if self._decompressor.needs_input and not more:
                raise EOFError("the compressed file ended before its end was reached")
            chunks.append(self._decompressor.decompress(more, wanted))
            wanted -= len(chunks[-1])
        return b"".join(chunks)
