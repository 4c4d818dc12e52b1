"""Finds the numbers of a workload's metrics in a log, a table or a JSON file. No I/O.

The functions take the text of a file and return all numbers of a metric in it, in order.
"""

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from runners.untrusted import has_many_parts
from runners.workloads.missed_numbers import complete_number, find_missed
from runners.workloads.patterns import Hit, find_hits
from runners.workloads.results import SanityError, check_size, parse_number

TAIL_LINES = 3
MOST_NUMBERS = 1_000_000  # that one pattern may find: each takes 0.3 kB and some 20 µs
MOST_PARTS = 10_000_000  # lists, tables and quotes of JSON: a million lines of four names each


def parse_printed_number(text: str, where: str) -> float:
    """Parse a number as programs print it. Raises SanityError; `where` says where it is."""
    try:
        value = float(text)
    except ValueError:
        why = " Decimals follow a point here, and nothing parts thousands." if "," in text else ""
        raise SanityError(f"{where} is {text[:60]!r}, which is no number.{why}") from None
    if not math.isfinite(value):
        raise SanityError(f"{where} is {text}, which is not a finite number")
    return check_size(value, where)


def find_hits_and_numbers(text: str, pattern: str, what: str) -> list[tuple[Hit, float]]:
    """Return the matches of `pattern` in `text`, each with its number; `what` is the metric's name.

    Raises SanityError, also for a number that the pattern misses although its surroundings match,
    or that it reads without its sign or exponent.
    """
    numbers = []
    for count, hit in enumerate(find_hits(pattern, text), start=1):
        if count > MOST_NUMBERS:
            raise SanityError(
                f"{what} is matched more than {MOST_NUMBERS:,} times: let the pattern match a line "
                "of each step, or name what stands around the number"
            )
        numbers.append((hit, parse_printed_number(hit.text, f"{what}, match {count}")))
        if (complete := complete_number(pattern, text, hit)) != hit.text:
            raise SanityError(
                f"{what}, match {count} is {complete}, of which the pattern reads {hit.text} "
                "alone: let its ( ) match the whole number"
            )
    for hit in find_missed(pattern, text, hits=(hit for hit, _ in numbers)):
        line = text.count("\n", 0, hit.number_start) + 1
        where = f"{what}: the pattern passes over line {line}, whose number"
        parse_printed_number(hit.text, where)
        raise SanityError(f"{where} is {hit.text}: let its ( ) match it too")
    if not numbers:
        raise SanityError(
            f"{what} is never matched: {pattern} finds nothing in {len(text.splitlines())} lines. "
            f"{quote_end(text)}"
        )
    return numbers


def parse_step(text: str, what: str) -> int:
    """Parse the number of a step. Raises SanityError."""
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 10):
        raise SanityError(f"{what}: a step is {text[:60]!r}, which is no number of a step")
    return int(text)


def quote_end(text: str) -> str:
    """Return a sentence that quotes the last lines of a text."""
    lines = [line.strip()[:200] for line in text.splitlines() if any(map(str.isalnum, line))]
    if not lines:
        return "There is nothing in it."
    return f"It ends: {' / '.join(lines[-TAIL_LINES:])}"


def read_columns(text: str, columns: Mapping[str, str]) -> dict[str, list[float]]:
    """Return the numbers in columns of a table with a head; empty cells are skipped.

    `columns`: the metric's name -> the column's. The cells are separated by commas, semicolons or
    tabs, whichever the head has most of. Raises SanityError.
    """
    head, _, _ = text.lstrip("\ufeff").partition("\n")
    delimiter = max(",;\t", key=head.count)
    rows = csv.reader(io.StringIO(text.lstrip("\ufeff")), delimiter=delimiter, strict=True)
    try:
        head_names = [name.strip() for name in next(rows, [])]
        for name, column in columns.items():
            if column not in head_names:
                raise SanityError(
                    f"{name}: there is no column {column!r}; there are "
                    f"{', '.join(filter(None, head_names)) or 'none'}"
                )
        column_indices = {name: head_names.index(column) for name, column in columns.items()}
        numbers: dict[str, list[float]] = {name: [] for name in columns}
        for row in rows:
            for name, column_index in column_indices.items():
                if column_index < len(row) and row[column_index].strip():
                    where = f"{columns[name]} in line {rows.line_num}"
                    numbers[name].append(parse_printed_number(row[column_index].strip(), where))
    except csv.Error as error:
        raise SanityError(f"line {rows.line_num} is no row of a table: {error}") from None
    for name, column in columns.items():
        if not numbers[name]:
            raise SanityError(f"{name}: the column {column} holds no number")
    return numbers


def parse_documents(text: str) -> list[Any]:
    """Parse the JSON document in `text`, or one in each line. Raises SanityError."""
    if has_many_parts(text, MOST_PARTS):
        raise SanityError(f"it holds more than {MOST_PARTS:,} lists, tables and quotes")
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError) as error:
        whole = str(error)
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        raise SanityError(f"it is neither JSON nor JSON lines: {whole}") from None


def read_dotted_name(documents: list[Any], dotted: str, what: str) -> list[float]:
    """Return the numbers at a dotted name (`results.0.loss`) of each document that has it.

    There may be one number or a list. Raises SanityError.
    """
    values: list[float] = []
    missing = ""
    for line, document in enumerate(documents, start=1):
        try:
            value = _look_up(document, dotted)
        except LookupError as error:
            missing = missing or str(error.args[0])
            continue
        where = f"{dotted} in line {line}" if len(documents) > 1 else dotted
        for number in value if isinstance(value, list) else [value]:
            values.append(parse_number(number, where))
    if not values:
        raise SanityError(f"{what}: {missing or f'{dotted} holds no number'}")
    return values


def _look_up(document: Any, dotted: str) -> Any:
    """Return the value at a dotted name. LookupError says where it ends and which names exist."""
    path: list[str] = []
    for name in dotted.split("."):
        if isinstance(document, dict) and name in document:
            document = document[name]
        elif isinstance(document, list) and name.isdecimal() and int(name) < len(document):
            document = document[int(name)]
        else:
            raise LookupError(f"there is no {dotted!r}{_describe_known_names(document, path)}")
        path.append(name)
    return document


def _describe_known_names(document: Any, path: list[str]) -> str:
    where = f" in {'.'.join(path)}" if path else ""
    if isinstance(document, dict):
        names = ", ".join(list(_list_names(document))[:12])
        return f";{where} there are {names or 'no names at all'}"
    return f";{where} there is {type(document).__name__} {json.dumps(document)[:40]}"


def _list_names(document: dict[str, Any]) -> Iterator[str]:
    yield from document


def decode_text(content: bytes, name: str) -> str:
    """Decode a file that should be text. Raises SanityError if it is not UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise SanityError(
            f"{name} is not text in UTF-8: byte {error.start} is {content[error.start]:#04x}"
        ) from None
