"""Long columns of values as few bytes, which are decoded when somebody asks for them.

A comparison of 20,000 runs has 300,000 values. As JSON they take longer to read than all else that
a page does; most are one of few, or numbers that stand as bytes.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from sys import byteorder
from typing import Any

LONG = 64
"""Shorter columns stay as they are."""
MOST_DIFFERENT, FEWEST_EACH = 65_536, 4
"""A column has few values if it has at most so many, each of them so often on average."""
SCALARS = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class FewValues:
    """A column of few values: these, and which of them each row has."""

    values: Sequence[Any]
    codes: bytes
    """One or two bytes a row, by how many values there are."""

    def __len__(self) -> int:
        return len(self.codes) // self._width

    @property
    def _width(self) -> int:
        return 1 if len(self.values) <= 256 else 2

    @cached_property
    def _places(self) -> Sequence[int]:
        return self.codes if self._width == 1 else _read_array("H", self.codes)

    def check(self) -> None:
        """Raise ValueError for a code that stands for no value."""
        if len(self.codes) % self._width or not self.codes or max(self._places) >= len(self.values):
            raise ValueError("A code stands for no value.")

    def decode(self, values: Sequence[Any]) -> list[Any]:
        """Return the column, of `values` in place of its own."""
        return list(map(values.__getitem__, self._places))


@dataclass(frozen=True)
class Floats:
    """A column of floating-point numbers, eight bytes each, to the bit; some may be missing."""

    content: bytes
    missing: Sequence[int]
    """The places of rows without a number."""

    def __len__(self) -> int:
        return len(self.content) // 8

    def check(self) -> None:
        """Raise ValueError for half a number, or a place that is no row."""
        rows = range(len(self))
        if len(self.content) % 8 or any(
            type(place) is not int or place not in rows for place in self.missing
        ):
            raise ValueError("These are no numbers.")

    def decode(self) -> list[float | None]:
        """Return the column."""
        values: list[float | None] = _read_array("d", self.content).tolist()
        for place in self.missing:
            values[place] = None
        return values


@dataclass(frozen=True)
class Texts:
    """A column of texts of one length, in ASCII: names of runs."""

    length: int
    width: int
    content: bytes
    """Compressed."""

    def __len__(self) -> int:
        return self.length

    def check(self) -> None:
        """Raise ValueError for a length or a width that is no count."""
        if not all(type(number) is int and number > 0 for number in (self.length, self.width)):
            raise ValueError("These are no texts.")

    def decode(self) -> list[str]:
        """Return the texts. ValueError or zlib.error where they are damaged."""
        whole = self.length * self.width
        text = zlib.decompressobj().decompress(self.content, whole + 1).decode("ascii")
        if len(text) != whole:
            raise ValueError("There are more texts than rows, or fewer.")
        return [text[start : start + self.width] for start in range(0, whole, self.width)]


Coded = FewValues | Floats | Texts


class LazyColumn:
    """A column that is decoded when somebody asks for it first."""

    def __init__(self, length: int, decode: Callable[[], Sequence[Any]]) -> None:
        self._length = length
        self._decode = decode

    def __len__(self) -> int:
        return self._length

    @cached_property
    def values(self) -> Sequence[Any]:
        return self._decode()


def code_column(values: list[Any]) -> list[Any] | Coded:
    """Return plain values in fewer bytes, where these are many and may be coded."""
    if len(values) < LONG or not all(map(_is_simple, values)):
        return values
    different: dict[str, int] = {}  # by their spelling: 1 is not 1.0, and NaN is NaN
    codes = [different.setdefault(repr(value), len(different)) for value in values]
    if len(different) <= min(MOST_DIFFERENT, len(values) // FEWEST_EACH):
        by_code = dict(zip(codes, values, strict=True))  # in the order of the codes
        kind = "B" if len(different) <= 256 else "H"
        return FewValues([*by_code.values()], _write_array(kind, codes))
    if all(value is None or type(value) is float for value in values):
        missing = [place for place, value in enumerate(values) if value is None]
        known = [0.0 if value is None else value for value in values]
        return Floats(_write_array("d", known), missing)
    if all(type(value) is str and value.isascii() for value in values):
        widths = set(map(len, values))
        if len(widths) == 1:
            return Texts(len(values), widths.pop(), zlib.compress("".join(values).encode(), 1))
    return values


def _is_simple(value: Any) -> bool:
    """Return whether a value is written in one way alone: it is bare, or a list of bare ones."""
    return type(value) in SCALARS or (
        type(value) is list and all(type(part) in SCALARS for part in value)
    )


def _write_array(kind: str, values: Sequence[Any]) -> bytes:
    content: bytes = _with_little_ends(array(kind, values)).tobytes()
    return content


def _read_array(kind: str, content: bytes) -> Any:
    values = array(kind)
    values.frombytes(content)
    return _with_little_ends(values)


def _with_little_ends(values: Any) -> Any:
    if byteorder == "big":
        values.byteswap()
    return values
