"""Plain values as compressed JSON, unpacked with a limit; long columns stand behind it as bytes."""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import Any

from experiments.comparisons.coded_columns import Coded, FewValues, Floats, Texts

MOST_BYTES = 2**28
"""What one text may unpack to; a comparison of 20,000 runs has some megabytes."""
DIGEST_BYTES = 32

CODED, AT, SIZE, OF = "coded", "at", "size", "of"
"""What stands in the JSON for a column: its kind, where its bytes are, and the rest of it."""
FEW, FLOATS, TEXTS = "few values", "floats", "texts"


def pack_json(plain: Any) -> bytes:
    """Return plain values as compressed JSON, and behind it the bytes of coded columns."""
    parts: list[bytes] = []

    def place(column: Coded) -> dict[str, Any]:
        at = sum(map(len, parts))
        kind, content, rest = _describe(column)
        parts.append(content)
        return {CODED: kind, AT: at, SIZE: len(content), OF: rest}

    text = json.dumps(plain, separators=(",", ":"), default=place)
    return zlib.compress(text.encode(), 1) + b"".join(parts)


def _describe(column: Coded) -> tuple[str, bytes, Any]:
    if isinstance(column, FewValues):
        return FEW, column.codes, column.values
    if isinstance(column, Floats):
        return FLOATS, column.content, column.missing
    if isinstance(column, Texts):
        return TEXTS, column.content, [column.length, column.width]
    raise TypeError(f"{type(column).__name__} is not kept.")


def unpack_json(packed: bytes) -> Any:
    """Return what `pack_json` has packed. ValueError or zlib.error for anything else."""
    unpacker = zlib.decompressobj()
    plain = unpacker.decompress(packed, MOST_BYTES)
    if not unpacker.eof:
        raise ValueError("it is too large")
    rest = unpacker.unused_data

    def read(value: dict[str, Any]) -> Any:
        return _read_column(value, rest) if value.keys() == {CODED, AT, SIZE, OF} else value

    return json.loads(plain, object_hook=read)


def _read_column(place: dict[str, Any], rest: bytes) -> Coded:
    """Return the column that stands at a place of the bytes. ValueError where there is none."""
    at, size, of = place[AT], place[SIZE], place[OF]
    if not (type(at) is type(size) is int and 0 <= at <= at + size <= len(rest)):
        raise ValueError("A column stands nowhere.")
    content = rest[at : at + size]
    column: Coded
    if place[CODED] == FEW and type(of) is list:
        column = FewValues(of, content)
    elif place[CODED] == FLOATS and type(of) is list:
        column = Floats(content, of)
    elif place[CODED] == TEXTS and type(of) is list and len(of) == 2:
        column = Texts(of[0], of[1], content)
    else:
        raise ValueError("A column is of another kind.")
    column.check()
    return column


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
