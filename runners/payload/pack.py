"""Pack folders as an image: `python3 pack.py --output FILE FOLDER[:PREFIX]...` prints its digest.

Writes an OCI archive, a layer for each folder. The same folders give the same bytes, and so the
same digest: names are sorted, owners are root, times are fixed. Layers are not compressed, since
they are read where they are written. The archive is also a docker-archive, which Docker loads.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import sys
import tarfile
from typing import Any, BinaryIO, Dict, Iterable, List, Mapping, NamedTuple, Sequence

EPOCH = 1767225600  # 2026-01-01
CHUNK = 1 << 20  # bytes
LAYER = "application/vnd.oci.image.layer.v1.tar"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Source(NamedTuple):
    """A folder, and its path inside the image ('' for the root).

    Bytecode may record the time of its source; then sources must keep theirs.
    """

    folder: str
    prefix: str = ""
    sources_keep_times: bool = False


class Writer:
    """An OCI archive that is being written: first its blobs, then `finish`."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        for name in ("blobs", "blobs/sha256"):
            file.write(make_folder_entry(name).tobuf(tarfile.USTAR_FORMAT))

    def add_layer(self, source: Source) -> Dict[str, Any]:
        """Write a folder as a layer and return its descriptor."""
        header_at = self.file.tell()
        # The blob's name is its hash, which is known only after writing it.
        self.file.write(bytes(tarfile.BLOCKSIZE))
        blob = Hashing(self.file)
        with tarfile.open(fileobj=blob, mode="w|", format=tarfile.PAX_FORMAT) as layer:
            leading = ""
            for part in source.prefix.split("/") if source.prefix else []:
                leading = leading + "/" + part if leading else part
                layer.addfile(make_folder_entry(leading))
            add_folder(layer, source.folder, source.prefix, source.sources_keep_times)
        self.pad(blob.size)
        end = self.file.tell()
        digest = blob.hash.hexdigest()
        self.file.seek(header_at)
        self.file.write(make_header("blobs/sha256/" + digest, blob.size))
        self.file.seek(end)
        return make_descriptor(LAYER, digest, blob.size)

    def add_blob(self, digest: str, size: int, stream: Any) -> None:
        """Write a blob whose sha256 (hex) and size are known; the caller checks them."""
        self.file.write(make_header("blobs/sha256/" + digest, size))
        while True:
            chunk = stream.read(CHUNK)
            if not chunk:
                break
            self.file.write(chunk)
        self.pad(size)

    def add_bytes(self, media_type: str, content: bytes) -> Dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        self.add_blob(digest, len(content), io.BytesIO(content))
        return make_descriptor(media_type, digest, len(content))

    def finish(self, manifest: bytes, config: bytes, reference: str = "") -> str:
        """Write manifest, configuration and index after all layers; return "sha256:..."."""
        document = json.loads(manifest.decode("utf-8"))
        self.add_bytes(CONFIG, config)
        entry = self.add_bytes(document.get("mediaType", MANIFEST), manifest)
        digest: str = entry["digest"]
        name = reference or "tare/%s:staged" % digest[7:23]
        entry["annotations"] = {"org.opencontainers.image.ref.name": name}
        blobs = (document["config"], *document["layers"])
        names = [make_blob_name(blob["digest"]) for blob in blobs]
        docker = [{"Config": names[0], "RepoTags": [name], "Layers": names[1:]}]
        self.add_file("index.json", encode_json({"schemaVersion": 2, "manifests": [entry]}))
        self.add_file("manifest.json", encode_json(docker))
        self.add_file("oci-layout", encode_json({"imageLayoutVersion": "1.0.0"}))
        self.file.write(bytes(2 * tarfile.BLOCKSIZE))
        return digest

    def add_file(self, name: str, content: bytes) -> None:
        self.file.write(make_header(name, len(content)) + content)
        self.pad(len(content))

    def pad(self, size: int) -> None:
        self.file.write(bytes(-size % tarfile.BLOCKSIZE))


def write(
    file: BinaryIO,
    sources: Iterable[Source],
    config: Mapping[str, Any],
    labels: Mapping[str, str],
    reference: str = "",
) -> str:
    """Write the archive, a layer for each folder; return the manifest's digest, "sha256:..."."""
    writer = Writer(file)
    layers: List[Dict[str, Any]] = [writer.add_layer(source) for source in sources]
    image = encode_json(
        {
            "architecture": ARCHITECTURES[os.uname().machine],
            "os": "linux",
            "created": "2026-01-01T00:00:00Z",
            "config": dict(config, Labels=dict(labels)),
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
        }
    )
    config_entry = make_descriptor(CONFIG, hashlib.sha256(image).hexdigest(), len(image))
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config_entry, "layers": layers}
    return writer.finish(encode_json(manifest), image, reference)


class Hashing(io.RawIOBase):
    """A writer to another file that keeps the length and the sha256 of what it wrote."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.size, self.hash = file, 0, hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.hash.update(data)
        self.size += len(data)
        return self.file.write(data)


def add_folder(layer: tarfile.TarFile, folder: str, prefix: str, keep_times: bool) -> None:
    with os.scandir(folder) as listing:
        entries = sorted(listing, key=lambda entry: entry.name)
    for entry in entries:
        name = prefix + "/" + entry.name if prefix else entry.name
        info = layer.gettarinfo(entry.path, name)
        if info is None or not (info.isreg() or info.isdir() or info.issym() or info.islnk()):
            continue  # sockets and devices: the runtime brings its own
        if info.islnk():  # hard links into a cache mean nothing elsewhere
            info.type, info.linkname = tarfile.REGTYPE, ""
            info.size = entry.stat(follow_symlinks=False).st_size
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
            add_folder(layer, entry.path, name, keep_times)


def make_folder_entry(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.mtime = tarfile.DIRTYPE, 0o755, EPOCH
    return info


def make_header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mtime = size, EPOCH
    # Blobs of 8 GiB and more need GNU's way to write a size.
    return info.tobuf(tarfile.USTAR_FORMAT if size < 1 << 33 else tarfile.GNU_FORMAT)


def make_descriptor(media_type: str, digest: str, size: int) -> Dict[str, Any]:
    return {"mediaType": media_type, "digest": "sha256:" + digest, "size": size}


def make_blob_name(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/")


def encode_json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", metavar="FOLDER[:PREFIX]")
    parser.add_argument("--output", required=True, metavar="FILE.tar")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--variable", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args(arguments)
    sources = []
    for text in options.folders:
        folder, _, prefix = text.partition(":")
        sources.append(Source(folder, prefix.strip("/")))
    labels = dict(label.partition("=")[::2] for label in options.label)
    with open(options.output + ".part", "wb") as file:
        digest = write(file, sources, {"Env": options.variable, "Cmd": ["/bin/sh"]}, labels)
    os.replace(options.output + ".part", options.output)
    print(digest)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
