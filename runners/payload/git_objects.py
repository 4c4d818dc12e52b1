"""Reads files as git keeps them, from `.git/objects`: loose ones, and those in packs.

Git itself is not called (see checkouts.py), and nothing that it keeps is believed: what is returned
has the hash by which it was asked for. Only repositories with SHA-1 are read.
"""

from __future__ import annotations

import os
import struct
import zlib
from typing import BinaryIO, Iterator, List, Tuple

LARGEST = 1 << 20
"""Bytes of a file, as it was before it was packed."""
MOST_PACKS = 100
DEEPEST = 60
"""Differences to differences that make a packed file: git makes 50."""
BLOB, BY_OFFSET, BY_HASH = 3, 6, 7


class Unreadable(ValueError):
    """There is no such file in the repository, or it cannot be read; the message says why."""


def read_blob(common: str, digest: bytes) -> bytes:
    """Return the file with this hash (20 bytes) of the repository whose git folder is `common`."""
    import hashlib

    try:
        content = _read(os.path.join(common, "objects"), digest)
    except (OSError, ValueError, IndexError, struct.error, zlib.error) as error:
        raise Unreadable(str(error)[:200]) from error
    if hashlib.sha1(b"blob %d\0" % len(content) + content).digest() != digest:
        raise Unreadable("what git keeps of it has another hash")
    return content


def _read(objects: str, digest: bytes) -> bytes:
    name = digest.hex()
    for folder in _list_folders(objects):
        path = os.path.join(folder, name[:2], name[2:])
        if os.path.isfile(path):
            with open(path, "rb") as file:
                head, _, content = _unpack(file, LARGEST + 64).partition(b"\0")
            if not head.startswith(b"blob "):
                raise ValueError("it is no file")
            return content
        for index, pack in _list_packs(folder):
            offset = _find_offset(index, digest)
            if offset:
                with open(pack, "rb") as file:
                    return _read_packed(file, offset, index, 0)
    raise ValueError("git does not have it as it was")


def _list_folders(objects: str) -> List[str]:
    """Return where objects lie: in the repository, and in those that it borrows from."""
    folders = [objects]
    path = os.path.join(objects, "info", "alternates")
    if os.path.isfile(path):
        with open(path, "rb") as file:
            lines = file.read(4096).split(b"\n")
        others = [line.decode("utf-8", "surrogateescape") for line in lines[:4] if line]
        folders += [os.path.join(objects, other) for other in others if "\0" not in other]
    return folders


def _list_packs(folder: str) -> Iterator[Tuple[str, str]]:
    """Yield the index and the pack of each pack, the newest first."""
    place = os.path.join(folder, "pack")
    if not os.path.isdir(place):
        return
    paths = [os.path.join(place, name) for name in os.listdir(place) if name.endswith(".idx")]
    for path in sorted(paths, key=os.path.getmtime, reverse=True)[:MOST_PACKS]:
        pack = path[: -len(".idx")] + ".pack"
        if os.path.isfile(path) and os.path.isfile(pack):
            yield path, pack


def _find_offset(index: str, digest: bytes) -> int:
    """Return where an object begins in the pack of this index (version 2); 0 if it is not there."""
    with open(index, "rb") as file:
        head = file.read(8 + 1024)
        if head[:8] != b"\377tOc\0\0\0\2":
            return 0
        fanout = struct.unpack(">256I", head[8:])
        low, high, total = fanout[digest[0] - 1] if digest[0] else 0, fanout[digest[0]], fanout[255]
        while low < high:
            middle = (low + high) // 2
            file.seek(1032 + 20 * middle)
            name = file.read(20)
            if name == digest:
                file.seek(1032 + 24 * total + 4 * middle)
                offset = int(struct.unpack(">I", file.read(4))[0])
                if offset & 0x80000000:
                    file.seek(1032 + 28 * total + 8 * (offset & 0x7FFFFFFF))
                    offset = int(struct.unpack(">Q", file.read(8))[0])
                return offset
            low, high = (middle + 1, high) if name < digest else (low, middle)
    return 0


def _read_packed(file: BinaryIO, offset: int, index: str, depth: int) -> bytes:
    """Return the file at an offset of a pack; one that is a difference is made of its base."""
    file.seek(offset)
    kind, size = _read_head(file)
    if kind == BLOB:
        return _unpack(file, size)
    if depth >= DEEPEST or kind not in (BY_OFFSET, BY_HASH):
        raise ValueError("it is no file, or a difference of too many others")
    if kind == BY_OFFSET:
        base = offset - _read_distance(file)
    else:
        base = _find_offset(index, file.read(20))
    changes = _unpack(file, size)
    if not 0 < base != offset:
        raise ValueError("what it is a difference of is not in its pack")
    return _apply(_read_packed(file, base, index, depth + 1), changes)


def _read_head(file: BinaryIO) -> Tuple[int, int]:
    """Return the kind of a packed object, and its size before it was packed."""
    byte = file.read(1)[0]
    kind, size, shift = byte >> 4 & 7, byte & 15, 4
    while byte & 0x80 and shift < 64:
        byte = file.read(1)[0]
        size |= (byte & 0x7F) << shift
        shift += 7
    if size > LARGEST:
        raise ValueError("it is too large")
    return kind, size


def _read_distance(file: BinaryIO) -> int:
    byte = file.read(1)[0]
    distance, count = byte & 0x7F, 1
    while byte & 0x80 and count < 10:
        byte = file.read(1)[0]
        distance = (distance + 1 << 7) | (byte & 0x7F)
        count += 1
    return distance


def _unpack(file: BinaryIO, most: int) -> bytes:
    """Return what a zlib stream holds. ValueError for more than `most` bytes."""
    stream, parts, left = zlib.decompressobj(), [], most + 1
    while left > 0 and not stream.eof:
        piece = stream.unconsumed_tail or file.read(1 << 14)
        if not piece:
            break
        parts.append(stream.decompress(piece, left))
        left -= len(parts[-1])
    if left <= 0:
        raise ValueError("it is too large")
    return b"".join(parts)


def _apply(base: bytes, changes: bytes) -> bytes:
    """Return a file that is written as copies of parts of another one, and new parts."""
    position = 0
    sizes = []
    for _ in range(2):
        size = shift = 0
        while True:
            byte = changes[position]
            size |= (byte & 0x7F) << shift
            position, shift = position + 1, shift + 7
            if not byte & 0x80:
                break
        sizes.append(size)
    if sizes[0] != len(base) or sizes[1] > LARGEST:
        raise ValueError("it is a difference of something else, or too large")
    parts, left = [], sizes[1]
    while position < len(changes) and left >= 0:
        byte = changes[position]
        position += 1
        if byte & 0x80:
            numbers = [0, 0]
            for bit in range(7):
                if byte >> bit & 1:
                    of_size = bit >= 4
                    numbers[of_size] |= changes[position] << 8 * (bit - 4 * of_size)
                    position += 1
            begin, size = numbers[0], numbers[1] or 0x10000
            parts.append(base[begin : begin + size])
        else:
            parts.append(changes[position : position + byte])
            position += byte
            if not byte:
                raise ValueError("it holds an unknown change")
        left -= len(parts[-1])
    if left:
        raise ValueError("it is not as large as it says")
    return b"".join(parts)
