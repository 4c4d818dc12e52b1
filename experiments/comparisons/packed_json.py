"""JSON, compressed quickly, and unpacked with a limit."""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import Any

MOST_BYTES = 2**28
"""What one text may unpack to; a comparison of 20,000 runs has some megabytes."""
DIGEST_BYTES = 32


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


def pack_summed(plain: Any, key: str) -> bytes:
    """Return plain values as compressed JSON, behind a check sum over it and a key."""
    packed = pack_json(plain)
    return _sum_up(packed, key) + packed


def unpack_summed(content: bytes, key: str) -> Any:
    """Return what `pack_summed` has packed. ValueError or zlib.error for anything else."""
    digest, packed = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
    if digest != _sum_up(packed, key):
        raise ValueError("its check sum is another one")
    return unpack_json(packed)


def _sum_up(packed: bytes, key: str) -> bytes:
    return hashlib.sha256(key.encode() + packed).digest()
