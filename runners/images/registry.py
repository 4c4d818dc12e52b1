"""A client of OCI registries: resolve a reference to a digest, fetch the image as an OCI archive.

This is the small part of the OCI distribution specification that fetching needs
(docs/decisions/0086 says why it is not skopeo). Every byte is checked against its digest, so
neither the registry nor the network is trusted. The functions raise Refused and TryAgain, as
`registry_session` does.
"""

import contextlib
import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from runners.errors import Refused, TryAgain
from runners.images.references import Reference
from runners.images.registry_session import CHUNK, Access, Session, parse_object, read_chunks
from runners.payload import manifests, pack

ATTEMPTS = 4  # connections for one blob


@dataclass(frozen=True)
class Resolved:
    """The image for one platform that a reference means at this moment."""

    reference: Reference
    digest: str  # of the image's own manifest, by which it is identified
    manifest: bytes = field(repr=False)
    size: int = 0  # bytes of all blobs
    index_digest: str = ""  # of the list of platforms, if the reference named one


@dataclass(frozen=True)
class Descriptor:
    """A blob as a manifest lists it."""

    digest: str
    size: int


def resolve(
    reference: Reference, access: Access | None = None, *, architecture: str = "amd64"
) -> Resolved:
    """Ask the registry for a reference's image for Linux. Raises Refused, TryAgain."""
    session = Session(reference, access or Access())
    content = session.fetch_manifest(reference.tag_or_digest)
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    index_digest = ""
    if reference.digest and digest != reference.digest:
        raise Refused(
            f"{reference.host} answers with something else: its digest is {digest}, "
            f"not {reference.digest}."
        )
    with _refuse_bad_images(reference):
        document = parse_object(content)
        for _ in range(3):  # an index may name another index
            if "manifests" not in document:
                break
            index_digest = index_digest or digest
            digest = manifests.choose_manifest(document["manifests"], architecture, "linux")
            manifests.parse_digest(digest)
            content = session.fetch_manifest(digest)
            actual_digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
            manifests.check_digest("the manifest", digest, actual_digest.partition(":")[2])
            document = parse_object(content)
        if "layers" not in document or "config" not in document:
            raise manifests.BadImage(
                "the registry has it in a form from before 2016, or as something else than an "
                f"image (schemaVersion {document.get('schemaVersion')!r}, "
                f"{document.get('artifactType') or document.get('mediaType')!r})"
            )
        size = sum(manifests.parse_size(blob) for blob in (document["config"], *document["layers"]))
    return Resolved(reference, digest, content, size, index_digest)


def fetch(
    resolved: Resolved,
    target: Path,
    access: Access | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
    architecture: str = "amd64",
) -> str:
    """Download an image as an OCI archive and return its digest. Raises Refused, TryAgain.

    `progress` is called with the bytes received so far and the bytes in total. After TryAgain
    `TARGET.part` stays, and the next call continues it; `target` itself exists only once it is
    complete and every digest was right.
    """
    session = Session(resolved.reference, access or Access())
    partial = target.with_name(f"{target.name}.part")
    with _refuse_bad_images(resolved.reference):
        manifest = parse_object(resolved.manifest)
        blobs = {
            layer["digest"]: Descriptor(
                f"sha256:{manifests.parse_digest(layer['digest'])}", manifests.parse_size(layer)
            )
            for layer in manifest["layers"]
        }
        config = session.fetch_small_blob(manifest["config"]["digest"])
        manifests.check_platform(parse_object(config), architecture, "linux")
        partial.touch()
        with partial.open("r+b") as file:
            download = Download(session, cast(BinaryIO, file), resolved.size, progress)
            writer = download.begin()
            for layer in blobs.values():
                download.add_blob(layer)
            file.truncate()
            digest = writer.finish(resolved.manifest, config)
        partial.replace(target)
    return digest


class Download:
    """An archive being downloaded. It only grows at its end, so its length is its progress."""

    def __init__(
        self,
        session: Session,
        file: BinaryIO,
        size: int,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.session, self.file, self.size, self.progress = session, file, size, progress
        self.done = 0
        self.length = file.seek(0, io.SEEK_END)
        file.seek(0)

    def begin(self) -> pack.Writer:
        """Write the archive's beginning, which an earlier call may have left already."""
        length = self.length
        writer = pack.Writer(self.file)
        self.length = max(length, self.file.tell())
        return writer

    def add_blob(self, descriptor: Descriptor) -> None:
        """Skip the part of a blob that the file has already, and fetch the rest."""
        header = pack.make_header(f"blobs/sha256/{descriptor.digest[7:]}", descriptor.size)
        start = self.file.tell()
        if self.length < start + len(header) or self.file.read(len(header)) != header:
            self.truncate_at(start)
            self.file.write(header)
        digest, received = self.read_existing(descriptor.size)
        try:
            for attempt in range(ATTEMPTS):
                try:
                    received = self.receive_rest(descriptor, digest, received)
                    break
                except _Restart:
                    self.truncate_at(start + len(header))
                    digest, received = hashlib.sha256(), 0
                except TryAgain:
                    received = self.file.tell() - start - len(header)
                    if attempt == ATTEMPTS - 1:
                        raise
        finally:
            self.file.flush()
        if received != descriptor.size or digest.hexdigest() != descriptor.digest[7:]:
            self.truncate_at(start)
            raise manifests.BadImage(
                f"the digest of a layer that came is sha256:{digest.hexdigest()}, "
                f"not {descriptor.digest}"
            )
        self.file.write(bytes(-descriptor.size % tarfile.BLOCKSIZE))
        self.length = max(self.length, self.file.tell())

    def truncate_at(self, at: int) -> None:
        self.file.seek(at)
        self.file.truncate()
        self.length = at

    def read_existing(self, size: int) -> tuple[Any, int]:
        """Return the running hash and the length of the part of a blob that the file has."""
        digest, length = hashlib.sha256(), 0
        while length < size and (chunk := self.file.read(min(CHUNK, size - length))):
            digest.update(chunk)
            length += len(chunk)
            self.report_progress(len(chunk))
        return digest, length

    def receive_rest(self, descriptor: Descriptor, digest: Any, received: int) -> int:
        """Append the rest of a blob and return its length. Raises _Restart, BadImage, TryAgain."""
        if received == descriptor.size:
            return received
        with self.session.open_blob(descriptor.digest, received) as (answer, is_rest):
            if received and not is_rest:
                self.done -= received
                raise _Restart
            for chunk in read_chunks(self.session.host, answer):
                received += len(chunk)
                if received > descriptor.size:
                    raise manifests.BadImage(
                        f"the layer {descriptor.digest} is larger than it should be"
                    )
                self.file.write(chunk)
                digest.update(chunk)
                self.report_progress(len(chunk))
        if received < descriptor.size:
            raise TryAgain(f"{self.session.host} broke off.", kind="unreachable")
        return received

    def report_progress(self, count: int) -> None:
        self.done += count
        if self.progress:
            self.progress(self.done, self.size)


class _Restart(Exception):
    """The registry sends blobs from their beginning only: this one has to be fetched anew."""


@contextlib.contextmanager
def _refuse_bad_images(reference: Reference) -> Iterator[None]:
    """Turn errors in an image's content into Refused."""
    try:
        with manifests.explain_bad_manifest():
            yield
    except manifests.BadImage as error:
        message = str(error).rstrip(".")
        raise Refused(f"{reference} is refused: {message[:1].lower()}{message[1:]}.") from None
