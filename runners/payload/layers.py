"""Image archives, read as a stream: OCI archives, docker-archives, plain root file systems.

Everything that has a digest is held to it. Nothing is written to a disk. `Tree` is what the layers
become one over the other: whiteouts, opaque folders, hard links and links to folders included.
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
HEADER_LIMIT = 1 << 20  # bytes of what describes one path
DESCRIBING = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
MEMBER_LIMIT = 5_000_000  # names in one image
UNPACKED_LIMIT = 1 << 38  # bytes of one image: 256 GiB
RATIO_LIMIT = 250  # bytes that one may unpack to, once they are more than RATIO_FROM
RATIO_FROM = 1 << 30
LINKS_LIMIT = 40  # links to follow on the way to one path
INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)


class BadImage(Exception):
    """The file is not the image that it should be; the message says why, for a person."""


class Blob(NamedTuple):
    """A slice of the archive's file, and the sha256 (hex) that it must have; "" where none says."""

    offset: int
    size: int
    sha256: str


class Layer(NamedTuple):
    blob: Blob
    diff_id: str  # the sha256 (hex) of the layer unpacked; "" where none says


class Manifest(NamedTuple):
    """One image of an archive. `digest` is the manifest's, "sha256:...", "" where it has none."""

    digest: str
    content: Dict[str, Any]
    config: Dict[str, Any]
    config_blob: Blob
    layers: List[Layer]


class Member(tarfile.TarInfo):
    """A name in an archive. What describes it is read at once, so it must be small."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in DESCRIBING and self.size > HEADER_LIMIT:
            raise BadImage("The archive describes a name in %d bytes." % self.size)
        try:
            return super()._proc_member(archive)  # type: ignore[misc,no-any-return]
        except (ValueError, ArithmeticError, LookupError, RecursionError) as error:
            # Numbers that are none, holes without places, headers about headers about headers.
            raise BadImage("The archive has a damaged header: %.200r" % error) from None


class Archive:
    """A tar file with blobs in it. Raises BadImage."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.members: Dict[str, Blob] = {}
        links: Dict[str, str] = {}
        end = file.seek(0, os.SEEK_END)
        file.seek(0)
        try:
            with tarfile.open(fileobj=file, mode="r:", tarinfo=Member) as tar:
                for member in tar:
                    name = plain(member.name)
                    if len(self.members) >= MEMBER_LIMIT:
                        raise BadImage("The archive has more than %d names." % MEMBER_LIMIT)
                    if member.isreg():
                        if member.issparse():
                            raise BadImage("The archive holds %s with holes in it." % name)
                        self.members[name] = Blob(member.offset_data, member.size, "")
                        if member.offset_data + member.size > end:
                            raise BadImage("The archive is cut off: %s is not whole." % name)
                    elif member.issym():  # older docker-archives name a layer twice so
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
        """A small file, held to its digest if one is given."""
        blob = self.members.get(name)
        if blob is None:
            raise BadImage("The archive lacks %s." % name)
        if blob.size > JSON_LIMIT:
            raise BadImage("%s in the archive is too large to be what it should be." % name)
        self.file.seek(blob.offset)
        content = self.file.read(blob.size)
        check(name, digest, hashlib.sha256(content).hexdigest())
        return content

    def blob(self, digest: str) -> Blob:
        """The slice that a descriptor names by its digest."""
        value = hex_of(digest)
        blob = self.members.get("blobs/sha256/" + value)
        if blob is None:
            raise BadImage("The archive lacks the blob %s." % digest)
        return blob._replace(sha256=value)

    def manifest(self, architecture: str = "amd64", system: str = "linux") -> Manifest:
        """The image for a platform, from an OCI layout if there is one."""
        with as_bad_image():
            if "index.json" in self.members:
                return self.oci(architecture, system)
            if "manifest.json" in self.members:
                return self.docker(architecture, system)
        raise BadImage("The archive holds neither index.json (OCI) nor manifest.json (docker).")

    def oci(self, architecture: str, system: str) -> Manifest:
        digest, content = "", self.read_json("index.json")
        for _ in range(4):  # an index may name another index
            if "manifests" not in content:
                break
            digest = chosen(content["manifests"], architecture, system)
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
                wrong = (descriptor["digest"], blob.size, descriptor["size"])
                raise BadImage("The blob %s has %d bytes instead of %d." % wrong)
            layers.append(Layer(blob, diff_id.partition(":")[2]))
        check_platform(config, architecture, system)
        return Manifest(digest, content, config, config_blob, layers)

    def docker(self, architecture: str, system: str) -> Manifest:
        images = self.read_json("manifest.json")
        if len(images) != 1:
            raise BadImage("The archive holds %d images: save one at a time." % len(images))
        name = plain(images[0]["Config"])
        content = self.read(name)
        config = parse_json(content, "%s in the archive" % name)
        digest = hashlib.sha256(content).hexdigest()
        named = os.path.basename(name).partition(".")[0]
        if len(named) == 64:
            check(name, named, digest)
        diff_ids = [one.partition(":")[2] for one in config["rootfs"]["diff_ids"]]
        names = [plain(one) for one in images[0]["Layers"]]
        missing = [one for one in names if one not in self.members]
        if missing or len(names) != len(diff_ids):
            raise BadImage("The archive lacks the layer %s." % (missing or ["of a diff_id"])[0])
        layers = [Layer(self.members[one], diff_id) for one, diff_id in zip(names, diff_ids)]
        check_platform(config, architecture, system)
        blob = self.members[name]._replace(sha256=digest)
        return Manifest("", images[0], config, blob, layers)


