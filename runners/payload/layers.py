"""The layers of an image, read as streams: compressed in any way, and never written to a disk.

Every content with a digest is checked against it.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import lzma
import shutil
import subprocess
import tarfile
import threading
import zlib
from typing import IO, Any, BinaryIO, Callable, Iterator, List, Optional

from .image_archive import MEMBER_LIMIT, Blob, Layer, Member, clean_name
from .manifests import UNPACKED_LIMIT, BadImage, check_digest
from .xz_stream import XzStream, explain_memory

CHUNK = 1 << 20  # bytes
RATIO_LIMIT = 250  # unpacked bytes for each packed one, once they are more than RATIO_FROM
RATIO_FROM = 1 << 30


class Stream(io.RawIOBase):
    """A slice of a file, hashed as it is read; at its end the digest must be the expected one."""

    def __init__(
        self, file: BinaryIO, blob: Blob, count: Optional[Callable[[int], None]] = None
    ) -> None:
        file.seek(blob.offset)
        self.source, self.blob, self.left, self.count = file, blob, blob.size, count
        self.hash = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.source.read(min(len(buffer), self.left))
        if not data and self.left:
            raise BadImage("The archive is cut off.")
        if data:
            self.left -= len(data)
            self.hash.update(data)
            buffer[: len(data)] = data
            if self.count:
                self.count(len(data))
        return len(data)

    def finish(self) -> str:
        """Read to the end; return the sha256 (hex) of all. Raises BadImage if it is another one."""
        while self.read(CHUNK):
            pass
        if self.blob.sha256:
            check_digest("a blob", self.blob.sha256, self.hash.hexdigest())
        return self.hash.hexdigest()


class Unpacked(io.RawIOBase):
    """A layer without its compression, hashed and counted as it is read."""

    def __init__(self, source: BinaryIO, packed_size: int, image_size: List[int]) -> None:
        """`image_size` is one number: the bytes that all layers together have unpacked to."""
        self.source, self.packed_size, self.image_size = source, packed_size, image_size
        self.hash, self.size = hashlib.sha256(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self.source.read(len(buffer))
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            why = explain_memory(error) or error
            raise BadImage("A layer cannot be unpacked: %s" % why) from None
        self.hash.update(data)
        self.count(len(data))
        buffer[: len(data)] = data
        return len(data)

    def count(self, size: int) -> None:
        """Add to the unpacked bytes; the holes of files count too. Raises BadImage if too many."""
        self.size += size
        self.image_size[0] += size
        is_bomb = self.size > max(RATIO_FROM, RATIO_LIMIT * self.packed_size)
        if is_bomb or self.image_size[0] > UNPACKED_LIMIT:
            raise BadImage(
                "The image unpacks to too much: %d bytes of %d and more to come."
                % (self.size, self.packed_size)
            )


@contextlib.contextmanager
def open_unpacked(stream: BinaryIO, magic: bytes) -> Iterator[BinaryIO]:
    """Open a stream without its compression: gzip, zstd, xz or none, by its first bytes."""
    if magic.startswith(b"\x1f\x8b"):
        yield gzip.GzipFile(fileobj=stream, mode="rb")  # type: ignore[misc]
    elif magic.startswith(b"\x28\xb5\x2f\xfd"):
        with open_zstd(stream) as zstd:
            yield zstd
    elif magic.startswith(b"\xfd7zXZ"):
        yield XzStream(stream)  # type: ignore[misc]
    else:
        yield stream


@contextlib.contextmanager
def open_zstd(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Open a stream without zstd by the program of that name: Python has zstd from 3.14 on."""
    if not shutil.which("zstd"):
        raise BadImage("The layers are compressed by zstd, and there is no program zstd here.")
    command = ["zstd", "-dcq"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        assert process.stdin
        assert process.stdout
        sink: Any = process.stdin
        failed: List[BaseException] = []

        def feed() -> None:
            try:
                with contextlib.suppress(BrokenPipeError), sink:
                    shutil.copyfileobj(stream, sink, CHUNK)
            except BaseException as error:  # noqa: BLE001 - the reading thread raises it
                failed.append(error)

        feeder = threading.Thread(target=feed, daemon=True)
        feeder.start()
        try:
            yield process.stdout  # type: ignore[misc]
            left = process.stdout.read(1)
        finally:
            process.stdout.close()
            feeder.join()
            process.wait()
        if failed:
            raise failed[0]
        if process.returncode and not left:
            raise BadImage("A layer cannot be unpacked: zstd ended with %d." % process.returncode)


Take = Callable[[str, tarfile.TarInfo, Optional[IO[bytes]]], None]


def read_layer(
    file: BinaryIO,
    layer: Layer,
    take: Take,
    count: Optional[Callable[[int], None]] = None,
    image_size: Optional[List[int]] = None,
) -> None:
    """Pass each member of a layer with its clean name to `take`, and check the layer's digests.

    `count` is called with the bytes read; `image_size` is one number, to which those unpacked are
    added.
    """
    file.seek(layer.blob.offset)
    magic = file.read(8)
    stream = Stream(file, layer.blob, count)
    members = 0
    with open_unpacked(io.BufferedReader(stream, CHUNK), magic) as source:
        unpacked = Unpacked(source, layer.blob.size, [0] if image_size is None else image_size)
        buffered = io.BufferedReader(unpacked, CHUNK)
        try:
            with tarfile.open(
                fileobj=buffered,
                mode="r|",
                tarinfo=Member,
                encoding="utf-8",
                errors="surrogateescape",
            ) as tar:
                for member in tar:
                    members += 1
                    if members > MEMBER_LIMIT:
                        raise BadImage("A layer has more than %d names." % MEMBER_LIMIT)
                    if member.issparse():
                        unpacked.count(member.size)
                    content = tar.extractfile(member) if member.isreg() else None
                    take(clean_name(member.name), member, content)
                    tar.members = []  # type: ignore[attr-defined]  # it would remember each one
        except (tarfile.TarError, EOFError) as error:
            raise BadImage("A layer is no whole tar archive: %s" % error) from None
        while buffered.read(CHUNK):
            pass
    stream.finish()
    if layer.diff_id:
        check_digest("an unpacked layer", layer.diff_id, unpacked.hash.hexdigest())
