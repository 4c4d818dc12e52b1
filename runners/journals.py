"""Reads the journals of jobs: a line of JSON for each event, of which the last may be cut off."""

from collections.abc import Iterator
from typing import Any

from runners.shapes import EVENTS, LINE
from runners.untrusted import Damaged, Table, parse_document, validate

LONGEST_LINE = 1 << 16  # bytes of a journal's line
MOST_LINES = 100_000  # of a journal: reading millions would keep other jobs waiting
MOST_NAMED = 10  # lines that cannot be read, of a journal


def parse_journal(content: bytes) -> tuple[list[dict[str, Any]], int]:
    """Return the complete lines of a journal, and their bytes: the offset to read from next time.

    Lines that cannot be read are left out: a disk that was full for a while leaves a cut-off line.
    """
    whole = content[: content.rfind(b"\n") + 1]
    if not whole and len(content) > LONGEST_LINE:
        return [], len(content)  # no line of a journal is as long as this, nor is its end one
    return read_lines(whole)[0], len(whole)


def read_lines(content: bytes) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the lines of a journal, and for each that cannot be read its number and the reason."""
    lines: list[dict[str, Any]] = []
    damage: list[str] = []
    for number, line in _number_lines(content):
        try:
            if len(line) > LONGEST_LINE:
                raise Damaged(f"it has {len(line)} bytes")
            parsed = parse_document(line, LINE)
            validate(parsed, Table(needed=EVENTS.get(parsed["event"], ())))
            lines.append(parsed)
        except Damaged as error:
            if len(damage) < MOST_NAMED:
                damage.append(f"line {number}: {error}")
    if (count := content.count(b"\n")) > MOST_LINES:
        damage.append(f"{count - MOST_LINES} of its {count} lines are too many to be read")
    return lines, damage


def _number_lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the complete lines and their numbers, from 1; of too many the first and the last."""
    whole = content[: content.rfind(b"\n") + 1]
    count = whole.count(b"\n")
    half = MOST_LINES // 2
    first = whole.split(b"\n", half)
    rest = first.pop()
    yield from enumerate(first, start=1)
    if rest:
        last = rest.rsplit(b"\n", half + 1)[-half - 1 : -1]
        yield from enumerate(last, start=count - len(last) + 1)
