"""Headers of tars from anybody, which the standard library's reader trusts: here they have bounds.

A reader of tars passes a subclass as `tarinfo`, with the exception that it wants.
"""

from __future__ import annotations

import re
import tarfile
from typing import Any, Callable, Type, TypeVar

from .data_files import show

MOST_HEADER = 1 << 16  # bytes of an extended header, which is taken into memory whole
MOST_GLOBALS = 100  # values for all files that follow: each header copies them all
DIGITS = re.compile(rb"[0-9]{256}")
"""Longer than any number or name. Before Python 3.11.10 `tarfile` takes 7 s for 64 KiB of them."""
EXTENDED_HEADERS = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)
Info = TypeVar("Info", bound="StrictTarInfo")


class StrictTarInfo(tarfile.TarInfo):
    """A header of a tar that holds files, folders and links, but no sparse file."""

    refusal: Callable[[str], Exception] = ValueError
    """Makes what is raised of a text that begins in lower case and has no full stop."""
    other_kind = "neither a file, a folder nor a link"

    @classmethod
    def frombuf(cls: Type[Info], buf: Any, encoding: str, errors: str) -> Info:
        """Read a header. Raises `refusal` if the tar reader could not handle it safely."""
        header = super().frombuf(buf, encoding, errors)
        if header.type in EXTENDED_HEADERS:
            if not 0 <= header.size <= MOST_HEADER:
                raise cls.refusal("a header of the tar is larger than any name")
        elif header.type not in tarfile.SUPPORTED_TYPES or header.type == tarfile.GNUTYPE_SPARSE:
            raise cls.refusal("%s is %s" % (name_header(header), cls.other_kind))
        return header

    def _proc_pax(self, archive: Any) -> Any:
        """Read an extended header, and the one that it is about."""
        source = archive.fileobj
        content = source.read(-(-self.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE)
        if DIGITS.search(content):
            raise self.refusal("a header of the tar has a longer number than any")
        if len(archive.pax_headers) > MOST_GLOBALS:
            raise self.refusal("the tar has too many headers that are for all files")
        archive.fileobj = _ReadAgain(content, source)
        try:
            return super()._proc_pax(archive)  # type: ignore[misc]
        finally:
            archive.fileobj = source

    def _proc_gnusparse_10(self, header: Any, *_: Any) -> None:
        """Refuse the table of a sparse file before it is read: it may have any length."""
        raise self.refusal("%s is a sparse file: pack it as a usual one" % name_header(header))

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10


class _ReadAgain:
    """A stream whose last bytes are read once more."""

    def __init__(self, content: bytes, source: Any) -> None:
        self._content, self._source = content, source
        self.tell, self.seek = source.tell, source.seek

    def read(self, size: int) -> bytes:
        if self._content:
            content, self._content = self._content, b""
            return content
        rest: bytes = self._source.read(size)
        return rest


def name_header(header: tarfile.TarInfo) -> str:
    """Return the name of a file in a tar as people can read it."""
    return show(header.name.encode("utf-8", "surrogateescape"))
