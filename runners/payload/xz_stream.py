"""Reads xz in bounded memory: a header may ask for gigabytes, which Python's own reader gives."""

from __future__ import annotations

from typing import Any, BinaryIO

try:
    import lzma
except ImportError:  # a Python that was built without it
    lzma = None  # type: ignore[assignment]

MOST_MEMORY = 100 << 20  # bytes; what `xz -9` has packed takes 65 MiB
CHUNK = 1 << 16


class XzStream:
    """The plain bytes of xz streams, one after the other.

    Raises lzma.LZMAError for what is no xz or needs too much memory, EOFError where it is cut off.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decompressor: Any = None
        self._packed = b""

    def read(self, size: int) -> bytes:
        """Return at most so many bytes; none at the end."""
        while True:
            if self._decompressor is None and not self._begin_stream():
                return b""
            if self._decompressor.needs_input and not self._packed:
                self._packed = self._file.read(CHUNK)
                if not self._packed:
                    raise EOFError("the end of the xz stream is missing")
            plain: bytes = self._decompressor.decompress(self._packed, size)
            self._packed = b""
            if self._decompressor.eof:
                self._packed, self._decompressor = self._decompressor.unused_data, None
            if plain:
                return plain

    def _begin_stream(self) -> bool:
        """Begin with the next stream; return whether there is one. Zeros may stand before it."""
        self._packed = self._packed.lstrip(b"\0")
        while not self._packed:
            content = self._file.read(CHUNK)
            if not content:
                return False
            self._packed = content.lstrip(b"\0")
        self._decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_MEMORY)
        return True


def explain_memory(error: BaseException) -> str:
    """Return what to do about xz that needs too much memory; "" for any other error."""
    if "memory" not in str(error).lower() or "limit" not in str(error).lower():
        return ""
    return "to unpack its xz takes more than %d MB of memory: pack it with xz -9 or less" % (
        MOST_MEMORY // 10**6
    )
