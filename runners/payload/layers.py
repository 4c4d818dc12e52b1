"""Image archives, read as a stream: OCI archives, docker-archives, plain root file systems.

Every content with a digest is checked against it. Nothing is written to a disk. `Tree` merges the
layers: with whiteouts, opaque folders, hard links and links to folders.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import lzma
import os
import shutil
import subprocess
import tarfile
import threading
import zlib
from typing import IO, Any, BinaryIO, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

CHUNK = 1 << 20  # bytes
JSON_LIMIT = 16 << 20  # bytes of one manifest or configuration
JSON_DEPTH = 64  # lists and objects inside one another
NAME_LIMIT = 4096  # bytes of one path
HEADER_LIMIT = 1 << 20  # bytes of a header that describes one path
DESCRIBING = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
MEMBER_LIMIT = 5_000_000  # names in one image
UNPACKED_LIMIT = 1 << 38  # bytes of one image: 256 GiB
RATIO_LIMIT = 250  # unpacked bytes for each packed one, once they are more than RATIO_FROM
RATIO_FROM = 1 << 30
LINKS_LIMIT = 40  # links to follow to resolve one path
INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)


class BadImage(Exception):
    """An error for a file that is not the image that it should be; people read the message."""


class Blob(NamedTuple):
    """A slice of the archive's file, and the sha256 (hex) that it must have; "" if not known."""

    offset: int
    size: int
    sha256: str


class Layer(NamedTuple):
    """One layer of an image: its bytes in the archive, and the digest of its content."""

    blob: Blob
    diff_id: str  # the sha256 (hex) of the layer unpacked; "" if not known


class Manifest(NamedTuple):
    """One image of an archive. `digest` is the manifest's, "sha256:...", or "" without one."""

    digest: str
    content: Dict[str, Any]
    config: Dict[str, Any]
    config_blob: Blob
    layers: List[Layer]


class Member(tarfile.TarInfo):
    """A member of a tar archive. Its headers are read at once, so they must be small."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in DESCRIBING and self.size > HEADER_LIMIT:
            raise BadImage("The archive describes a name in %d bytes." % self.size)
        try:
            return super()._proc_member(archive)  # type: ignore[misc,no-any-return]
        except (ValueError, ArithmeticError, LookupError, RecursionError) as error:
            # Numbers without digits, holes without offsets, headers about headers about headers.
            raise BadImage("The archive has a damaged header: %.200r" % error) from None


class Archive:
    """A tar archive that holds an image. Raises BadImage."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.members: Dict[str, Blob] = {}
        links: Dict[str, str] = {}
        end = file.seek(0, os.SEEK_END)
        file.seek(0)
        try:
            with tarfile.open(fileobj=file, mode="r:", tarinfo=Member) as tar:
                for member in tar:
                    name = clean_name(member.name)
                    if len(self.members) >= MEMBER_LIMIT:
                        raise BadImage("The archive has more than %d names." % MEMBER_LIMIT)
                    if member.isreg():
                        if member.issparse():
                            raise BadImage("The archive holds %s with holes in it." % name)
                        self.members[name] = Blob(member.offset_data, member.size, "")
                        if member.offset_data + member.size > end:
                            raise BadImage("The archive is cut off: %s is not whole." % name)
                    elif member.issym():  # so older docker-archives name a layer twice
                        target = os.path.join(os.path.dirname(name), member.linkname)
                        links[name] = os.path.normpath(target)
        except (tarfile.TarError, EOFError, OSError) as error:
            raise BadImage("The archive is cut off or damaged: %s" % error) from None
        for name, target in links.items():
            if target in self.members:
                self.members[name] = self.members[target]

    def read_json(self, name: str, digest: str = "") -> Any:
        return parse_json(self.read(name, digest), "%s in the archive" % name)

    def read(self, name: str, digest: str = "") -> bytes:
        """Return the content of a small file, checked against its digest if there is one."""
        blob = self.members.get(name)
        if blob is None:
            raise BadImage("The archive lacks %s." % name)
        if blob.size > JSON_LIMIT:
            raise BadImage("%s in the archive is too large to be what it should be." % name)
        self.file.seek(blob.offset)
        content = self.file.read(blob.size)
        check_digest(name, digest, hashlib.sha256(content).hexdigest())
        return content

    def blob(self, digest: str) -> Blob:
        """Return the slice that a descriptor names by its digest."""
        value = parse_digest(digest)
        blob = self.members.get("blobs/sha256/" + value)
        if blob is None:
            raise BadImage("The archive lacks the blob %s." % digest)
        return blob._replace(sha256=value)

    def read_manifest(self, architecture: str = "amd64", system: str = "linux") -> Manifest:
        """Return the image for a platform, from the OCI layout if there is one."""
        with explain_bad_manifest():
            if "index.json" in self.members:
                return self.read_oci(architecture, system)
            if "manifest.json" in self.members:
                return self.read_docker(architecture, system)
        raise BadImage("The archive holds neither index.json (OCI) nor manifest.json (docker).")

    def read_oci(self, architecture: str, system: str) -> Manifest:
        digest, content = "", self.read_json("index.json")
        for _ in range(4):  # an index may name another index
            if "manifests" not in content:
                break
            digest = choose_manifest(content["manifests"], architecture, system)
            content = self.read_json("blobs/sha256/" + self.blob(digest).sha256, digest)
        if "layers" not in content:
            raise BadImage("The archive's index leads to no image.")
        config_blob = self.blob(content["config"]["digest"])
        config = self.read_json("blobs/sha256/" + config_blob.sha256, config_blob.sha256)
        diff_ids = config.get("rootfs", {}).get("diff_ids", [])
        if len(diff_ids) != len(content["layers"]):
            raise BadImage("The image's configuration and manifest name different layers.")
        layers = []
        for descriptor, diff_id in zip(content["layers"], diff_ids):
            blob = self.blob(descriptor["digest"])
            if blob.size != descriptor["size"]:
                sizes = (blob.size, descriptor["size"])
                raise BadImage(
                    "The blob %s has %d bytes instead of %d." % (descriptor["digest"], *sizes)
                )
            layers.append(Layer(blob, diff_id.partition(":")[2]))
        check_platform(config, architecture, system)
        return Manifest(digest, content, config, config_blob, layers)

    def read_docker(self, architecture: str, system: str) -> Manifest:
        images = self.read_json("manifest.json")
        if len(images) != 1:
            raise BadImage("The archive holds %d images: save one at a time." % len(images))
        name = clean_name(images[0]["Config"])
        content = self.read(name)
        config = parse_json(content, "%s in the archive" % name)
        digest = hashlib.sha256(content).hexdigest()
        digest_in_name = os.path.basename(name).partition(".")[0]
        if len(digest_in_name) == 64:
            check_digest(name, digest_in_name, digest)
        diff_ids = [diff_id.partition(":")[2] for diff_id in config["rootfs"]["diff_ids"]]
        names = [clean_name(layer) for layer in images[0]["Layers"]]
        missing = [layer for layer in names if layer not in self.members]
        if missing or len(names) != len(diff_ids):
            raise BadImage("The archive lacks the layer %s." % (missing or ["of a diff_id"])[0])
        layers = [Layer(self.members[layer], diff_id) for layer, diff_id in zip(names, diff_ids)]
        check_platform(config, architecture, system)
        blob = self.members[name]._replace(sha256=digest)
        return Manifest("", images[0], config, blob, layers)


