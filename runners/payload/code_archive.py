"""The archives of code that Tare unpacks: tar, tar.gz, tar.xz and zip, through one strict door.

No entry leaves the folder, by its name or by a link. Devices, pipes and sockets are refused. Tare
reads an archive when it is sent, and a node unpacks it. Names need not be UTF-8.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import tarfile
import zipfile
import zlib
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, NamedTuple

from .data_files import show
from .strict_tar import StrictTarInfo
from .xz_stream import XzStream, explain_memory

try:
    import lzma
except ImportError:  # a Python that was built without it
    lzma = None  # type: ignore[assignment]

LARGEST_ARCHIVE = 64_000_000  # bytes that are sent
MOST_BYTES = 512_000_000  # that are unpacked
MOST_ENTRIES = 50_000
LONGEST_PATH, LONGEST_NAME, MOST_DEPTH = 1000, 255, 40
LONGEST_TARGET = 1000  # bytes of a link
MOST_HOPS = 40  # links that one path may follow, as Linux has it
MOST_STEPS = 4_000_000  # folders that are gone through to follow all links: some seconds
LARGEST_READ = 1 << 24  # bytes of a zip's list of members
CHUNK = 1 << 18
FILE, PROGRAM, LINK, FOLDER = "file", "program", "link", "folder"
"""The kinds of entries: a program is a file that may be executed."""
DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError),
    *((lzma.LZMAError,) if lzma else ()),
    *(ValueError, NotImplementedError, IndexError, KeyError, OverflowError, RuntimeError),
)
"""What the standard library raises for archives that are damaged or odd."""


class BadArchive(Exception):
    """The archive is not unpacked; the message says why, and what to do."""


class Entry(NamedTuple):
    """An entry of an archive; of a hard link `same_as` is the entry whose content it has."""

    path: bytes
    kind: str
    size: int
    target: bytes
    same_as: bytes
    read: Callable[[int], bytes]


class Member(NamedTuple):
    """A file or link of a tree of code, as its digest counts it."""

    kind: str
    size: int
    sha256: str


def compute_digest(members: Dict[bytes, Member]) -> str:
    """Return the digest of a tree of code, "sha256:...".

    That is the sha256 of a line for each file and link, in the order of the paths' bytes: path,
    NUL, kind (file, program or link), NUL, size, NUL, sha256 of the content or of the link's
    target, line feed.
    """
    digest = hashlib.sha256()
    for path, row in sorted(members.items()):
        line = b"%s\0%s\0%d\0%s\n" % (path, row.kind.encode(), row.size, row.sha256.encode())
        digest.update(line)
    return "sha256:" + digest.hexdigest()


def read_members(file: BinaryIO) -> Dict[bytes, Member]:
    """Return the files and links of an archive by their paths. Raises BadArchive."""
    members: Dict[bytes, Member] = {}
    for entry in read_entries(file):
        if entry.same_as:
            members[entry.path] = members[entry.same_as]
        elif entry.kind == LINK:
            digest = hashlib.sha256(entry.target).hexdigest()
            members[entry.path] = Member(LINK, len(entry.target), digest)
        elif entry.kind != FOLDER:
            content = hashlib.sha256()
            for block in iterate_blocks(entry):
                content.update(block)
            members[entry.path] = Member(entry.kind, entry.size, content.hexdigest())
    return members


def iterate_blocks(entry: Entry) -> Iterator[bytes]:
    """Yield the content of a file. Raises BadArchive where it is not as long as promised."""
    left = entry.size
    while left:
        try:
            block = entry.read(min(CHUNK, left))
        except DAMAGED as error:
            raise damaged(error) from error
        if not block:
            raise BadArchive("the archive is damaged: %s is cut off" % show(entry.path))
        left -= len(block)
        yield block
    try:
        rest = entry.read(1)  # a zip proves its check sum at the end
    except DAMAGED as error:
        raise damaged(error) from error
    if rest:
        raise BadArchive("the archive is damaged: %s is longer than it says" % show(entry.path))


def read_entries(file: BinaryIO) -> Iterator[Entry]:
    """Yield the entries of an archive, each folder before what is in it. Raises BadArchive.

    The content of one has to be read before the next is asked for. What is wrong with links is
    only known at the end.
    """
    door = Door()
    begin = file.read(512)
    file.seek(0)
    try:
        if begin.startswith(b"PK"):
            yield from _read_zip(file, door)
        elif begin.startswith(b"\x1f\x8b"):
            with gzip.GzipFile(fileobj=file, mode="rb") as plain:
                yield from _read_tar(plain, door)
        elif begin.startswith(b"\xfd7zXZ\0"):
            if lzma is None:
                raise BadArchive("this Python cannot read xz: send a tar.gz")
            yield from _read_tar(XzStream(file), door)
        elif begin[257:262] == b"ustar":
            yield from _read_tar(file, door)
        else:
            raise BadArchive("this is neither a tar, a tar.gz, a tar.xz nor a zip")
    except DAMAGED as error:
        raise damaged(error) from error
    door.require_good_links()
    if not door.targets:
        raise BadArchive("the archive holds no file")


def damaged(error: BaseException) -> BadArchive:
    """Return the refusal of an archive that the standard library cannot read."""
    if isinstance(error, RuntimeError) and "password" in str(error):
        return BadArchive("the archive is encrypted: send it without a password")
    too_large = explain_memory(error)
    if too_large:
        return BadArchive(too_large)
    return BadArchive("the archive is damaged or cut off: %s" % (error or type(error).__name__))


class Door:
    """What has been let through of an archive, and the rules for what comes next."""

    def __init__(self) -> None:
        self.kinds: Dict[bytes, str] = {}
        self.targets: Dict[bytes, bytes] = {}
        self.sizes: Dict[bytes, int] = {}
        self.bytes = self.entries = self.steps = 0

    def let_in(self, name: bytes, kind: str, size: int, target: bytes = b"") -> bytes:
        """Return the path of an entry, without a dot or slash too many. Raises BadArchive."""
        path = clean_path(name)
        self.entries += 1
        if self.entries > 2 * MOST_ENTRIES:
            raise BadArchive("it has more than %d entries" % (2 * MOST_ENTRIES))
        if path == b"" and kind == FOLDER:
            return path
        if path == b"":
            raise BadArchive("an entry of the archive has no name")
        self.bytes += size
        if size < 0 or self.bytes > MOST_BYTES:
            raise BadArchive("unpacked it has more than %d MB" % (MOST_BYTES // 10**6))
        parts = path.split(b"/")
        for count in range(1, len(parts)):
            above = b"/".join(parts[:count])
            if self.kinds.setdefault(above, FOLDER) != FOLDER:
                raise BadArchive("%s lies below %s, which is no folder" % (show(path), show(above)))
        known = self.kinds.setdefault(path, kind)
        if known != kind or (kind != FOLDER and path in self.targets):
            raise BadArchive("%s is there twice" % show(path))
        if len(self.kinds) > MOST_ENTRIES:
            raise BadArchive("it has more than %d files and folders" % MOST_ENTRIES)
        if kind != FOLDER:
            self.targets[path], self.sizes[path] = target, size
        if kind == LINK and (not target or len(target) > LONGEST_TARGET):
            raise BadArchive("%s is a link to nothing, or to too long a path" % show(path))
        if b"\0" in target:
            raise BadArchive("%s is a link to a path with a NUL in it" % show(path))
        return path

    def require_file(self, path: bytes, name: bytes) -> bytes:
        """Return the path of the file that a hard link is another name of. Raises BadArchive."""
        target = clean_path(name)
        if self.kinds.get(target) not in (FILE, PROGRAM):
            raise BadArchive(
                "%s is another name of %s, which is no file before it in the archive"
                % (show(path), show(name))
            )
        return target

    def require_good_links(self) -> None:
        """Raise BadArchive for a link that leads out of the folder, or round in a circle."""
        for path, kind in self.kinds.items():
            if kind == LINK:
                self._follow(path)

    def _follow(self, path: bytes) -> None:
        """Follow a link as the kernel does, within the archive. Raises BadArchive."""
        waiting: List[bytes] = path.split(b"/")[::-1]
        here: List[bytes] = []
        hops = 0
        while waiting:
            part = waiting.pop()
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise BadArchive("it has too many links, or links through too many folders")
            if part in (b"", b"."):
                continue
            if part == b"..":
                if not here:
                    self._refuse_link(path, "leads out of the folder")
                here.pop()
                continue
            here.append(part)
            if len(here) > MOST_DEPTH:
                self._refuse_link(path, "leads through too many folders")
            name = b"/".join(here)
            if self.kinds.get(name) == LINK:
                hops += 1
                target = self.targets[name]
                if target.startswith(b"/"):
                    self._refuse_link(path, "leads out of the folder")
                if hops > MOST_HOPS:
                    self._refuse_link(path, "leads round in a circle")
                here.pop()
                waiting += target.split(b"/")[::-1]

    def _refuse_link(self, path: bytes, why: str) -> None:
        raise BadArchive(
            "%s is a link to %s, which %s" % (show(path), show(self.targets[path]), why)
        )


def clean_path(name: bytes) -> bytes:
    """Return a path below the folder that is unpacked; b"" for that folder. Raises BadArchive."""
    if name.startswith(b"/"):
        raise BadArchive("%s is an absolute path" % show(name))
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise BadArchive("%s has '..' in it" % show(name))
    path = b"/".join(parts)
    if b"\0" in path or len(path) > LONGEST_PATH or len(parts) > MOST_DEPTH:
        raise BadArchive("%s is too long or too deep a path" % show(name))
    if any(len(part) > LONGEST_NAME for part in parts):
        raise BadArchive("%s has too long a name" % show(name))
    return path


class _TarInfo(StrictTarInfo):
    refusal = BadArchive


class _Metered:
    """A stream that counts a tar's bytes as they come out of the decompressor."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.count, self.end = stream, 0, b""

    def read(self, size: int) -> bytes:
        content: bytes = self.stream.read(size)
        self.count += len(content)
        if self.count > MOST_BYTES + MOST_ENTRIES * 4096:
            raise BadArchive("unpacked it has more than %d MB" % (MOST_BYTES // 10**6))
        self.end = (self.end + content)[-2 * tarfile.BLOCKSIZE :]
        return content


def _read_tar(stream: Any, door: Door) -> Iterator[Entry]:
    metered: Any = _Metered(stream)
    with tarfile.open(
        fileobj=metered,
        mode="r|",
        tarinfo=_TarInfo,
        encoding="utf-8",
        errors="surrogateescape",
    ) as archive:
        for member in archive:
            yield _let_in_tar_member(archive, member, door)
            archive.members = []  # type: ignore[attr-defined]  # it keeps them all
    if metered.end != bytes(2 * tarfile.BLOCKSIZE):
        raise BadArchive("the tar is cut off: its end is missing")
    while metered.read(CHUNK):
        pass  # the check sum of a compressed file comes last


def _let_in_tar_member(archive: tarfile.TarFile, member: tarfile.TarInfo, door: Door) -> Entry:
    name = _encode(member.name)
    if member.isdir():
        return Entry(door.let_in(name, FOLDER, 0), FOLDER, 0, b"", b"", _read_nothing)
    if member.issym():
        target = _encode(member.linkname)
        path = door.let_in(name, LINK, 0, target)
        return Entry(path, LINK, 0, target, b"", _read_nothing)
    if member.islnk():
        same = door.require_file(name, _encode(member.linkname))
        kind, size = door.kinds[same], door.sizes[same]
        return Entry(door.let_in(name, kind, size), kind, size, b"", same, _read_nothing)
    if not member.isreg():
        raise BadArchive("%s is a device or a pipe, which is not unpacked" % show(name))
    kind = PROGRAM if member.mode & 0o111 else FILE
    path = door.let_in(name, kind, member.size)
    content = archive.extractfile(member)
    return Entry(path, kind, member.size, b"", b"", content.read if content else _read_nothing)


class _BoundedReads:
    """A file for the zip reader that refuses to take much of it into memory at once."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.seek, self.tell = file, file.seek, file.tell

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size > LARGEST_READ:
            raise BadArchive("the zip's list of members is too long")
        return self.file.read(LARGEST_READ if size < 0 else size)


def _read_zip(file: BinaryIO, door: Door) -> Iterator[Entry]:
    bounded: Any = _BoundedReads(file)
    with zipfile.ZipFile(bounded) as archive:
        for member in archive.infolist():
            name = member.filename.encode("utf-8" if member.flag_bits & 0x800 else "cp437")
            mode = member.external_attr >> 16 if member.create_system == 3 else 0  # 3: Unix
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
                raise BadArchive("%s is a device or a pipe, which is not unpacked" % show(name))
            if b"\\" in name and not mode:
                raise BadArchive("%s was packed with names of Windows" % show(name))
            if member.is_dir():
                yield Entry(door.let_in(name, FOLDER, 0), FOLDER, 0, b"", b"", _read_nothing)
                continue
            if member.flag_bits & 1:
                raise BadArchive("the archive is encrypted: send it without a password")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                # Other methods are unpacked at once, whatever comes out of them.
                raise BadArchive("%s is not packed by deflate, as zips usually are" % show(name))
            with archive.open(member) as content:
                if stat.S_ISLNK(mode):
                    target = content.read(LONGEST_TARGET + 1)
                    path = door.let_in(name, LINK, 0, target)
                    yield Entry(path, LINK, 0, target, b"", _read_nothing)
                    continue
                kind = PROGRAM if mode & 0o111 else FILE
                path = door.let_in(name, kind, member.file_size)
                yield Entry(path, kind, member.file_size, b"", b"", content.read)


def _read_nothing(size: int) -> bytes:
    return b""


def _encode(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def place_below(folder: bytes, path: bytes) -> bytes:
    """Return the path of an entry in the folder into which it is unpacked."""
    return os.path.join(folder, path) if path else folder
