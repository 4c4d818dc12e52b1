"""A bag (BagIt 1.0, RFC 8493) as a zip file that is written while it is read."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, cast

FIRST_DATE = (1980, 1, 1, 0, 0, 0)
"""Of each file in the zip, so that the same content gives the same bytes."""
PLAIN_FILE = 0o100644 << 16
BAGIT = b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"
PAYLOAD = "data/"
TAG_MANIFEST = "tagmanifest-sha256.txt"
SIGNATURE = f"{TAG_MANIFEST}.sig"
"""The one file that no manifest lists, as it is of the last of them."""
LEVEL = 4
"""Of zlib: steps take a third of the time of its usual level 6, and 4 % more room."""


class Outlet:
    """A file that keeps what is written to it until somebody takes it."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, piece: bytes) -> int:
        self._pieces.append(bytes(piece))
        return len(piece)

    def flush(self) -> None:
        """Do nothing: all that was written can be taken."""

    def take(self) -> bytes:
        """Return what has been written since the last time."""
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken


class BagWriter:
    """Writes a bag file by file, with the check sums of all; holds one piece of a file at a time.

    In the zip the bag is a folder, `base`, as the RFC asks for.
    """

    def __init__(self, base: str) -> None:
        self._base = base
        self._outlet = Outlet()
        self._zip = zipfile.ZipFile(cast(IO[bytes], self._outlet), "w", zipfile.ZIP_DEFLATED)
        self.payload: dict[str, str] = {}
        """The check sum of each file in `data/`, by its name in the bag."""
        self.sizes: dict[str, int] = {}
        self._tags: dict[str, str] = {}

    def add(self, name: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Add a file, and yield the bytes of the zip that are ready. ValueError if there is one."""
        sums = self.payload if name.startswith(PAYLOAD) else self._tags
        if name in sums:
            raise ValueError(f"{name} is in the bag already.")
        info = zipfile.ZipInfo(f"{self._base}/{name}", FIRST_DATE)
        info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, PLAIN_FILE
        info.create_system = 3  # Unix, on every system
        # An entry of one's own does not take the level of the zip file, and has no public one
        # before Python 3.13, which keeps this name.
        info._compresslevel = LEVEL  # type: ignore[attr-defined]
        digest, size = hashlib.sha256(), 0
        with self._zip.open(info, "w", force_zip64=True) as file:
            for piece in pieces:
                digest.update(piece)
                size += len(piece)
                file.write(piece)
                yield self._outlet.take()
        sums[name], self.sizes[name] = digest.hexdigest(), size
        yield self._outlet.take()

    def finish(
        self, info: Mapping[str, str], sign: Callable[[bytes], bytes] | None = None
    ) -> Iterator[bytes]:
        """Add the manifests and `bag-info.txt`, with what `info` says, and end the zip.

        `sign` returns the signature of the manifest of tag files, and with it of all the others.
        """
        payload_bytes = sum(self.sizes[name] for name in self.payload)
        facts = {**info, "Payload-Oxum": f"{payload_bytes}.{len(self.payload)}"}
        lines = "".join(f"{name}: {_make_line(value)}\n" for name, value in facts.items())
        yield from self.add("bagit.txt", [BAGIT])
        yield from self.add("bag-info.txt", [lines.encode()])
        yield from self.add("manifest-sha256.txt", [_make_manifest(self.payload)])
        tags = _make_manifest(self._tags)
        yield from self.add(TAG_MANIFEST, [tags])
        if sign:
            yield from self.add(SIGNATURE, [sign(tags)])
        self._zip.close()
        yield self._outlet.take()


def _make_manifest(sums: Mapping[str, str]) -> bytes:
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items())).encode()


def _make_line(value: str) -> str:
    return " ".join(value.split())
