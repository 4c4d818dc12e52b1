"""OCI archives and docker-archives: which slice of the file holds which part of the image."""

from __future__ import annotations

import hashlib
import os
import tarfile
from typing import Any, BinaryIO, Dict, List, NamedTuple

from .manifests import (
    JSON_LIMIT,
    BadImage,
    check_digest,
    check_platform,
    choose_manifest,
    explain_bad_manifest,
    parse_digest,
    parse_json,
)

NAME_LIMIT = 4096  # bytes of one path
HEADER_LIMIT = 1 << 20  # bytes of a header that describes one path
MEMBER_LIMIT = 5_000_000  # names in one image
DESCRIBING = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)


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

    def find_blob(self, digest: str) -> Blob:
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
            content = self.read_json("blobs/sha256/" + self.find_blob(digest).sha256, digest)
        if "layers" not in content:
            raise BadImage("The archive's index leads to no image.")
        config_blob = self.find_blob(content["config"]["digest"])
        config = self.read_json("blobs/sha256/" + config_blob.sha256, config_blob.sha256)
        diff_ids = config.get("rootfs", {}).get("diff_ids", [])
        if len(diff_ids) != len(content["layers"]):
            raise BadImage("The image's configuration and manifest name different layers.")
        layers = []
        for descriptor, diff_id in zip(content["layers"], diff_ids):
            blob = self.find_blob(descriptor["digest"])
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


def clean_name(name: str) -> str:
    """Return a member's path below the root, 'usr/bin/env'. Raises BadImage if it leads out."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name or len(name) > NAME_LIMIT:
        raise BadImage("The archive holds an unsafe name: %r." % name[:200])
    return "/".join(parts)
