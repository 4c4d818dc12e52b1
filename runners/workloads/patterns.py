"""Regular expressions of users, each of which finds one number in a program's output.

RE2 matches in time linear in the text, so that no pattern can keep a worker busy for ever. What it
lacks for that reason (look-around, back references) is refused with a message and the position.
"""

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import re2

LONGEST = 500  # characters of a pattern
STEP = "step"
r"""The name of a second group, which matches the step of a number: `(?P<step>\d+)`."""
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
    """A match of a pattern: where it is, and its number as text."""

    start: int
    end: int
    number_start: int
    number_end: int
    text: str
    step: str = ""
    """The text that the group `step` has matched."""


def check_pattern(pattern: str) -> None:
    """Raise PatternError unless the pattern can be used and surrounds one number with ( )."""
    _compile(pattern)


def check_search_pattern(pattern: str) -> None:
    """Raise PatternError unless text can be searched for the pattern; it need not have a ( )."""
    _compile_any(pattern)


def find_first_match(pattern: str, text: str) -> tuple[int, int] | None:
    """Return where the pattern first matches in `text`, or None. Raises PatternError."""
    match = _compile_any(pattern).search(text)
    return match.span() if match else None


def find_hits(pattern: str, text: str) -> Iterator[Hit]:
    """Yield all matches in `text`; `^` and `$` match at the ends of lines. Raises PatternError."""
    yield from find_matches(_compile(pattern), text)


def has_step_group(pattern: str) -> bool:
    """Return whether the pattern has a group `step` beside the number. Raises PatternError."""
    return STEP in _compile(pattern).groupindex


def find_matches(compiled: Any, text: str) -> Iterator[Hit]:
    """Yield all matches of a compiled pattern with one group and perhaps that of the step."""
    step = compiled.groupindex.get(STEP, 0)
    group = 2 if step == 1 else 1
    for match in compiled.finditer(text):
        start, end = match.span(group)
        if start >= 0:
            step_text = (match[step] or "") if step else ""
            yield Hit(match.start(), match.end(), start, end, match[group].strip(), step_text)


def normalize_lines(content: bytes) -> str:
    """Return output as lines of text; progress bars end theirs with carriage returns."""
    return content.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def compile_by_lines(pattern: str) -> Any:
    """Return the compiled pattern; `^` and `$` match at the ends of lines. Raises re2.error."""
    return re2.compile(f"(?m){pattern}", _make_quiet_options())


def _make_quiet_options() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options


def _compile_any(pattern: str) -> Any:
    """Return the compiled pattern, whatever its groups are. Raises PatternError."""
    if not pattern:
        raise PatternError("it is empty")
    if len(pattern) > LONGEST:
        raise PatternError(f"it has {len(pattern)} characters; at most {LONGEST} are read")
    try:
        re2.compile(pattern, _make_quiet_options())
        return compile_by_lines(pattern)
    except re2.error as error:
        raise PatternError(_explain_error(pattern, error)) from None
    except UnicodeEncodeError as error:
        raise PatternError(f"character {error.start + 1} is half of a character") from None


def _compile(pattern: str) -> Any:
    """Return the compiled pattern of a number. Raises PatternError unless it has one ( )."""
    compiled = _compile_any(pattern)
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


def _explain_error(pattern: str, error: Exception) -> str:
    """Return RE2's message, with the position in the pattern, counted from 1."""
    for unknown, does, cure in NOT_IN_RE2:
        if match := re.search(unknown, pattern):
            position_text = f"at character {match.start() + 1}, {match[0]}"
            return f"{position_text} {does}, which is not known here. {cure}"
    (reason,) = error.args
    message = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    what, _, part = message.partition(": ")
    position = _find_position(pattern, part)
    if position < 0:
        return message
    return f"at character {position + 1}: {what} ({part})" if part != what else message


def _find_position(pattern: str, part: str) -> int:
    """Return where `part`, which RE2 calls wrong, begins in the pattern; -1 if unknown."""
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(pattern)  # if Python finds the same error, it names the position
    except re.error as error:
        if error.pos is not None:
            return error.pos
    return pattern.find(part) if part else -1
