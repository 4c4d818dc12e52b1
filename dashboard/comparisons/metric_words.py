"""Names of metrics as words."""

from __future__ import annotations


def say_words(name: str) -> str:
    """Return the name of a metric as words, the first one with a capital."""
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]
