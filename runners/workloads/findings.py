"""Finding the numbers that a workload names: in a log, a table or a JSON file. Pure.

Each function takes the text of a file and says every number of one metric in it, in order.
"""

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from runners.workloads.missed_numbers import missed, whole_number
from runners.workloads.patterns import Hit, hits
from runners.workloads.results import SanityError, check_size, parse_number

TAIL_LINES = 3
MOST_NUMBERS = 1_000_000  # that one pattern may find: each takes 0.3 kB and some 20 µs


def number_of(text: str, where: str) -> float:
    """A number as programs print it. Raises SanityError with `where` it stands."""
    try:
        value = float(text)
    except ValueError:
        why = " Decimals follow a point here, and nothing parts thousands." if "," in text else ""
        raise SanityError(f"{where} is {text[:60]!r}, which is no number.{why}") from None
    if not math.isfinite(value):
        raise SanityError(f"{where} is {text}, which is not a finite number")
    return check_size(value, where)


def by_pattern(text: str, pattern: str, what: str) -> list[float]:
    """The numbers in `text` that `pattern` surrounds; `what` names it.

    Raises SanityError, also for a number that stands where the pattern looks and that it passes
    over, or reads without its sign or exponent.
    """
    return [number for _, number in hits_and_numbers(text, pattern, what)]


def hits_and_numbers(text: str, pattern: str, what: str) -> list[tuple[Hit, float]]:
    """The same, each with where it stands."""
    found = []
    for place, hit in enumerate(hits(pattern, text), start=1):
        if place > MOST_NUMBERS:
            raise SanityError(
                f"{what} is matched more than {MOST_NUMBERS:,} times: let the pattern match a line "
                "of each step, or name what stands around the number"
            )
        found.append((hit, number_of(hit.text, f"{what}, match {place}")))
        if (whole := whole_number(pattern, text, hit)) != hit.text:
            raise SanityError(
                f"{what}, match {place} is {whole}, of which the pattern reads {hit.text} alone: "
                "let its ( ) match the whole number"
            )
    for hit in missed(pattern, text, found=(hit for hit, _ in found)):
        line = text.count("\n", 0, hit.number_start) + 1
        where = f"{what}: the pattern passes over line {line}, whose number"
        number_of(hit.text, where)
        raise SanityError(f"{where} is {hit.text}: let its ( ) match it too")
    if not found:
        raise SanityError(
            f"{what} is never matched: {pattern} finds nothing in {len(text.splitlines())} lines. "
            f"{ends_with(text)}"
        )
    return found


def step_of(text: str, what: str) -> int:
    """The number of a step. Raises SanityError."""
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 10):
        raise SanityError(f"{what}: a step is {text[:60]!r}, which is no number of a step")
    return int(text)


def ends_with(text: str) -> str:
    """The last lines of a text, for a message."""
    lines = [line.strip()[:200] for line in text.splitlines() if any(map(str.isalnum, line))]
    if not lines:
        return "There is nothing in it."
    return f"It ends: {' / '.join(lines[-TAIL_LINES:])}"


def by_column(text: str, columns: Mapping[str, str]) -> dict[str, list[float]]:
    """The numbers in columns of a table with a head, by what is asked for; empty cells are none.

    `columns`: what is asked for -> the column's name. Commas, semicolons or tabs part the cells,
    whichever the head has most of. Raises SanityError.
    """
    head, _, _ = text.lstrip("\ufeff").partition("\n")
    delimiter = max(",;\t", key=head.count)
    rows = csv.reader(io.StringIO(text.lstrip("\ufeff")), delimiter=delimiter, strict=True)
    try:
        names = [name.strip() for name in next(rows, [])]
        for asked, column in columns.items():
            if column not in names:
                raise SanityError(
                    f"{asked}: there is no column {column!r}; there are "
                    f"{', '.join(filter(None, names)) or 'none'}"
                )
        places = {asked: names.index(column) for asked, column in columns.items()}
        found: dict[str, list[float]] = {asked: [] for asked in columns}
        for row in rows:
            for asked, place in places.items():
                if place < len(row) and row[place].strip():
                    where = f"{columns[asked]} in line {rows.line_num}"
                    found[asked].append(number_of(row[place].strip(), where))
    except csv.Error as error:
        raise SanityError(f"line {rows.line_num} is no row of a table: {error}") from None
    for asked, column in columns.items():
        if not found[asked]:
            raise SanityError(f"{asked}: the column {column} holds no number")
    return found


def documents(text: str) -> list[Any]:
    """The JSON document in `text`, or one a line. Raises SanityError."""
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError) as error:
        whole = str(error)
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        raise SanityError(f"it is neither JSON nor JSON lines: {whole}") from None


def by_name(found: list[Any], dotted: str, what: str) -> list[float]:
    """The numbers at a dotted name (`results.0.loss`) of each document that has it: one, or a list.

    Raises SanityError.
    """
    values: list[float] = []
    missing = ""
    for place, document in enumerate(found, start=1):
        try:
            value = _at(document, dotted)
        except LookupError as error:
            missing = missing or str(error.args[0])
            continue
        where = f"{dotted} in line {place}" if len(found) > 1 else dotted
        for number in value if isinstance(value, list) else [value]:
            values.append(parse_number(number, where))
    if not values:
        raise SanityError(f"{what}: {missing or f'{dotted} holds no number'}")
    return values


def _at(document: Any, dotted: str) -> Any:
    """LookupError says where the way ended, and what would have been there."""
    way: list[str] = []
    for name in dotted.split("."):
        if isinstance(document, dict) and name in document:
            document = document[name]
        elif isinstance(document, list) and name.isdecimal() and int(name) < len(document):
            document = document[int(name)]
        else:
            raise LookupError(f"there is no {dotted!r}{_there(document, way)}")
        way.append(name)
    return document


def _there(document: Any, way: list[str]) -> str:
    place = f" in {'.'.join(way)}" if way else ""
    if isinstance(document, dict):
        known = ", ".join(list(_names(document))[:12])
        return f";{place} there are {known or 'no names at all'}"
    return f";{place} there is {type(document).__name__} {json.dumps(document)[:40]}"


def _names(document: dict[str, Any]) -> Iterator[str]:
    yield from document


def text_of(content: bytes, name: str) -> str:
    """A file that is to be text. Raises SanityError where it is not UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise SanityError(
            f"{name} is not text in UTF-8: byte {error.start} is {content[error.start]:#04x}"
        ) from None
