"""The program that is sent to the cluster: the same few files for every environment.

They start on Python 3.8 with the standard library alone. This file itself is not sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType


@cache
def read_payload_files() -> Mapping[str, bytes]:
    """Return the content of each file that is sent, by its path below this folder."""
    this_file = Path(__file__)
    return MappingProxyType(
        {
            path.relative_to(this_file.parent).as_posix(): path.read_bytes()
            for path in sorted(this_file.parent.rglob("*"))
            if path.suffix in (".py", ".sh") and path != this_file
        }
    )


def hash_payload() -> str:
    """Return one sha256 (hex) of all names and contents."""
    digest = hashlib.sha256()
    for name, content in sorted(read_payload_files().items()):
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()
