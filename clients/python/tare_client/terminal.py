"""What is printed: safe for a terminal, as tables, as sentences."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TextIO

from tare_client.errors import Refused, TareError

SHORTEST = 8


def clean_text(text: str, *, keep: str = "") -> str:
    """Return a text without what a terminal would obey: names and output come from others.

    `keep` are control characters that stay, such as the end of a line.
    """
    return "".join(
        letter if letter.isprintable() or letter in keep else "�"
        for letter in text.replace("\t", "    ")
    )


def discard_output(stream: TextIO) -> None:
    """Let nothing more be printed: what is still held back could not be written either."""
    with open(os.devnull, "wb") as nowhere, suppress(OSError, ValueError):
        os.dup2(nowhere.fileno(), stream.fileno())


@contextmanager
def printing_verdict() -> Iterator[None]:
    """Print a verdict; who reads no further, `tare compare 3 | head -1`, gets its exit code."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output(sys.stdout)


def print_line(text: str = "", *, file: TextIO | None = None) -> None:
    """Print one line, whatever is in it."""
    print(clean_text(text), file=file or sys.stdout)


def print_json(value: object, *, indent: int | None = 2) -> None:
    """Print a value as JSON, in ASCII: any terminal and any pipe takes it."""
    print(json.dumps(value, indent=indent), flush=True)


def print_error(error: TareError, *, file: str = "", as_json: bool = False) -> None:
    """Print an error on standard error, if it can be written to; problems as compilers do.

    `file` is the file in which the lines of its problems are.
    """
    try:
        _print_error(error, file, as_json)
    except OSError:
        discard_output(sys.stderr)


def _print_error(error: TareError, file: str, as_json: bool) -> None:
    if as_json:
        print(json.dumps(error.describe()), file=sys.stderr)
        return
    problems = error.problems if isinstance(error, Refused) else ()
    for problem in problems:
        located = problem.locate(file) if file else f"{problem.field}: {problem.message}"
        print_line(located.removeprefix(": "), file=sys.stderr)
    print_line(f"tare: {error}", file=sys.stderr)


def format_number(value: object) -> str:
    """Return a value as a table shows it: numbers with four significant digits."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else clean_text(str(value))


def format_table(names: Sequence[str], rows: Iterable[Sequence[object]], width: int) -> str:
    """Return rows as a table no wider than `width`: the widest columns are cut first."""
    values = [list(row) for row in rows]
    cells = [list(names), *([format_number(value) for value in row] for row in values)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(names))]
    while sum(widths) + 2 * (len(widths) - 1) > width and max(widths) > SHORTEST:
        widths[widths.index(max(widths))] -= 1
    right = [
        any(isinstance(row[place], (int, float)) for row in values) for place in range(len(names))
    ]
    lines = []
    for row in cells:
        parts = [
            _cut(cell, n).rjust(n) if to_right else _cut(cell, n).ljust(n)
            for cell, n, to_right in zip(row, widths, right)
        ]
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def measure_width() -> int:
    """Return how many letters a line may have: a terminal's width, 10,000 where there is none."""
    import shutil

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000


def split_by_width(text: str, width: int) -> list[str]:
    """Return a text in pieces that a terminal shows in one line each, of at most `width` places.

    Letters of East Asia and emoji take two places, accents none.
    """
    pieces, piece, taken = [], "", 0
    for letter in text:
        places = _count_places(letter)
        if taken + places > width and piece:
            pieces.append(piece)
            piece, taken = "", 0
        piece, taken = piece + letter, taken + places
    return [*pieces, piece]


def _count_places(letter: str) -> int:
    if letter.isascii():
        return 1
    import unicodedata

    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1
