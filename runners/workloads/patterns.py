"""Regular expressions of users, which look for one number each in what a program printed.

RE2 matches in time linear in the text, so that no pattern can keep a worker busy for ever. What it
has not for that reason (look-around, back references) is refused in words, with the place.
"""

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import re2

LONGEST = 500  # characters of a pattern
NOT_IN_RE2 = (
    (
        r"\(\?<?[=!]",
        "looks around",
        "Match what stands there too: ( ) says which part is the number.",
    ),
    (r"\(\?P=|\\[1-9]|\\k", "refers back to a group", "Write out what is to be repeated."),
    (r"\(\?>|[*+?}]\+", "never gives back", "Leave that out: nothing backtracks here."),
)


class PatternError(ValueError):
    """A pattern that cannot be used; the message says where and why."""


@dataclass(frozen=True)
class Hit:
    """Where a pattern has matched: all of it, and its number as it stands there."""

    start: int
    end: int
    number_start: int
    number_end: int
    text: str


def check(pattern: str) -> None:
    """Raises PatternError unless the pattern can be used and surrounds one number with ( )."""
    _compiled(pattern)


def hits(pattern: str, text: str) -> Iterator[Hit]:
    """Every match in `text`, in order. `^` and `$` are the ends of lines. Raises PatternError."""
    for found in _compiled(pattern).finditer(text):
        start, end = found.span(1)
        if start >= 0:
            yield Hit(found.start(), found.end(), start, end, found[1].strip())


def plain(content: bytes) -> str:
    """A program's output as text of lines: progress bars end theirs with carriage returns."""
    return content.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def _compiled(pattern: str) -> Any:
    if not pattern:
        raise PatternError("it is empty")
    if len(pattern) > LONGEST:
        raise PatternError(f"it has {len(pattern)} characters; at most {LONGEST} are read")
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
        compiled = re2.compile(f"(?m){pattern}", options)
    except re2.error as error:
        raise PatternError(_why(pattern, error)) from None
    except UnicodeEncodeError as error:
        raise PatternError(f"character {error.start + 1} is half of a character") from None
    if compiled.groups != 1:
        why = "has no ( )" if not compiled.groups else f"has {compiled.groups} groups in ( )"
        raise PatternError(
            f"it {why}: put ( ) around the number, and around nothing else; (?: ) groups without "
            "being a number"
        )
    return compiled


def _why(pattern: str, error: Exception) -> str:
    """RE2's reason, with the place in the pattern, counted from 1."""
    for unknown, does, cure in NOT_IN_RE2:
        if found := re.search(unknown, pattern):
            where = f"at character {found.start() + 1}, {found[0]}"
            return f"{where} {does}, which is not known here. {cure}"
    (reason,) = error.args
    said = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    what, _, part = said.partition(": ")
    place = _place(pattern, part)
    if place < 0:
        return said
    return f"at character {place + 1}: {what} ({part})" if part != what else said


def _place(pattern: str, part: str) -> int:
    """Where `part`, of which RE2 says that it is wrong, begins; -1 where nobody knows."""
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(pattern)  # Python counts, where it stumbles over the same
    except re.error as error:
        if error.pos is not None:
            return error.pos
    return pattern.find(part) if part else -1