def parse_json(content: bytes, name: str) -> Any:
    """Return the value of a JSON document. Raises BadImage, which calls the document `name`."""
    try:
        document = json.loads(content.decode("utf-8"), parse_constant=reject_constant)
        level, depth = [document], 0
        while level:  # writing it again must not exceed the recursion limit either
            depth += 1
            if depth > JSON_DEPTH:
                raise RecursionError
            level = [child for value in level for child in nested_values(value)]
    except RecursionError:
        raise BadImage("%s is nested too deeply." % name) from None
    except ValueError:
        raise BadImage("%s is no JSON." % name) from None
    return document


def reject_constant(name: str) -> Any:
    raise ValueError("JSON has no %s" % name)


def nested_values(value: Any) -> List[Any]:
    """Return the lists and objects that a value of a JSON document holds directly."""
    items = value.values() if isinstance(value, dict) else value
    if not isinstance(value, (dict, list)):
        return []
    return [item for item in items if isinstance(item, (dict, list))]


def parse_digest(digest: Any) -> str:
    """Return the hex digits of "sha256:...". Raises BadImage for anything else."""
    algorithm, _, value = str(digest).partition(":")
    if algorithm != "sha256" or len(value) != 64 or set(value) - set("0123456789abcdef"):
        raise BadImage("%.100r is no sha256 digest." % (digest,))
    return value


def parse_size(descriptor: Dict[str, Any]) -> int:
    """Return the size in bytes that a descriptor promises. Raises BadImage for an absurd one."""
    size = descriptor["size"]
    if type(size) is not int or not 0 <= size <= UNPACKED_LIMIT:
        raise BadImage("%.100r is no size of a blob." % (size,))
    return size


def choose_manifest(manifests: List[Dict[str, Any]], architecture: str, system: str) -> str:
    """Return the digest of the entry for this platform. Entries without platform fit any."""
    images = [
        manifest
        for manifest in manifests
        if manifest.get("annotations", {}).get("vnd.docker.reference.type")
        != "attestation-manifest"
    ]
    platforms = []
    for image in images:
        platform = image.get("platform") or {}
        names = (platform.get("os", system), platform.get("architecture", architecture))
        platforms.append("/".join(names))
    requested = system + "/" + architecture
    fitting = [image for image, platform in zip(images, platforms) if platform == requested]
    if not fitting:
        others = ", ".join(sorted(set(platforms))) or "nothing"
        raise BadImage("There is no image for %s/%s, only for %s." % (system, architecture, others))
    if len({image["digest"] for image in fitting}) > 1:
        raise BadImage("The archive holds %d images: save one at a time." % len(fitting))
    return str(fitting[0]["digest"])


