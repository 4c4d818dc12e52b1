"""The bytes of an archive as they come, for the tar reader: forwards only, and in bounds.

`tarfile` trusts what an archive says of itself: it skips over 2**62 bytes that are not there, and
reads chains and tables of headers for as long as they go on. Here all that ends.
"""

from __future__ import annotations

import hashlib
import lzma
import re
import tarfile
import zlib
from collections.abc import Callable
from typing import BinaryIO, Protocol, cast

from runners.errors import Refused
from runners.transports.base import MIB

MOST_BYTES = 4096 * MIB  # of all files, unpacked
MOST_HEADER = 1 << 16  # bytes of all headers of one file: they are taken into memory whole
LZMA_MEMORY = 256 * MIB
CHUNK = MIB
GZIP, XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"
DIGITS = re.compile(rb"[0-9]{256}")
"""Longer than any number or name. Before Python 3.11.10 `tarfile` takes 7 s for 64 KiB of them."""


class Stream(Protocol):
    """Bytes that can be read once."""

    def read(self, count: int, /) -> bytes:
        """Return at most so many bytes; none at the end."""
        ...


class HashedStream:
    """The archive as it comes, hashed."""

    def __init__(self, source: BinaryIO) -> None:
        self._source, self._hash = source, hashlib.sha256()
        self._begin = b""

    def read(self, count: int) -> bytes:
        if self._begin:
            begin, self._begin = self._begin[:count], self._begin[count:]
            return begin
        content = self._source.read(count)
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


class _Decompressor(Protocol):
    """What zlib, lzma and bz2 have in common."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Decompressed:
    """The plain bytes of compressed streams, one after the other, in bounded memory.

    Whatever could be decompressed comes out before an error is raised.
    """

    def __init__(self, packed: Stream, begin: bytes, make: Callable[[], _Decompressor]) -> None:
        self._packed, self._begin, self._make = packed, begin, make
        self._stream: _Decompressor | None = None
        self._rest = b""

    def read(self, count: int) -> bytes:
        while True:
            if self._stream is None and not self._start():
                return b""
            assert self._stream is not None
            has_more = self._has_more()
            if not has_more and not self._rest and not (more := self._packed.read(CHUNK)):
                raise EOFError("the compressed file ended before its end was reached")
            data = self._rest or (b"" if has_more else more)
            plain = self._stream.decompress(data, count)
            self._rest = cast(bytes, getattr(self._stream, "unconsumed_tail", b""))
            if self._stream.eof:
                self._rest, self._stream = self._stream.unused_data, None
            if plain:
                return plain

    def _has_more(self) -> bool:
        """Return whether the decompressor can go on without being given more."""
        return not getattr(self._stream, "needs_input", True)

    def _start(self) -> bool:
        """Begin with the next stream; return whether there is one. Zeros may fill up the last."""
        begin = self._rest.lstrip(b"\0")
        while not begin:
            if not (more := self._packed.read(CHUNK)):
                return False
            begin = more.lstrip(b"\0")
        self._rest = begin
        while len(self._rest) < len(self._begin) and (more := self._packed.read(CHUNK)):
            self._rest += more
        if not self._rest.startswith(self._begin):
            raise ValueError("something else follows after its end")
        self._stream = self._make()
        return True


def decompress(packed: HashedStream) -> Stream:
    """Return the plain bytes of an archive, be it compressed or not."""
    begin = packed.peek(len(XZ))
    if begin.startswith(GZIP):
        return _Decompressed(packed, GZIP, lambda: zlib.decompressobj(16 + zlib.MAX_WBITS))
    if begin == XZ:
        return _Decompressed(packed, XZ, lambda: lzma.LZMADecompressor(memlimit=LZMA_MEMORY))
    return packed


class PlainTar:
    """A tar as the tar reader reads it. Raises Refused for a bomb, EOFError where it is cut off."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._position = 0
        self._header_room: int | None = MOST_HEADER
        self._last = b""

    def begin_headers(self) -> None:
        """Say that what is read next are headers, of one file."""
        self._header_room = MOST_HEADER

    def begin_content(self) -> None:
        """Say that what is read next is the content of a file, until headers begin."""
        self._header_room = None

    def tell(self) -> int:
        return self._position

    def seek(self, position: int) -> int:
        """Skip to a position further on."""
        if position < self._position:
            raise tarfile.ReadError("a header leads backwards")
        while self._position < position:
            if not self._read_some(min(position - self._position, CHUNK)):
                raise EOFError("it ends in the middle of a file")
        return self._position

    def read(self, count: int) -> bytes:
        """Return so many bytes; fewer at the end alone."""
        if count < 0:
            raise tarfile.ReadError("a header has a size below 0")
        if self._header_room is not None:
            self._header_room -= count
            if self._header_room < 0:
                raise Refused("A header of the archive is larger than any name.")
        pieces = []
        while count > 0 and (piece := self._read_some(min(count, CHUNK))):
            pieces.append(piece)
            count -= len(piece)
        content = b"".join(pieces)
        if self._header_room is not None:
            self._last = content
            if DIGITS.search(content):
                raise Refused("A header of the archive has a number longer than any.")
        return content

    def find_damage(self) -> str:
        """Return what is wrong with the end, after the last file was read; "" if nothing is."""
        two = self._last + self._read_some_of(tarfile.BLOCKSIZE)
        if two != bytes(2 * tarfile.BLOCKSIZE):
            return "The archive is cut off: its end is missing."
        has_more = False
        while piece := self._read_some(CHUNK):
            has_more = has_more or bool(piece.strip(b"\0"))
        if has_more:
            return (
                "Something follows after the archive’s end, and was left out: bring it by itself."
            )
        return ""

    def _read_some_of(self, count: int) -> bytes:
        self.begin_headers()
        return self.read(count)

    def _read_some(self, count: int) -> bytes:
        content = self._stream.read(count)
        self._position += len(content)
        if self._position > MOST_BYTES:
            raise Refused(f"The archive holds more than {MOST_BYTES // MIB:,} MiB.")
        return content