def parse_json(content: bytes, name: str) -> Any:
    """Return what a document says. BadImage, which calls it by `name`, for what is no JSON."""
    try:
        found = json.loads(content.decode("utf-8"), parse_constant=no_number)
        waiting, depth = [found], 0
        while waiting:  # whoever writes it again must not run out of stack either
            depth += 1
            if depth > JSON_DEPTH:
                raise RecursionError
            waiting = [child for one in waiting for child in children_of(one)]
    except RecursionError:
        raise BadImage("%s is nested too deeply." % name) from None
    except ValueError:
        raise BadImage("%s is no JSON." % name) from None
    return found


def no_number(name: str) -> Any:
    raise ValueError("JSON has no %s" % name)


def children_of(value: Any) -> List[Any]:
    """The lists and objects that a value of a JSON document holds."""
    values = value.values() if isinstance(value, dict) else value
    if not isinstance(value, (dict, list)):
        return []
    return [one for one in values if isinstance(one, (dict, list))]


def hex_of(digest: Any) -> str:
    """The hex digits of "sha256:...". BadImage for anything else."""
    algorithm, _, value = str(digest).partition(":")
    if algorithm != "sha256" or len(value) != 64 or set(value) - set("0123456789abcdef"):
        raise BadImage("%.100r is no sha256 digest." % (digest,))
    return value


def size_of(descriptor: Dict[str, Any]) -> int:
    """The bytes that a descriptor promises. BadImage for what no image has."""
    size = descriptor["size"]
    if type(size) is not int or not 0 <= size <= UNPACKED_LIMIT:
        raise BadImage("%.100r is no size of a blob." % (size,))
    return size


def chosen(manifests: List[Dict[str, Any]], architecture: str, system: str) -> str:
    """The digest of the entry for this platform; one alone need not say its own."""
    real = [
        one
        for one in manifests
        if one.get("annotations", {}).get("vnd.docker.reference.type") != "attestation-manifest"
    ]
    platforms = []
    for one in real:
        platform = one.get("platform") or {}
        here = (platform.get("os", system), platform.get("architecture", architecture))
        platforms.append("/".join(here))
    fitting = [one for one, its in zip(real, platforms) if its == system + "/" + architecture]
    if not fitting:
        there = ", ".join(sorted(set(platforms))) or "nothing"
        raise BadImage("There is no image for %s/%s, only for %s." % (system, architecture, there))
    if len({one["digest"] for one in fitting}) > 1:
        raise BadImage("The archive holds %d images: save one at a time." % len(fitting))
    return str(fitting[0]["digest"])


