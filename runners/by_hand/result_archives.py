"""Unpacks an archive of results, however odd, into a folder of its own: regular files, in bounds.

What is wrong with one job's files is said of that job; the others are unpacked all the same.
"""

from __future__ import annotations

import errno
import lzma
import re
import shutil
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from runners.by_hand.archive_streams import CHUNK, HashedStream, PlainTar, decompress
from runners.errors import Refused
from runners.transports.base import MIB
from runners.untrusted import clean_text

MOST_MEMBERS = 1_000_000
MOST_JOBS = 100_000  # folders with names of jobs
MOST_FILES_EACH = 20_000  # of one job
MOST_BYTES_EACH = 1024 * MIB  # of one job
MOST_FOLDERS = 64  # within each other, of one job
MOST_SHARED = 1 << 20  # characters of headers that hold for all files after them
MOST_NOTES = 100  # on members of no job
OF_A_JOB = re.compile(r"(?:.*?/)?jobs/([0-9a-f]{32}-[0-9]{1,7})/(.+)", re.DOTALL)
"""A folder of a run may be called jobs, too."""
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
    hashed = HashedStream(source)
    try:
        plain = PlainTar(decompress(hashed))
        with tarfile.TarFile(fileobj=cast(BinaryIO, plain)) as tar:
            _unpack_members(tar, plain, folder, unpacked, why_not)
        unpacked.damage = plain.find_damage()
    except DAMAGED as error:
        if isinstance(error, OSError) and error.errno:  # of our own disk
            raise Refused(f"The archive cannot be unpacked here: {error.strerror}.") from None
        unpacked.damage = f"The archive is damaged or cut off: {clean_text(str(error))[:200]}."
    unpacked.sha256 = hashed.finish()
    return unpacked


def _unpack_members(
    tar: tarfile.TarFile,
    plain: PlainTar,
    folder: Path,
    unpacked: Unpacked,
    why_not: Callable[[str], str],
) -> None:
    count = 0
    while member := tar.next():
        # It keeps them all, for those who ask for one by its name.
        tar.members.clear()  # type: ignore[attr-defined]
        count += 1
        if count > MOST_MEMBERS:
            raise Refused(f"The archive holds more than {MOST_MEMBERS:,} files.")
        if sum(len(key) + len(text) for key, text in tar.pax_headers.items()) > MOST_SHARED:
            raise Refused("The archive's headers for all files are larger than any name.")
        plain.begin_content()
        _unpack_member(tar, member, folder, unpacked, why_not)
        plain.begin_headers()


def _unpack_member(
    tar: tarfile.TarFile,
    member: tarfile.TarInfo,
    folder: Path,
    unpacked: Unpacked,
    why_not: Callable[[str], str],
) -> None:
    name = member.name
    match = OF_A_JOB.fullmatch(name) or MEMBER.fullmatch(name)
    if match is None:
        if not member.isdir() and len(unpacked.notes) < MOST_NOTES:
            unpacked.notes.append(f"{_show(name)} belongs to no job and was left out.")
        return
    job_name, path = match.groups()
    if job_name in (".", ".."):
        if len(unpacked.notes) < MOST_NOTES:
            unpacked.notes.append(f"{_show(name)} leads out of the archive and was left out.")
        return
    job = unpacked.jobs.get(job_name)
    if job is None:
        if len(unpacked.jobs) >= MOST_JOBS:
            raise Refused(f"The archive names more than {MOST_JOBS:,} jobs.")
        job = JobFiles(folder / "jobs" / job_name, why_not(job_name))
        unpacked.jobs[job_name] = job
    if member.isdir() or path.startswith("payload/"):
        return
    job.count += 1
    job.size += max(member.size, 0)
    if job.problem:
        return
    job.problem = _find_problem(job, member, path)
    if not job.problem:
        unpacked.take_room(max(member.size, 0))
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
    if member.size < 0:
        return f"{_show(path)} has a size below 0"
    if path.count("/") > MOST_FOLDERS:
        return f"{_show(path)} lies in more than {MOST_FOLDERS} folders"
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
