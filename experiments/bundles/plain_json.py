"""JSON documents of a bundle: the same rows give the same bytes."""

from __future__ import annotations

import json
import math
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder


def make_document(content: Any) -> bytes:
    """Return a document for people and programs; ValueError for a number that JSON lacks."""
    text = json.dumps(content, cls=DjangoJSONEncoder, ensure_ascii=False, indent=1, allow_nan=False)
    return f"{text}\n".encode()


def make_line(content: Any) -> bytes:
    """Return a line of a file of JSON lines."""
    text = json.dumps(content, cls=DjangoJSONEncoder, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


def make_canonical(content: Any) -> bytes:
    """Return the text of which `design.compute_hash` is the hash."""
    text = json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()


def make_number(value: float) -> float | str:
    """Return a number as JSON has it: NaN and the infinities as texts, which `float` reads."""
    return value if math.isfinite(value) else str(value)
