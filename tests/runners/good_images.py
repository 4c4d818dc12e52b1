"""Images that are whole, and how tests change single files of their archives."""

import io
import json
import subprocess
from pathlib import Path

from runners.payload import image_archive
from tests.runners.made_images import (
    Image,
    Member,
    image,
    layer,
    os_release,
)

BASE = layer(
    *os_release(),
    Member("bin", link="usr/bin"),
    Member("usr/bin/tool", b"one", 0o755),
    Member("usr/bin/gone", b"gone"),
    Member("opt/old/a", b"a"),
    Member("opt/old/b", b"b"),
    Member("opt/kept/a", b"a"),
)


def zstd(content: bytes) -> bytes:
    return subprocess.run(["zstd", "-cq"], input=content, stdout=subprocess.PIPE, check=True).stdout


def sif(architecture: bytes = b"02", size: int = 4096) -> bytes:
    """The head of a SIF file, as its specification says, and data behind it."""
    head = b"#!/usr/bin/env run-singularity\n".ljust(32, b"\0")
    head += b"SIF_MAGIC\0" + b"01\0" + architecture + b"\0" + bytes(16)
    head += b"".join(n.to_bytes(8, "little") for n in (0, 0, 46, 48, 4096, 26_000, 32_768, size))
    return head.ljust(32_768 + size, b"x")


def index(made: Image, *platforms: str) -> bytes:
    entries = []
    for platform in platforms:
        system, _, architecture = platform.partition("/")
        platform = {"os": system, "architecture": architecture}
        entries.append({"digest": made.digest, "size": 1, "platform": platform})
    return json.dumps({"schemaVersion": 2, "manifests": entries}).encode()


def with_file(content: bytes, name: str, new: bytes) -> bytes:
    """An archive whose file of this name is another."""
    made = io.BytesIO()
    archive = image_archive.Archive(io.BytesIO(content))
    members = []
    for member, blob in archive.members.items():
        old = content[blob.offset : blob.offset + blob.size]
        members.append(Member(member, new if member == name else old))
    made.write(layer(*members))
    return made.getvalue()


GOOD = image(BASE)


def written(tmp_path: Path, made: Image = GOOD, **changes: bytes) -> bytes:
    return made.write(tmp_path / "x.tar", **changes).read_bytes()
