"""The order in which names are listed for people: node2 before node10, 3.9 before 3.11."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

Value = TypeVar("Value")
NUMBER = re.compile(r"([0-9]+)")
NaturalKey = tuple[tuple[tuple[int, str], ...], str]


@lru_cache(maxsize=50_000)
def make_natural_key(text: str) -> NaturalKey:
    """Return a key that sorts texts with their whole numbers by size: run2 before run10.

    Numbers of any length. Texts that differ in leading zeros alone come in the order of strings.
    """
    parts = NUMBER.split(text)
    # Texts and numbers take turns, a text first: each part is compared with one of its kind. A
    # number is greater than another by its count of digits, then by these.
    key = tuple(
        (len(part.lstrip("0")), part.lstrip("0")) if place % 2 else (0, part)
        for place, part in enumerate(parts)
    )
    return key, text


def sort_naturally(texts: Iterable[str]) -> list[str]:
    """Return texts in the order in which they are listed for people."""
    return sorted(texts, key=make_natural_key)


def sort_items_naturally(mapping: Mapping[str, Value]) -> list[tuple[str, Value]]:
    """Return the items of a mapping in the natural order of their names."""
    return [(name, mapping[name]) for name in sort_naturally(mapping)]
