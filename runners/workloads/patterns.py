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
STEP = "step"
r"""The name of a second group, which says of which step a number is: `(?P<step>\d+)`."""
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


@dataclass(frozen=True, slots=True)
class Hit:
    """Where a pattern has matched: all of it, and its number as it stands there."""

    start: int
    end: int
    number_start: int
    number_end: int
    text: str
    step: str = ""
    """What the group `step` has matched."""


def check(pattern: str) -> None:
    """Raises PatternError unless the pattern can be used and surrounds one number with ( )."""
    _compiled(pattern)


def hits(pattern: str, text: str) -> Iterator[Hit]:
    """Every match in `text`, in order. `^` and `$` are the ends of lines. Raises PatternError."""
    yield from matches(_compiled(pattern), text)


def names_steps(pattern: str) -> bool:
    """Whether a group `step` stands beside the number. Raises PatternError."""
    return STEP in _compiled(pattern).groupindex


def matches(compiled: Any, text: str) -> Iterator[Hit]:
    """The same of a pattern that RE2 has read, with its one group and perhaps that of the step."""
    step = compiled.groupindex.get(STEP, 0)
    group = 2 if step == 1 else 1
    for found in compiled.finditer(text):
        start, end = found.span(group)
        if start >= 0:
            said = (found[step] or "") if step else ""
            yield Hit(found.start(), found.end(), start, end, found[group].strip(), said)


def plain(content: bytes) -> str:
    """A program's output as text of lines: progress bars end theirs with carriage returns."""
    return content.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def of_lines(pattern: str) -> Any:
    """Return the pattern as RE2 reads it, `^` and `$` being the ends of lines. Raises re2.error."""
    return re2.compile(f"(?m){pattern}", _quietly())


def _quietly() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options


def _compiled(pattern: str) -> Any:
    if not pattern:
        raise PatternError("it is empty")
    if len(pattern) > LONGEST:
        raise PatternError(f"it has {len(pattern)} characters; at most {LONGEST} are read")
    try:
        re2.compile(pattern, _quietly())
        compiled = of_lines(pattern)
    except re2.error as error:
        raise PatternError(_why(pattern, error)) from None
    except UnicodeEncodeError as error:
        raise PatternError(f"character {error.start + 1} is half of a character") from None
    if len(re.findall(rf"\(\?P?<{STEP}>", pattern)) > 1:
        raise PatternError(f"it has more than one group that is named {STEP}")
    groups = compiled.groups - (STEP in compiled.groupindex)
    if groups != 1:
        why = "has no ( )" if not groups else f"has {groups} groups in ( )"
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