def check_platform(config: Dict[str, Any], architecture: str, system: str) -> None:
    platform = (config.get("os", system), config.get("architecture", architecture))
    if platform != (system, architecture):
        raise BadImage("The image is for %s/%s, not for %s/%s." % (*platform, system, architecture))


def check_digest(name: str, expected: str, actual: str) -> None:
    expected = expected.rpartition(":")[2]
    if expected and expected != actual:
        raise BadImage("The digest of %s is sha256:%s, not sha256:%s." % (name, actual, expected))


@contextlib.contextmanager
def explain_bad_manifest() -> Iterator[None]:
    """Raise BadImage, which explains it, where JSON does not have the shape of a manifest."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise BadImage("The archive's manifest is not understood (%.200r)." % error) from None


def clean_name(name: str) -> str:
    """Return a member's path below the root, 'usr/bin/env'. Raises BadImage if it leads out."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name or len(name) > NAME_LIMIT:
        raise BadImage("The archive holds an unsafe name: %r." % name[:200])
    return "/".join(parts)


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
            raise BadImage("A layer cannot be unpacked: %s" % error) from None
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
        with lzma.LZMAFile(stream) as xz:
            yield xz  # type: ignore[misc]
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
        sink, failed = process.stdin, []  # type: Tuple[Any, List[BaseException]]

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


class Node:
    """A name in the tree. Folders have `children`; `value` is up to the caller."""

    __slots__ = ("children", "layer", "link", "value")

    def __init__(self, layer: int, value: Any, link: Optional[str] = None) -> None:
        self.layer, self.value, self.link = layer, value, link
        self.children: Optional[Dict[str, "Node"]] = None

    @classmethod
    def folder(cls, layer: int, value: Any) -> "Node":
        node = cls(layer, value)
        node.children = {}
        return node


class Tree:
    """The merged layers. `default` is the value of folders that no layer mentions."""

    def __init__(self, default: Any = None) -> None:
        self.default, self.layer = default, 0
        self.root = Node.folder(0, default)

    def put(self, path: str, node: Node) -> None:
        """Add a file, a link (`node.link`) or a folder of the present layer."""
        parent, name = self.resolve_parent(path)
        if parent is None:
            return  # the root itself
        old = parent.get(name)
        if node.children is not None and old is not None and old.children is not None:
            old.value, old.layer = node.value, node.layer
        else:
            parent[name] = node

    def apply_whiteout(self, path: str) -> bool:
        """Hide names of lower layers if this is a whiteout; return whether it is one."""
        parent, name = self.resolve_parent(path)
        if parent is None or not name.startswith(".wh."):
            return False
        if name == ".wh..wh..opq":
            self.prune(parent)
        elif name[4:] in parent and self.is_below(parent[name[4:]]):
            del parent[name[4:]]
        return True

    def is_below(self, node: Node) -> bool:
        """Return whether a node is of lower layers alone.

        Of a folder, what lower layers put there is removed.
        """
        if node.children is not None:
            self.prune(node.children)
            return node.layer < self.layer and not node.children
        return node.layer < self.layer

    def prune(self, children: Dict[str, Node]) -> None:
        for name in [name for name, node in children.items() if self.is_below(node)]:
            del children[name]

    def find(self, path: str) -> Optional[Node]:
        """Return the node that a hard link points to."""
        parent, name = self.resolve_parent(path)
        return parent.get(name) if parent is not None else None

    def resolve_parent(self, path: str) -> Tuple[Optional[Dict[str, Node]], str]:
        """Return the names in the folder that holds a path, and its own name in there.

        Links are followed inside the tree. None for the root.
        """
        remaining = [part for part in path.split("/") if part][::-1]
        if not remaining:
            return None, ""
        trail, followed = [self.root], 0
        while len(remaining) > 1:
            part = remaining.pop()
            if part == "..":
                trail = trail[:-1] or [self.root]
                continue
            children = trail[-1].children
            assert children is not None
            node = children.get(part)
            if node is not None and node.link is not None:
                followed += 1
                if followed > LINKS_LIMIT:
                    raise BadImage("The links on the way to %r go round in circles." % path)
                if node.link.startswith("/"):
                    trail = [self.root]
                target = [part for part in node.link.split("/") if part not in ("", ".")]
                remaining += target[::-1]
                continue
            if node is None or node.children is None:
                node = Node.folder(self.layer, self.default)
                children[part] = node
            trail.append(node)
        assert trail[-1].children is not None
        return trail[-1].children, remaining[0]

    def walk(self) -> Iterator[Tuple[str, Node]]:
        """Yield every path below the root with its node, folders before what they hold."""
        waiting = [("", self.root)]
        while waiting:
            path, node = waiting.pop()
            for name, child in sorted((node.children or {}).items(), reverse=True):
                below = path + "/" + name if path else name
                yield below, child
                if child.children is not None:
                    waiting.append((below, child))