def check_platform(config: Dict[str, Any], architecture: str, system: str) -> None:
    its = (config.get("os", system), config.get("architecture", architecture))
    if its != (system, architecture):
        raise BadImage("The image is for %s/%s, not for %s/%s." % (*its, system, architecture))


def check(name: str, expected: str, found: str) -> None:
    expected = expected.rpartition(":")[2]
    if expected and expected != found:
        raise BadImage("The digest of %s is sha256:%s, not sha256:%s." % (name, found, expected))


@contextlib.contextmanager
def as_bad_image() -> Iterator[None]:
    """Say in words that JSON has not the shape that it should have."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise BadImage("The archive's manifest is not understood (%.200r)." % error) from None


def plain(name: str) -> str:
    """A member's name below the root, 'usr/bin/env'. BadImage for one that leads elsewhere."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name or len(name) > NAME_LIMIT:
        raise BadImage("The archive holds an unsafe name: %r." % name[:200])
    return "/".join(parts)


class Stream(io.RawIOBase):
    """Part of a file, hashed as it is read; at its end it must have been what was promised."""

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
        """Read what is left; the sha256 (hex) of all."""
        while self.read(CHUNK):
            pass
        if self.blob.sha256:
            check("a blob", self.blob.sha256, self.hash.hexdigest())
        return self.hash.hexdigest()


