"""Channels of conda in a folder, with packages by the format's specification."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rattler.index import index_fs

PLACEHOLDER = "/placeholder/of/a/prefix/that/is/long/enough"
"""What stands in files for the folder in which they are installed."""


def write_package(
    channel: Path,
    name: str,
    version: str,
    files: Mapping[str, bytes],
    *,
    subdir: str = "noarch",
    depends: Sequence[str] = (),
    entry_points: Sequence[str] = (),
) -> Path:
    """Write a package of build 0 into a channel; programs are what lies in bin/.

    With `entry_points` it is a Python package, whose files begin with site-packages/.
    """
    folder = channel / subdir
    folder.mkdir(parents=True, exist_ok=True)
    index: dict[str, Any] = {
        "name": name,
        "version": version,
        "build": "0",
        "build_number": 0,
        "depends": list(depends),
        "subdir": subdir,
        "timestamp": 1_700_000_000_000,
    }
    paths = [describe_path(path, content) for path, content in files.items()]
    members = dict(files)
    if entry_points:
        index["noarch"] = "python"
        link = {"noarch": {"type": "python", "entry_points": list(entry_points)}}
        members["info/link.json"] = encode({**link, "package_metadata_version": 1})
    members["info/index.json"] = encode(index)
    members["info/paths.json"] = encode({"paths": paths, "paths_version": 1})
    members["info/files"] = "\n".join(files).encode()
    path = folder / f"{name}-{version}-0.tar.bz2"
    with tarfile.open(path, "w:bz2") as tar:
        for member, content in members.items():
            about = tarfile.TarInfo(member)
            about.size, about.mtime = len(content), 1_700_000_000
            about.mode = 0o755 if member.startswith("bin/") else 0o644
            tar.addfile(about, io.BytesIO(content))
    return path


def describe_path(path: str, content: bytes) -> dict[str, Any]:
    """Return what a package says of one of its files."""
    sha256 = hashlib.sha256(content).hexdigest()
    row = {"_path": path, "path_type": "hardlink", "sha256": sha256, "size_in_bytes": len(content)}
    if PLACEHOLDER.encode() in content:
        row.update(prefix_placeholder=PLACEHOLDER, file_mode="text")
    return row


def encode(value: Any) -> bytes:
    return json.dumps(value).encode()


def write_index(channel: Path) -> None:
    """Write the lists of packages by which programs find them in a channel."""
    (channel / "noarch").mkdir(parents=True, exist_ok=True)

    async def index() -> None:
        await index_fs(channel)

    # In a thread of its own: tests with a browser leave a loop of events in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, index()).result()
