"""Reads image files: their kind, their digest, and their contents.

They are read as a stream, in constant memory except for the names; nothing is unpacked to a disk.
`identify` is quick, `describe_image` reads everything and checks all digests. Both raise Refused.
"""

import contextlib
import hashlib
import os
import struct
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal

from runners.errors import Refused
from runners.payload import inventory, layers, pack, survey
from runners.payload.image_archive import Archive, Blob, Layer, Manifest, Member, clean_name
from runners.payload.manifests import BadImage, explain_bad_manifest
from runners.payload.merged_tree import Node, Tree

CHUNK = 1 << 20  # bytes
Kind = Literal["oci", "docker", "rootfs", "sif"]
Count = Callable[[int], None]  # called with the number of bytes that have been read since

COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ": "xz"}
OTHERS = (  # files that people send instead of an image
    (b"<", "a web page: the download was perhaps refused with an error or a log-in form"),
    (b"{", "JSON: perhaps a registry's answer instead of the image"),
    (b"hsqs", "a squashfs file, which says nothing of itself: send the archive that it came from"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x7fELF", "a program"),
    (b"BZh", "compressed by bzip2: unpack it first"),
    (b"#!", "a script"),
)
SIF_MAGIC = b"SIF_MAGIC\0"
SIF_ARCHITECTURES = {b"01": "386", b"02": "amd64", b"04": "arm64", b"06": "ppc64le", b"10": "s390x"}
SIF_HEADER = struct.Struct("<32s10s3s3s16sqqqqqqqq")


@dataclass(frozen=True)
class ImageDescription:
    """An image's digest and other facts, and a survey of its contents."""

    kind: Kind
    digest: str  # "sha256:...": of an OCI manifest, else of the file
    size: int  # bytes of the file
    architecture: str = ""
    variables: tuple[str, ...] = ()  # NAME=value, of the image's configuration
    labels: Mapping[str, str] = field(default_factory=dict)
    created: str = ""
    # As runners/payload/survey.py writes it. Empty for SIF files: their squashfs is not read here.
    survey: Mapping[str, Any] = field(default_factory=dict)


def identify(path: Path) -> Kind:
    """Return a file's kind by its first bytes and, for an archive, its names. Raises Refused."""
    with _refuse_bad_files(path), path.open("rb") as file:
        head = file.read(512)
        if not head:
            raise BadImage("it is empty")
        if SIF_MAGIC in head[:64]:
            _read_sif_architecture(file)
            return "sif"
        if any(head.startswith(magic) for magic in COMPRESSED):
            return _classify_names(_read_first_names(file))
        if head[257:262] != b"ustar":
            raise BadImage(_describe_other_file(head))
        archive = Archive(file)
        return _classify_names(archive.members)


def describe_image(
    path: Path, *, architecture: str = "amd64", count: Count | None = None
) -> ImageDescription:
    """Read the whole file, check its digests and describe it. Raises Refused.

    `count` is called with the bytes as they are read. docker-archives have no manifest, and so no
    digest that a registry would know: make an OCI archive of them first (`convert_to_oci`).
    """
    kind = identify(path)
    size = path.stat().st_size
    with _refuse_bad_files(path), path.open("rb") as file:
        if kind == "sif":
            sif_architecture = _read_sif_architecture(file)
            if sif_architecture != architecture:
                raise BadImage(f"it is for {sif_architecture}, not for {architecture}")
            return ImageDescription(kind, _compute_digest(file, count), size, sif_architecture)
        if kind == "rootfs":
            layer = Layer(Blob(0, size, ""), "")
            survey_result = _survey_layers(file, [layer], count)
            return ImageDescription(
                kind,
                _compute_digest(file, None),
                size,
                _read_architecture(survey_result),
                survey=survey_result,
            )
        manifest = Archive(file).read_manifest(architecture)
        with explain_bad_manifest():
            config = manifest.config.get("config") or {}
            variables = tuple(str(variable) for variable in config.get("Env") or ())
            labels = {str(k): str(v) for k, v in (config.get("Labels") or {}).items()}
        return ImageDescription(
            kind=kind,
            digest=manifest.digest,
            size=size,
            architecture=architecture,
            variables=variables,
            labels=labels,
            created=str(manifest.config.get("created") or ""),
            survey=_survey_layers(file, manifest.layers, count),
        )


def convert_to_oci(source: Path, target: Path, *, architecture: str = "amd64") -> str:
    """Write one image of an OCI or docker-archive as an OCI archive. Return its digest.

    An OCI image keeps its digest. Other images in the archive are left out, so that nobody chooses
    one of them. `target` exists only when it is complete. Raises Refused.
    """
    partial = target.with_name(f"{target.name}.part")
    try:
        with _refuse_bad_files(source), _open_uncompressed(source, partial) as file:
            archive = Archive(file)
            manifest = archive.read_manifest(architecture)
            with partial.open("wb") as target_file:
                digest = _write_oci_archive(file, archive, manifest, target_file)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return digest


def _write_oci_archive(
    file: BinaryIO,
    archive: Archive,
    manifest: Manifest,
    target_file: BinaryIO,
) -> str:
    file.seek(manifest.config_blob.offset)
    config = file.read(manifest.config_blob.size)
    writer = pack.Writer(target_file)
    layer_descriptors = []
    for layer in manifest.layers:
        blob = layer.blob
        if not blob.sha256:  # docker-archives have the digest of the unpacked layer only
            blob = blob._replace(sha256=layers.Stream(file, blob).finish())
        file.seek(blob.offset)
        layer_descriptors.append(
            {
                "mediaType": _find_layer_type(file.read(8)),
                "digest": f"sha256:{blob.sha256}",
                "size": blob.size,
            }
        )
        stream = layers.Stream(file, blob)
        writer.add_blob(blob.sha256, blob.size, stream)
        stream.finish()
    if manifest.digest:
        content = archive.read(f"blobs/sha256/{manifest.digest[7:]}", manifest.digest)
    else:
        config_descriptor = {
            "mediaType": pack.CONFIG,
            "digest": f"sha256:{manifest.config_blob.sha256}",
            "size": len(config),
        }
        content = pack.encode_json(
            {
                "schemaVersion": 2,
                "mediaType": pack.MANIFEST,
                "config": config_descriptor,
                "layers": layer_descriptors,
            }
        )
    return writer.finish(content, config)


def _find_layer_type(magic: bytes) -> str:
    compressions = [
        name for magic_bytes, name in COMPRESSED.items() if magic.startswith(magic_bytes)
    ]
    return f"{pack.LAYER}+{compressions[0]}" if compressions else pack.LAYER


def _survey_layers(
    file: BinaryIO, image_layers: list[Layer], count: Count | None
) -> dict[str, Any]:
    """Return the same survey as of a folder into which the layers are unpacked."""
    tree = Tree(survey.Entry(survey.FOLDER, 0o755, 0, ""))
    needed_contents: dict[str, bytes] = {}  # what facts need, by the sha256 of the content
    sizes: list[int] = [0]
    buffer = memoryview(bytearray(CHUNK))

    def add_member(path: str, member: tarfile.TarInfo, content: IO[bytes] | None) -> None:
        if tree.apply_whiteout(path):
            return
        if member.isdir():
            entry = survey.Entry(survey.FOLDER, member.mode, 0, "")
            tree.put(path, Node.make_folder(tree.layer, entry))
        elif member.issym():
            entry = survey.Entry(survey.LINK, 0, 0, member.linkname)
            tree.put(path, Node(tree.layer, entry, member.linkname))
        elif member.islnk():
            source = tree.find(clean_name(member.linkname))
            if source is None or source.children is not None:
                raise BadImage(f"{path!r} is a hard link to {member.linkname!r}, which is no file")
            tree.put(path, Node(tree.layer, source.value, source.link))
        elif content is not None:
            digest, size = hashlib.sha256(), 0
            content_bytes = bytearray() if inventory.needs_content(path, member.size) else None
            while length := content.readinto(buffer):  # type: ignore[attr-defined]
                digest.update(buffer[:length])
                size += length
                if content_bytes is not None:
                    content_bytes += buffer[:length]
            if content_bytes is not None:
                needed_contents[f"{path}\0{digest.hexdigest()}"] = inventory.reduce_content(
                    path, bytes(content_bytes)
                )
            entry = survey.Entry(survey.FILE, member.mode, size, digest.hexdigest())
            tree.put(path, Node(tree.layer, entry))
        elif tree.find(path):  # a device or a pipe: not surveyed, but it replaces what was there
            tree.put(path, Node(tree.layer, None))

    for number, layer in enumerate(image_layers, start=1):
        tree.layer = number
        layers.read_layer(file, layer, add_member, count, sizes)
    return _make_survey(tree, needed_contents)


def _make_survey(tree: Tree, needed_contents: Mapping[str, bytes]) -> dict[str, Any]:
    entries: dict[str, survey.Entry] = {}
    contents: dict[str, bytes] = {}
    exclusions: list[tuple[str, str]] = []
    unreadable: list[str] = []
    hidden: set[str] = set()  # folders into which no survey looks
    for path, node in tree.walk():
        entry = node.value
        if path.rpartition("/")[0] in hidden or entry is None:
            hidden.add(path)
        elif path in survey.EXCLUDED:
            exclusions.append((path, survey.EXCLUDED[path]))
            hidden.add(path)
        elif not survey.is_closed(entry.kind, entry.mode):
            entries[path] = entry
            if content := needed_contents.get(f"{path}\0{entry.content}"):
                contents[path] = content
        else:
            unreadable.append(path)
            hidden.add(path)
            if entry.kind == survey.FILE:
                entries[path] = entry._replace(content=survey.CLOSED)
    return survey.report(entries, contents, exclusions, unreadable)


def _read_sif_architecture(file: BinaryIO) -> str:
    """Return the architecture of a complete SIF file, as registries name it."""
    file.seek(0)
    head = file.read(SIF_HEADER.size)
    if len(head) < SIF_HEADER.size:
        raise BadImage("it is a SIF file that is cut off")
    fields = SIF_HEADER.unpack(head)
    magic, architecture = fields[1], fields[3].rstrip(b"\0")
    # Descriptors: free, total, offset, size; then the data's offset and size.
    data_end = fields[11] + fields[12]
    if magic != SIF_MAGIC or os.fstat(file.fileno()).st_size < data_end:
        raise BadImage("it is a SIF file that is cut off")
    return SIF_ARCHITECTURES.get(architecture, f"the unknown architecture {architecture!r}")


def _read_first_names(file: BinaryIO) -> list[str]:
    """Return the first names in a compressed archive."""
    file.seek(0)
    magic = file.read(8)
    file.seek(0)
    names: list[str] = []
    with layers.open_unpacked(file, magic) as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r|", tarinfo=Member) as tar:
                for member in tar:
                    names.append(clean_name(member.name))
                    if len(names) == 200:
                        break
        except (tarfile.TarError, OSError, EOFError) as error:
            raise BadImage(f"what is compressed is no tar archive, or cut off ({error})") from None
    return names


def _classify_names(names: Any) -> Kind:
    if "oci-layout" in names or "index.json" in names:
        return "oci"
    if "manifest.json" in names:
        return "docker"
    tops = {name.partition("/")[0] for name in names}
    if len(tops & {"bin", "etc", "lib", "usr", "opt", "sbin", "var"}) >= 2:
        return "rootfs"
    raise BadImage(
        "it is a tar archive with neither an image's manifest nor a root file system in it "
        f"(its first names: {', '.join(sorted(tops)[:5]) or 'none'})"
    )


def _describe_other_file(head: bytes) -> str:
    start = head.lstrip()
    for magic, description in OTHERS:
        if start.startswith(magic):
            return f"it is {description}"
    return "it is no image: neither a tar archive nor a SIF file"


@contextlib.contextmanager
def _open_uncompressed(source: Path, beside: Path) -> Iterator[BinaryIO]:
    """Yield the archive without compression, unpacked beside the target if necessary."""
    with source.open("rb") as file:
        magic = file.read(8)
        file.seek(0)
        if not any(magic.startswith(start) for start in COMPRESSED):
            yield file
            return
        unpacked = beside.with_name(f"{beside.name}.tar")
        try:
            with (
                layers.open_unpacked(file, magic) as stream,
                unpacked.open("w+b") as uncompressed_file,
            ):
                reader = layers.Unpacked(stream, source.stat().st_size, [0])
                while chunk := reader.read(CHUNK):
                    uncompressed_file.write(chunk)
                uncompressed_file.flush()
                yield uncompressed_file
        finally:
            unpacked.unlink(missing_ok=True)


@contextlib.contextmanager
def _refuse_bad_files(path: Path) -> Iterator[None]:
    """Turn errors in a file into Refused, with the file's name."""
    try:
        yield
    except BadImage as error:
        message = str(error).rstrip(".")
        raise Refused(f"{path.name} is refused: {message[:1].lower()}{message[1:]}.") from None
    except (EOFError, tarfile.TarError) as error:
        raise Refused(f"{path.name} is refused: it is cut off or damaged ({error}).") from None


def _compute_digest(file: BinaryIO, count: Count | None) -> str:
    file.seek(0)
    total = hashlib.sha256()
    while chunk := file.read(CHUNK):
        total.update(chunk)
        if count:
            count(len(chunk))
    return f"sha256:{total.hexdigest()}"


def _read_architecture(survey_result: Mapping[str, Any]) -> str:
    machine = str(survey_result["system"]["architecture"])
    return pack.ARCHITECTURES.get(machine, machine)
