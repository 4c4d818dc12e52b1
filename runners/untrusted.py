"""Validates data that comes from a cluster. No I/O: bytes and values in, clean values out.

Users' programs write there, disks run full, clocks go wrong, and names need not be UTF-8. All such
data passes through here and becomes texts that any database holds, finite numbers, and documents of
bounded depth, in the shape that their reader relies on.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

DEEPEST = 24  # tables and lists within each other
LONGEST_TEXT = 1_000_000  # characters of one text in a document
MOST_PARTS = 1_000_000
"""Lists, tables and quotes in a document. In memory they take 25 times as much as in the file: of
64 MiB 1.6 GB. Numbers, of which results consist, take eight times as much at most."""
LARGEST = 2**63 - 1
LATEST = 32_503_680_000  # seconds: the year 3000

_LONE_SURROGATES = re.compile(r"[\ud800-\udfff]")


class Damaged(ValueError):
    """The data has not the shape that its reader relies on; the message says where and how."""


@dataclass(frozen=True)
class Text:
    """A text of bounded length."""

    most: int = LONGEST_TEXT  # characters
    pattern: str = ""  # that the whole text must match; empty: any


@dataclass(frozen=True)
class Whole:
    """A whole number within limits."""

    least: int = 0
    most: int = LARGEST


@dataclass(frozen=True)
class Number:
    """A finite number within limits."""

    least: float = -math.inf
    most: float = math.inf


@dataclass(frozen=True)
class Anything:
    """Any document that can be stored."""


@dataclass(frozen=True)
class Rows:
    """A list whose items all have one shape."""

    of: Shape


@dataclass(frozen=True)
class Table:
    """An object: names to values. `fields` may be missing, or null, unless they are `needed`."""

    fields: Mapping[str, Shape] = field(default_factory=dict)
    others: Shape = Anything()
    needed: tuple[str, ...] = ()


Shape = Text | Whole | Number | Anything | Rows | Table

MOMENT = Number(0, LATEST)
"""Seconds since the epoch that can be converted to a date."""


def clean_text(content: bytes | str) -> str:
    """Return a text that any database takes: UTF-8, without NUL or lone surrogates.

    Bytes that Python could not decode in a name or variable are shown as it shows them: `caf\\xe9`.
    """
    text = content.decode(errors="replace") if isinstance(content, bytes) else content
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return _LONE_SURROGATES.sub(_escape_surrogate, text)


def _escape_surrogate(half: re.Match[str]) -> str:
    byte = ord(half[0]) - 0xDC00
    return f"\\x{byte:02x}" if 0x80 <= byte <= 0xFF else "\N{REPLACEMENT CHARACTER}"


def has_many_parts(content: bytes | str, most: int = MOST_PARTS) -> bool:
    """Return whether a JSON document would take much more memory than its size tells."""
    if len(content) <= most:
        return False
    if isinstance(content, str):
        return sum(map(content.count, '[{"')) > most
    return sum(map(content.count, (b"[", b"{", b'"'))) > most


def parse_document(content: bytes | str, shape: Shape = Anything()) -> Any:
    """Return the JSON document in `content`, clean. Raises Damaged if it has not that shape."""
    if has_many_parts(content):
        raise Damaged(f"it holds more than {MOST_PARTS:,} lists, tables and texts")
    try:
        parsed = json.loads(content, parse_constant=_refuse_constant)
    except RecursionError:
        raise Damaged(f"it is nested more than {DEEPEST} deep") from None
    except Damaged:
        raise
    except ValueError as error:
        raise Damaged(f"it is not JSON: {clean_text(str(error))[:200]}") from None
    return validate(parsed, shape)


def validate(value: Any, shape: Shape, path: str = "it", depth: int = 0) -> Any:
    """Return `value` in the form of `shape`, clean. Raises Damaged, naming its `path`."""
    if depth > DEEPEST:
        raise Damaged(f"{path[:100]} is nested more than {DEEPEST} deep")
    match shape:
        case Text(most, pattern):
            return _validate_text(value, most, pattern, path)
        case Whole(least, most_of_all):
            if isinstance(value, bool) or not isinstance(value, int):
                _refuse(value, "a whole number", path)
            if not least <= value <= most_of_all:
                raise Damaged(f"{path} is {_shorten(value)}, not {least} to {most_of_all}")
            return value
        case Number(low, high):
            return _validate_number(value, low, high, path)
        case Rows(of):
            if not isinstance(value, list):
                _refuse(value, "a list", path)
            return [
                validate(item, of, f"{path}[{index}]", depth + 1)
                for index, item in enumerate(value)
            ]
        case Table():
            return _validate_table(value, shape, path, depth)
        case Anything():
            return _validate_anything(value, path, depth)


def _validate_text(value: Any, most: int, pattern: str, path: str) -> str:
    if not isinstance(value, str):
        _refuse(value, "a text", path)
    if len(value) > most:
        raise Damaged(f"{path} has {len(value)} characters, not at most {most}")
    text = clean_text(value)
    if pattern and not re.fullmatch(pattern, text):
        raise Damaged(f"{path} is {_shorten(text)}, which has another form")
    return text


def _validate_number(value: Any, least: float, most: float, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(value, "a number", path)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or not least <= number <= most:
        raise Damaged(f"{path} is {_shorten(value)}, not a number from {least:g} to {most:g}")
    return number


def _validate_table(value: Any, shape: Table, path: str, depth: int) -> dict[str, Any]:
    if not isinstance(value, dict):
        _refuse(value, "a table", path)
    if missing := [name for name in shape.needed if value.get(name) is None]:
        raise Damaged(f"{path} has no {', '.join(missing)}")
    table = {}
    for name, entry in value.items():
        known = clean_text(name)
        entry_shape = shape.fields.get(known, shape.others)
        entry_path = known if path == "it" else f"{path}.{known}"
        table[known] = (
            None if entry is None else validate(entry, entry_shape, entry_path[:100], depth + 1)
        )
    return table


def _validate_anything(value: Any, path: str, depth: int) -> Any:
    if isinstance(value, dict):
        return _validate_table(value, Table(), path, depth)
    if isinstance(value, list):
        return validate(value, Rows(Anything()), path, depth)
    if isinstance(value, str):
        return _validate_text(value, LONGEST_TEXT, "", path)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return validate(value, Whole(-LARGEST, LARGEST), path)
    return _validate_number(value, -math.inf, math.inf, path)


def _refuse(value: Any, expected: str, path: str) -> NoReturn:
    kinds = {dict: "a table", list: "a list", str: "a text", type(None): "null", bool: "yes or no"}
    raise Damaged(f"{path} is {kinds.get(type(value), 'a number')}, not {expected}")


def _refuse_constant(name: str) -> NoReturn:
    raise Damaged(f"it holds {name}, which is not a number")


def _shorten(value: Any) -> str:
    if isinstance(value, int) and abs(value) > LARGEST:
        return "a number of more than 18 digits"
    return repr(value)[:60]
