"""Numbers that stand in a text where a pattern looks for one, and that it does not read. Pure.

`speed: ([\\d.]+)` passes over `speed: nan`, and of `speed: 1.2e+03` it reads 1.2. Whoever takes the
last match, or the mean of all, would get a wrong value and not know it.
"""

import re
from collections.abc import Iterable, Iterator

from runners.workloads.patterns import STEP, Hit, hits, matches, of_lines

NOT_FINITE = r"[-+]?(?i:nan|inf(?:inity)?)\b"
SIGNED = r"[-+](?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
PASSED_OVER = rf"{NOT_FINITE}|{SIGNED}"
"""What a pattern of digits passes over, and what is a number for certain."""
LIKE_A_NUMBER = rf"{PASSED_OVER}|(?i:none|null|n/?a)\b|\*{{3,}}|-{{2,}}|\d[\d.,']*(?:[eE][-+]?\d+)?"
"""These too, and what programs print in a number's place."""
EXPONENT = re.compile(r"[eE][-+]?\d+(?!\w)")
MORE_DIGITS = re.compile(r"[.,']?\d|[eE][-+]?\d")
BEFORE_A_SIGN = " \t\n=:([,;|"


def missed(
    pattern: str, text: str, instead: str = PASSED_OVER, *, found: Iterable[Hit] | None = None
) -> Iterator[Hit]:
    """Yield each place where `pattern` would match if its number were `instead`, and does not.

    Nothing for a pattern without anything around its number. `found` is all that it matches in
    `text`, where that is known. Raises PatternError.
    """
    read = [(hit.start, hit.end) for hit in (hits(pattern, text) if found is None else found)]
    begin, end = number_span(pattern)
    around = pattern[:begin].removesuffix("(") + pattern[end:].removeprefix(")")
    if not around.strip():
        return
    place = 0
    for hit in matches(of_lines(pattern[:begin] + instead + pattern[end:]), text):
        while place < len(read) and read[place][1] <= hit.start:
            place += 1
        if place == len(read) or hit.end <= read[place][0]:
            yield hit


def whole_number(pattern: str, text: str, hit: Hit) -> str:
    """Return the number that `hit` reads with the sign or the exponent that it leaves out."""
    before, after = hit.number_start - 1, EXPONENT.match(text, hit.number_end)
    sign = ""
    if before >= 0 and text[before] == "-" and hit.text[:1].isdigit():
        begin, _ = number_span(pattern)
        is_a_sign = before == 0 or text[before - 1] in BEFORE_A_SIGN
        # Whoever writes a hyphen there means it: `layer -(\\d+)`.
        sign = "-" * (is_a_sign and not pattern[:begin].removesuffix("(").endswith("-"))
    exponent = after[0] if after and hit.text[-1:].isdigit() else ""
    return f"{sign}{hit.text}{exponent}"


def goes_on(text: str, hit: Hit) -> bool:
    """Whether digits, or an exponent, follow where the pattern ends with its number."""
    return hit.end == hit.number_end and MORE_DIGITS.match(text, hit.number_end) is not None


def number_span(pattern: str) -> tuple[int, int]:
    """Return where the content of the group around the number begins and ends.

    Of a pattern that `patterns.check` accepts: it has one such group, which holds no other but
    perhaps the step's.
    """
    groups: list[int] = []  # where the content of each open group begins; 0: not the number's
    place = 0
    while place < len(pattern):
        letter = pattern[place]
        if pattern.startswith(r"\Q", place):
            place = _after(pattern, r"\E", place + 2)
            continue
        if letter == "\\":
            place += 2
            continue
        if letter == "[":
            place = _after_class(pattern, place)
            continue
        if letter == "(":
            opening = _opening(pattern, place)
            groups.append(place + len(opening) if _is_number(opening) else 0)
            place += len(opening)
            continue
        if letter == ")" and groups and (begin := groups.pop()):
            return begin, place
        place += 1
    raise ValueError(f"{pattern} has no group around a number")


def _opening(pattern: str, place: int) -> str:
    """A group's beginning up to its content: `(`, `(?P<name>`; of others `(` and `(?`."""
    named = re.compile(r"\(\?P?<\w+>").match(pattern, place)
    if named:
        return named[0]
    return "(?" if pattern.startswith("(?", place) else "("


def _is_number(opening: str) -> bool:
    return opening == "(" or (opening.endswith(">") and not opening.endswith(f"<{STEP}>"))


def _after_class(pattern: str, place: int) -> int:
    """The place after [...], in which a bracket that comes first stands for itself."""
    place += 1
    if pattern.startswith("^", place):
        place += 1
    if pattern.startswith("]", place):
        place += 1
    while place < len(pattern) and pattern[place] != "]":
        if pattern.startswith("[:", place) and ":]" in pattern[place + 2 :]:
            place = _after(pattern, ":]", place + 2)
        else:
            place += 2 if pattern[place] == "\\" else 1
    return place + 1


def _after(pattern: str, end: str, place: int) -> int:
    found = pattern.find(end, place)
    return len(pattern) if found < 0 else found + len(end)
