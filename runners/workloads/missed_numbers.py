"""Finds numbers in a text that a pattern misses although its surroundings match. No I/O.

`speed: ([\\d.]+)` passes over `speed: nan`, and of `speed: 1.2e+03` it reads 1.2. The last match,
or the mean of all, would be a wrong value without any sign of it.
"""

import re
from collections.abc import Iterable, Iterator

from runners.workloads.patterns import STEP, Hit, compile_by_lines, find_hits, find_matches

NOT_FINITE = r"[-+]?(?i:nan|inf(?:inity)?)\b"
SIGNED = r"[-+](?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
PASSED_OVER = rf"{NOT_FINITE}|{SIGNED}"
"""Texts that a pattern of digits passes over and that certainly are numbers."""
LIKE_A_NUMBER = rf"{PASSED_OVER}|(?i:none|null|n/?a)\b|\*{{3,}}|-{{2,}}|\d[\d.,']*(?:[eE][-+]?\d+)?"
"""These too, and texts that programs print instead of a number."""
EXPONENT = re.compile(r"[eE][-+]?\d+(?!\w)")
MORE_DIGITS = re.compile(r"[.,']?\d|[eE][-+]?\d")
BEFORE_A_SIGN = " \t\n=:([,;|"


def find_missed(
    pattern: str, text: str, instead: str = PASSED_OVER, *, hits: Iterable[Hit] | None = None
) -> Iterator[Hit]:
    """Yield each place where `pattern` would match if its number were `instead`, but does not.

    Nothing for a pattern without anything around its number. `hits` are all its matches in `text`,
    if they are known already. Raises PatternError.
    """
    spans = [(hit.start, hit.end) for hit in (find_hits(pattern, text) if hits is None else hits)]
    begin, end = find_number_span(pattern)
    around = pattern[:begin].removesuffix("(") + pattern[end:].removeprefix(")")
    if not around.strip():
        return
    index = 0
    for hit in find_matches(compile_by_lines(pattern[:begin] + instead + pattern[end:]), text):
        while index < len(spans) and spans[index][1] <= hit.start:
            index += 1
        if index == len(spans) or hit.end <= spans[index][0]:
            yield hit


def complete_number(pattern: str, text: str, hit: Hit) -> str:
    """Return the number that `hit` reads with the sign or the exponent that it leaves out."""
    before, after = hit.number_start - 1, EXPONENT.match(text, hit.number_end)
    sign = ""
    if before >= 0 and text[before] == "-" and hit.text[:1].isdigit():
        begin, _ = find_number_span(pattern)
        is_a_sign = before == 0 or text[before - 1] in BEFORE_A_SIGN
        # A hyphen in the pattern is no sign: `layer -(\\d+)`.
        sign = "-" * (is_a_sign and not pattern[:begin].removesuffix("(").endswith("-"))
    exponent = after[0] if after and hit.text[-1:].isdigit() else ""
    return f"{sign}{hit.text}{exponent}"


def is_continued(text: str, hit: Hit) -> bool:
    """Return whether digits or an exponent follow where the pattern ends with its number."""
    return hit.end == hit.number_end and MORE_DIGITS.match(text, hit.number_end) is not None


def find_number_span(pattern: str) -> tuple[int, int]:
    """Return where the content of the group around the number begins and ends.

    For a pattern that `patterns.check_pattern` accepts: it has one such group, which contains no
    other but perhaps the step's.
    """
    groups: list[int] = []  # where the content of each open group begins; 0: not the number's
    position = 0
    while position < len(pattern):
        letter = pattern[position]
        if pattern.startswith(r"\Q", position):
            position = _skip_past(pattern, r"\E", position + 2)
            continue
        if letter == "\\":
            position += 2
            continue
        if letter == "[":
            position = _skip_class(pattern, position)
            continue
        if letter == "(":
            opening = _read_opening(pattern, position)
            groups.append(position + len(opening) if _is_number(opening) else 0)
            position += len(opening)
            continue
        if letter == ")" and groups and (begin := groups.pop()):
            return begin, position
        position += 1
    raise ValueError(f"{pattern} has no group around a number")


def _read_opening(pattern: str, position: int) -> str:
    """Return a group's beginning up to its content: `(` or `(?P<name>`; of other groups `(?`."""
    named = re.compile(r"\(\?P?<\w+>").match(pattern, position)
    if named:
        return named[0]
    return "(?" if pattern.startswith("(?", position) else "("


def _is_number(opening: str) -> bool:
    return opening == "(" or (opening.endswith(">") and not opening.endswith(f"<{STEP}>"))


def _skip_class(pattern: str, position: int) -> int:
    """Return the position after [...], in which a bracket that comes first stands for itself."""
    position += 1
    if pattern.startswith("^", position):
        position += 1
    if pattern.startswith("]", position):
        position += 1
    while position < len(pattern) and pattern[position] != "]":
        if pattern.startswith("[:", position) and ":]" in pattern[position + 2 :]:
            position = _skip_past(pattern, ":]", position + 2)
        else:
            position += 2 if pattern[position] == "\\" else 1
    return position + 1


def _skip_past(pattern: str, end: str, position: int) -> int:
    begin = pattern.find(end, position)
    return len(pattern) if begin < 0 else begin + len(end)
