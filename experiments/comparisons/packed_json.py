"""JSON, compressed quickly, and unpacked with a limit."""

from __future__ import annotations

import json
import zlib
from typing import Any

MOST_BYTES = 2**28
"""What one text may unpack to; a comparison of 20,000 runs has some megabytes."""


def pack_json(plain: Any) -> bytes:
    """Return plain values as compressed JSON."""
    return zlib.compress(json.dumps(plain, separators=(",", ":")).encode(), 1)


def unpack_json(packed: bytes) -> Any:
    """Return what `pack_json` has packed. ValueError or zlib.error for anything else."""
    unpacker = zlib.decompressobj()
    plain = unpacker.decompress(packed, MOST_BYTES)
    if not unpacker.eof:
        raise ValueError("it is too large")
    return json.loads(plain)
