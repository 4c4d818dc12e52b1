"""Pattern matches: the metrics of a user's program, tried on a pasted log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from runners.workloads import SanityError
from runners.workloads.missed_numbers import LIKE_A_NUMBER, find_missed, is_continued
from runners.workloads.patterns import (
    Hit,
    PatternError,
    find_first_match,
    find_hits,
    normalize_lines,
)
from runners.workloads.reading import OUTPUT, READERS, REPORT

LONGEST_LOG = 1_000_000
"""Characters that are tried."""
MOST_MATCHES = 20_000
"""Of one pattern: each is looked at several times while somebody waits."""
LINES_SHOWN = 5
AROUND = 160
"""Characters shown of a line on each side of its number."""
PASTED = "the pasted text"


@dataclass(frozen=True)
class Line:
    """A line in which a pattern has matched, cut to the surroundings of the number."""

    number: int
    before: str
    found: str
    after: str


@dataclass(frozen=True)
class PatternMatches:
    """The matches of one metric: its value in the pasted text, or why it has none."""

    name: str
    unit: str
    take: str
    warm_up: int = 0
    """First matches that no mean counts."""
    value: float | None = None
    count: int = 0
    problem: str = ""
    lines: list[Line] = field(default_factory=list)
    passed_over: list[Line] = field(default_factory=list)
    """Lines that match but for their number."""
    cut: list[Line] = field(default_factory=list)
    """Lines whose number goes on where the pattern ends."""

    is_check: bool = False
    """True for the patterns of success and failure, which read no number."""

    @property
    def number(self) -> str:
        return f"{self.value:.6g}" if self.value is not None else ""

    @property
    def explanation(self) -> str:
        """Return how the value comes from its matches: "the mean of 5"."""
        if self.count < 2:
            return "the only match" if self.count else ""
        taken = {"last": "the last", "mean": "the mean", "series": "the mean, each a step,"}
        taken["running_rate"] = "the last, a mean of all steps so far,"
        sentence = f"{taken.get(self.take, self.take)} of {self.count}"
        if not self.warm_up or self.take == "last":
            return sentence
        return f"{sentence} without the first {self.warm_up}, the warm-up"

    @property
    def more(self) -> int:
        return self.count - len(self.lines)


def try_patterns(parameters: Mapping[str, Any], log: str) -> list[PatternMatches]:
    """Return what each row of `parameters["metrics"]` reads in `log`, as if a run had left it."""
    text = normalize_lines(log[:LONGEST_LOG].encode(errors="replace"))
    return (
        [
            *(_try_pattern(row, parameters, text) for row in parameters["metrics"]),
            *_try_checks(parameters, text),
        ]
        if text.strip()
        else []
    )


def _try_pattern(
    row: Mapping[str, str], parameters: Mapping[str, Any], text: str
) -> PatternMatches:
    blank = PatternMatches(
        row["name"] or row["find"], row["unit"], row["take"], parameters["burn_in"]
    )
    by_patterns = parameters["read"] == "patterns"
    metric = {**row, "find": row["find"] or row["name"], "name": "value"}
    lines: list[Line] = []
    try:
        if by_patterns:
            hits = list(islice(find_hits(row["find"], text), MOST_MATCHES + 1))
            if len(hits) > MOST_MATCHES:
                raise PatternError(f"more than {MOST_MATCHES:,} matches; paste less of the log")
            lines = _lines_of_hits(hits, text)
            cut = (hit for hit in hits if is_continued(text, hit))
            missed = find_missed(row["find"], text, LIKE_A_NUMBER, hits=hits)
            blank = replace(
                blank,
                passed_over=_lines_of_hits(islice(missed, LINES_SHOWN), text),
                cut=_lines_of_hits(islice(cut, LINES_SHOWN), text),
            )
        run_files = {name: text.encode() for name in (OUTPUT, PASTED, REPORT)}
        file = "" if by_patterns else PASTED
        read = READERS[parameters["read"]]
        result = read(run_files, {**parameters, "file": file, "metrics": [metric]})
    except (SanityError, PatternError) as problem:
        why = str(problem).removeprefix(f"{PASTED}: ").removeprefix("value: ")
        why = why.removeprefix("value is ").removeprefix("value, ")
        sentence = f"{why[:1].upper()}{why[1:]}"
        return replace(blank, problem=sentence, lines=lines[:LINES_SHOWN])
    value = result.measurements.get("value", (None, ""))[0]
    return replace(blank, value=value, count=len(lines), lines=lines[:LINES_SHOWN])


def _try_checks(parameters: Mapping[str, Any], text: str) -> Iterator[PatternMatches]:
    """Yield what the patterns of success and failure say of the text."""
    for kind in ("success", "failure"):
        if not (pattern := parameters.get(f"{kind}_pattern")):
            continue
        blank = PatternMatches(f"{kind} pattern", "1", "last", value=None)
        try:
            span = find_first_match(pattern, text)
        except PatternError as error:
            yield replace(blank, problem=f"This cannot be used: {error}")
            continue
        lines = []
        if span:
            hit = Hit(*span, *span, text[slice(*span)].partition("\n")[0])
            lines = _lines_of_hits([replace(hit, number_end=span[0] + len(hit.text))], text)
        is_bad = bool(span) == (kind == "failure")
        found = "matches" if span else "never matches"
        problem = f"It {found}: a run that leaves this is not sane" if is_bad else ""
        yield replace(blank, problem=problem, lines=lines, count=len(lines), is_check=True)


def _lines_of_hits(hits: Iterable[Hit], text: str) -> list[Line]:
    """Return the lines of these matches, in order."""
    lines, number, position = [], 1, 0
    for hit in hits:
        number += text.count("\n", position, hit.number_start)
        position = hit.number_start
        start = max(text.rfind("\n", 0, hit.number_start) + 1, hit.number_start - AROUND)
        end = text.find("\n", hit.number_end)
        end = min(len(text) if end < 0 else end, hit.number_end + AROUND)
        before, after = text[start : hit.number_start], text[hit.number_end : end]
        lines.append(Line(number, before, text[hit.number_start : hit.number_end], after))
    return lines
