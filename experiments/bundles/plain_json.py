"""JSON documents of a bundle: the same rows give the same bytes."""

from __future__ import annotations

import json
import math
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

ENCODER = DjangoJSONEncoder(ensure_ascii=False, allow_nan=False)
"""Made once: a run's documents are made of some sixty values, each written on its own."""


def make_document(content: Any) -> bytes:
    """Return a document for people and programs; ValueError for a number that JSON lacks.

    A line for each entry, and for each entry of a list in it.
    """
    if isinstance(content, dict):
        lines = [f" {_write(name)}: {_write_in_lines(value)}" for name, value in content.items()]
        text = "{\n" + ",\n".join(lines) + "\n}"
    else:
        text = _write_in_lines(content)
    return f"{text}\n".encode()


def _write_in_lines(value: Any) -> str:
    if not isinstance(value, list) or not any(isinstance(entry, dict) for entry in value):
        return _write(value)
    return "[\n  " + ",\n  ".join(map(_write, value)) + "\n ]"


def _write(value: Any) -> str:
    return ENCODER.encode(value)


def make_line(content: Any) -> bytes:
    """Return a line of a file of JSON lines."""
    return f"{_write(content)}\n".encode()


def make_canonical(content: Any) -> bytes:
    """Return the text of which `design.compute_hash` is the hash."""
    text = json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()


def make_number(value: float) -> float | str:
    """Return a number as JSON has it: NaN and the infinities as texts, which `float` reads."""
    return value if math.isfinite(value) else str(value)
