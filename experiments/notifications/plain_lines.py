"""Text of others as one line."""

from __future__ import annotations

import unicodedata


def clean_line(text: str) -> str:
    """Return a text as one line without control characters and signs that turn its direction."""
    kept = (" " if unicodedata.category(sign)[0] in "CZ" else sign for sign in text)
    return " ".join("".join(kept).split())
