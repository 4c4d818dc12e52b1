"""What travels to the cluster: the same few files for every environment.

They start on Python 3.8 with the standard library alone. This file stays at home.
"""

from __future__ import annotations

import hashlib
from pathlib import Path


def payload_files() -> dict[str, bytes]:
    """Name, with its folder if it is in one, and content of each file that is sent."""
    here = Path(__file__)
    return {
        path.relative_to(here.parent).as_posix(): path.read_bytes()
        for path in sorted(here.parent.rglob("*.py"))
        if path != here
    }


def payload_hash() -> str:
    """One sha256 (hex) over all names and contents."""
    digest = hashlib.sha256()
    for name, content in sorted(payload_files().items()):
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()
