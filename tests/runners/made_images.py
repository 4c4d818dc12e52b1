"""Image archives of the tests' own making: whatever layers, and whatever is wrong with them."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.payload import pack


@dataclass(frozen=True)
class Member:
    """One name of a layer; a file unless it says otherwise."""

    name: str
    content: bytes = b""
    mode: int = 0o644
    link: str = ""  # a symbolic link
    same_as: str = ""  # a hard link
    folder: bool = False
    fifo: bool = False


def layer(*members: Member) -> bytes:
    """A tar archive, uncompressed."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member in members:
            info = tarfile.TarInfo(member.name)
            info.mode, info.size = member.mode, len(member.content)
            kinds = {
                tarfile.SYMTYPE: member.link,
                tarfile.LNKTYPE: member.same_as,
                tarfile.DIRTYPE: member.folder,
                tarfile.FIFOTYPE: member.fifo,
            }
            info.type = next((kind for kind, is_it in kinds.items() if is_it), tarfile.REGTYPE)
            info.linkname = member.link or member.same_as
            tar.addfile(info, io.BytesIO(member.content))
    return made.getvalue()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Image:
    """All blobs of an image, and its manifest."""

    manifest: bytes
    config: bytes
    blobs: tuple[bytes, ...]

    @property
    def digest(self) -> str:
        return f"sha256:{sha256(self.manifest)}"

    def write(self, path: Path, **changes: bytes) -> Path:
        """An OCI archive. `changes` replace the content of a blob: its name stays."""
        with path.open("wb") as file:
            writer = pack.Writer(file)
            for number, blob in enumerate(self.blobs):
                content = changes.get(f"blob{number}", blob)
                writer.add_blob(sha256(blob), len(content), io.BytesIO(content))
            writer.finish(self.manifest, self.config)
        return path


def image(
    *layers: bytes,
    pack_by: Callable[[bytes], bytes] = lambda content: gzip.compress(content, mtime=0),
    architecture: str = "amd64",
    docker: bool = False,
    **configuration: Any,
) -> Image:
    blobs = tuple(pack_by(content) for content in layers)
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": configuration,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(blob)}" for blob in layers]},
    }
    written = json.dumps(config).encode()
    oci, dockers = "application/vnd.oci.image", "application/vnd.docker"
    kinds = (
        (f"{dockers}.distribution.manifest.v2+json", f"{dockers}.container.image.v1+json")
        if docker
        else (f"{oci}.manifest.v1+json", f"{oci}.config.v1+json")
    )
    manifest = {
        "schemaVersion": 2,
        "mediaType": kinds[0],
        "config": pack.make_descriptor(kinds[1], sha256(written), len(written)),
        "layers": [
            pack.make_descriptor(f"{oci}.layer.v1.tar+gzip", sha256(blob), len(blob))
            for blob in blobs
        ],
    }
    return Image(json.dumps(manifest).encode(), written, blobs)


def docker_archive(path: Path, *layers: bytes, count: int = 1) -> Path:
    """What `docker save` wrote before it knew of OCI."""
    source = image(*layers, pack_by=bytes)
    names = [f"{sha256(blob)}/layer.tar" for blob in source.blobs]
    config = f"{sha256(source.config)}.json"
    about = {"Config": config, "RepoTags": ["x:latest"], "Layers": names}
    files = {config: source.config, **dict(zip(names, source.blobs, strict=True))}
    files["manifest.json"] = json.dumps([about] * count).encode()
    path.write_bytes(layer(*(Member(name, content) for name, content in files.items())))
    return path


def os_release(name: str = "Debian GNU/Linux 13 (trixie)") -> Sequence[Member]:
    text = f'PRETTY_NAME="{name}"\nID=debian\nVERSION_ID="13"\n'.encode()
    return (Member("usr", folder=True, mode=0o755), Member("etc/os-release", text))
