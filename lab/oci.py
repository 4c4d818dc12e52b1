"""Writes an OCI image archive from folders: a registry's format without a registry.

The same folders give the same bytes, and so the same digest: names are sorted, owners are root,
times are fixed. Layers are not compressed: they are read once, on this machine.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

EPOCH = 1767225600  # 2026-01-01
LAYER = "application/vnd.oci.image.layer.v1.tar"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@dataclass(frozen=True)
class Tree:
    """A folder, and where it is found inside the image ('' for the root).

    Bytecode may record its source's time; where it does, sources must keep theirs.
    """

    folder: Path
    prefix: str = ""
    sources_keep_times: bool = False


def write(
    path: Path,
    trees: Sequence[Tree],
    reference: str,
    config: Mapping[str, Any],
    labels: Mapping[str, str],
) -> str:
    """Writes the archive; returns the manifest's digest, 'sha256:...'."""
    with path.open("wb") as file:
        for name in ("blobs", "blobs/sha256"):
            file.write(folder_entry(name).tobuf(tarfile.USTAR_FORMAT))
        layers = [add_layer(file, tree) for tree in trees]
        image = add_json(
            file,
            {
                "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine],
                "os": "linux",
                "created": "2026-01-01T00:00:00Z",
                "config": {**config, "Labels": dict(labels)},
                "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
            },
            CONFIG,
        )
        manifest = add_json(
            file,
            {"schemaVersion": 2, "mediaType": MANIFEST, "config": image, "layers": layers},
            MANIFEST,
        )
        annotations = {"org.opencontainers.image.ref.name": reference}
        index = {"schemaVersion": 2, "manifests": [{**manifest, "annotations": annotations}]}
        add_file(file, "index.json", as_bytes(index))
        add_file(file, "oci-layout", as_bytes({"imageLayoutVersion": "1.0.0"}))
        file.write(bytes(2 * tarfile.BLOCKSIZE))
    digest: str = manifest["digest"]
    return digest


class Hashing(io.RawIOBase):
    """Passes on what is written, and keeps its length and its sha256."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.size, self.hash = file, 0, hashlib.sha256()

    def write(self, data: Any) -> int:
        self.hash.update(data)
        self.size += len(data)
        return self.file.write(data)


def add_layer(file: BinaryIO, tree: Tree) -> dict[str, Any]:
    header_at = file.tell()
    file.write(
        bytes(tarfile.BLOCKSIZE)
    )  # the blob's name is its hash, known only when it is written
    blob = Hashing(file)
    with tarfile.open(fileobj=blob, mode="w|", format=tarfile.PAX_FORMAT) as layer:
        parents = [str(parent) for parent in Path(tree.prefix).parents if tree.prefix]
        for name in [*reversed(parents[:-1]), *([tree.prefix] if tree.prefix else [])]:
            layer.addfile(folder_entry(name))
        add_folder(layer, tree.folder, tree.prefix, tree.sources_keep_times)
    file.write(bytes(-blob.size % tarfile.BLOCKSIZE))
    end = file.tell()
    digest = blob.hash.hexdigest()
    file.seek(header_at)
    file.write(header(f"blobs/sha256/{digest}", blob.size))
    file.seek(end)
    return {"mediaType": LAYER, "digest": f"sha256:{digest}", "size": blob.size}


def add_folder(layer: tarfile.TarFile, folder: Path, prefix: str, keep_times: bool) -> None:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        name = f"{prefix}/{entry.name}" if prefix else entry.name
        info = layer.gettarinfo(entry.path, name)
        if info is None or not (info.isreg() or info.isdir() or info.issym() or info.islnk()):
            continue  # sockets and devices: the runtime brings its own
        if info.islnk():  # hard links into a cache mean nothing elsewhere
            info.type, info.size, info.linkname = tarfile.REGTYPE, entry.stat().st_size, ""
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mode &= 0o755 if info.isreg() else 0o1777
        info.mtime = int(info.mtime) if keep_times and name.endswith(".py") else EPOCH
        if info.isreg():
            with open(entry.path, "rb") as content:
                layer.addfile(info, content)
        else:
            layer.addfile(info)
        if info.isdir():
            add_folder(layer, Path(entry.path), name, keep_times)


def folder_entry(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.mtime = tarfile.DIRTYPE, 0o755, EPOCH
    return info


def add_json(file: BinaryIO, value: Mapping[str, Any], media_type: str) -> dict[str, Any]:
    content = as_bytes(value)
    digest = hashlib.sha256(content).hexdigest()
    add_file(file, f"blobs/sha256/{digest}", content)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def as_bytes(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def add_file(file: BinaryIO, name: str, content: bytes) -> None:
    file.write(header(name, len(content)) + content + bytes(-len(content) % tarfile.BLOCKSIZE))


def header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mtime = size, EPOCH
    return info.tobuf(tarfile.USTAR_FORMAT)
