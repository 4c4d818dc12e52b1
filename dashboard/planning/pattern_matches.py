"""Metrics of a user's program tried on a log that was pasted: what each of them would read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from runners.workloads import SanityError
from runners.workloads.missed_numbers import LIKE_A_NUMBER, find_missed, is_continued
from runners.workloads.patterns import Hit, PatternError, find_hits, normalize_lines
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
    """A line in which a pattern has matched, cut to what stands around the number."""

    number: int
    before: str
    found: str
    after: str


@dataclass(frozen=True)
class Tried:
    """One metric: its value in the pasted text, or why it has none."""

    name: str
    unit: str
    take: str
    value: float | None = None
    count: int = 0
    problem: str = ""
    lines: list[Line] = field(default_factory=list)
    passed_over: list[Line] = field(default_factory=list)
    """Lines that match but for their number."""
    cut: list[Line] = field(default_factory=list)
    """Lines whose number goes on where the pattern ends."""

    @property
    def number(self) -> str:
        return f"{self.value:.6g}" if self.value is not None else ""

    @property
    def said(self) -> str:
        """What the value is of how many matches."""
        if self.count < 2:
            return "the only match" if self.count else ""
        words = {"last": "the last", "mean": "the mean", "series": "the mean, each a step,"}
        words["running_rate"] = "the last, a mean of all steps so far,"
        return f"{words.get(self.take, self.take)} of {self.count}"

    @property
    def more(self) -> int:
        return self.count - len(self.lines)


def tried(parameters: Mapping[str, Any], log: str) -> list[Tried]:
    """What each row of `parameters["metrics"]` reads in `log`, as if a run had left that."""
    text = normalize_lines(log[:LONGEST_LOG].encode(errors="replace"))
    return [_tried(row, parameters, text) for row in parameters["metrics"]] if text.strip() else []


def _tried(row: Mapping[str, str], parameters: Mapping[str, Any], text: str) -> Tried:
    blank = Tried(row["name"] or row["find"], row["unit"], row["take"])
    by_patterns = parameters["read"] == "patterns"
    asked = {**row, "find": row["find"] or row["name"], "name": "value"}
    lines: list[Line] = []
    try:
        if by_patterns:
            found = list(islice(find_hits(row["find"], text), MOST_MATCHES + 1))
            if len(found) > MOST_MATCHES:
                raise PatternError(f"more than {MOST_MATCHES:,} matches; paste less of the log")
            lines = _lines(found, text)
            cut = (hit for hit in found if is_continued(text, hit))
            beside = find_missed(row["find"], text, LIKE_A_NUMBER, hits=found)
            blank = replace(
                blank,
                passed_over=_lines(islice(beside, LINES_SHOWN), text),
                cut=_lines(islice(cut, LINES_SHOWN), text),
            )
        left = {name: text.encode() for name in (OUTPUT, PASTED, REPORT)}
        file = "" if by_patterns else PASTED
        read = READERS[parameters["read"]]
        result = read(left, {**parameters, "file": file, "metrics": [asked]})
    except (SanityError, PatternError) as problem:
        why = str(problem).removeprefix(f"{PASTED}: ").removeprefix("value: ")
        why = why.removeprefix("value is ").removeprefix("value, ")
        said = f"{why[:1].upper()}{why[1:]}"
        return replace(blank, problem=said, lines=lines[:LINES_SHOWN])
    value = result.measurements.get("value", (None, ""))[0]
    return replace(blank, value=value, count=len(lines), lines=lines[:LINES_SHOWN])


def _lines(found: Iterable[Hit], text: str) -> list[Line]:
    """The lines of these matches, in order."""
    lines, number, counted = [], 1, 0
    for hit in found:
        number += text.count("\n", counted, hit.number_start)
        counted = hit.number_start
        start = max(text.rfind("\n", 0, hit.number_start) + 1, hit.number_start - AROUND)
        end = text.find("\n", hit.number_end)
        end = min(len(text) if end < 0 else end, hit.number_end + AROUND)
        before, after = text[start : hit.number_start], text[hit.number_end : end]
        lines.append(Line(number, before, text[hit.number_start : hit.number_end], after))
    return lines