class Unpacked(io.RawIOBase):
    """A layer without its compression, hashed and counted as it is read."""

    def __init__(self, source: BinaryIO, packed_size: int, kept: List[int]) -> None:
        self.source, self.packed_size, self.kept = source, packed_size, kept
        self.hash, self.size = hashlib.sha256(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self.source.read(len(buffer))
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise BadImage("A layer cannot be unpacked: %s" % error) from None
        self.hash.update(data)
        self.grow(len(data))
        buffer[: len(data)] = data
        return len(data)

    def grow(self, count: int) -> None:
        """Count what comes out, the holes of files too. BadImage once it is too much."""
        self.size += count
        self.kept[0] += count
        bomb = self.size > max(RATIO_FROM, RATIO_LIMIT * self.packed_size)
        if bomb or self.kept[0] > UNPACKED_LIMIT:
            raise BadImage(
                "The image unpacks to too much: %d bytes of %d and more to come."
                % (self.size, self.packed_size)
            )


@contextlib.contextmanager
def unpacked(stream: BinaryIO, magic: bytes) -> Iterator[BinaryIO]:
    """The bytes behind gzip, zstd, xz or no compression at all."""
    if magic.startswith(b"\x1f\x8b"):
        yield gzip.GzipFile(fileobj=stream, mode="rb")  # type: ignore[misc]
    elif magic.startswith(b"\x28\xb5\x2f\xfd"):
        with unzstd(stream) as found:
            yield found
    elif magic.startswith(b"\xfd7zXZ"):
        with lzma.LZMAFile(stream) as xz:
            yield xz  # type: ignore[misc]
    else:
        yield stream


@contextlib.contextmanager
def unzstd(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Python learns zstd in 3.14; until then its own program unpacks."""
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
            except BaseException as error:  # noqa: BLE001 - told by the thread that reads
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
    kept: Optional[List[int]] = None,
) -> None:
    """Hand each member of a layer, its name made plain, to `take`; check the layer's digests.

    `count` is told the bytes read; `kept` is one number that grows by those unpacked.
    """
    file.seek(layer.blob.offset)
    magic = file.read(8)
    stream = Stream(file, layer.blob, count)
    members = 0
    with unpacked(io.BufferedReader(stream, CHUNK), magic) as source:
        bare = Unpacked(source, layer.blob.size, [0] if kept is None else kept)
        buffered = io.BufferedReader(bare, CHUNK)
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
                        bare.grow(member.size)
                    content = tar.extractfile(member) if member.isreg() else None
                    take(plain(member.name), member, content)
                    tar.members = []  # type: ignore[attr-defined]  # it would remember each one
        except (tarfile.TarError, EOFError) as error:
            raise BadImage("A layer is no whole tar archive: %s" % error) from None
        while buffered.read(CHUNK):
            pass
    stream.finish()
    if layer.diff_id:
        check("an unpacked layer", layer.diff_id, bare.hash.hexdigest())


class Node:
    """A name in the tree. Folders have `children`; the rest is whatever the caller keeps."""

    __slots__ = ("children", "layer", "link", "value")

    def __init__(self, layer: int, value: Any, link: Optional[str] = None) -> None:
        self.layer, self.value, self.link = layer, value, link
        self.children: Optional[Dict[str, "Node"]] = None

    @classmethod
    def folder(cls, layer: int, value: Any) -> "Node":
        made = cls(layer, value)
        made.children = {}
        return made


class Tree:
    """Layers one over the other. `default` is the value of folders that no layer mentions."""

    def __init__(self, default: Any = None) -> None:
        self.default, self.layer = default, 0
        self.root = Node.folder(0, default)

    def put(self, path: str, node: Node) -> None:
        """A file, a link (`node.link`) or a folder of the present layer."""
        parent, name = self.parent(path)
        if parent is None:
            return  # the root itself
        old = parent.get(name)
        if node.children is not None and old is not None and old.children is not None:
            old.value, old.layer = node.value, node.layer
        else:
            parent[name] = node

    def whiteout(self, path: str) -> bool:
        """Whether this is the name of a whiteout; then it has hidden what lower layers had."""
        parent, name = self.parent(path)
        if parent is None or not name.startswith(".wh."):
            return False
        if name == ".wh..wh..opq":
            self.prune(parent)
        elif name[4:] in parent and self.is_below(parent[name[4:]]):
            del parent[name[4:]]
        return True

    def is_below(self, node: Node) -> bool:
        """Whether nothing of it is the present layer's, once all that is below has been taken."""
        if node.children is not None:
            self.prune(node.children)
            return node.layer < self.layer and not node.children
        return node.layer < self.layer

    def prune(self, children: Dict[str, Node]) -> None:
        for name in [name for name, node in children.items() if self.is_below(node)]:
            del children[name]

    def find(self, path: str) -> Optional[Node]:
        """What a hard link points to."""
        parent, name = self.parent(path)
        return parent.get(name) if parent is not None else None

    def parent(self, path: str) -> Tuple[Optional[Dict[str, Node]], str]:
        """The folder that really holds this name: links on the way are followed inside the tree."""
        waiting = [part for part in path.split("/") if part][::-1]
        if not waiting:
            return None, ""
        trail, followed = [self.root], 0
        while len(waiting) > 1:
            part = waiting.pop()
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
                waiting += [one for one in node.link.split("/") if one not in ("", ".")][::-1]
                continue
            if node is None or node.children is None:
                node = Node.folder(self.layer, self.default)
                children[part] = node
            trail.append(node)
        assert trail[-1].children is not None
        return trail[-1].children, waiting[0]

    def walk(self) -> Iterator[Tuple[str, Node]]:
        """Every name below the root, folders before what they hold."""
        waiting = [("", self.root)]
        while waiting:
            path, node = waiting.pop()
            for name, child in sorted((node.children or {}).items(), reverse=True):
                below = path + "/" + name if path else name
                yield below, child
                if child.children is not None:
                    waiting.append((below, child))
