"""Parts of answers by their names: of their kind, or as good as missing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Document = Mapping[str, Any]


def get_text(document: Document, name: str) -> str:
    value = document.get(name)
    return "" if value is None else str(value)


def get_number(document: Document, name: str) -> float | None:
    """Return a number that can be computed with: JSON's may be too large for that."""
    value = document.get(name)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def get_documents(document: Document, name: str) -> list[Document]:
    value = document.get(name)
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def get_document(document: Document, name: str) -> Document:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def read_file_name(disposition: str) -> str:
    """Return the file name of a Content-Disposition without folders; "" where there is none."""
    from email.message import Message

    message = Message()
    message["Content-Disposition"] = disposition
    name = (message.get_filename() or "").replace("\\", "/").rpartition("/")[2]
    return "".join(letter for letter in name if letter.isprintable()).lstrip(".")[:200]
