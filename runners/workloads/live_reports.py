"""What a running program has reported so far, thinned to what a chart shows. No I/O.

The lines are those of `runners.workloads.reports`, read in portions as they are written. They are
only shown: a line that is odd is counted and left out, and none stops the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runners.workloads.given import LONGEST_UNIT
from runners.workloads.results import LARGEST, SanityError, parse, parse_name, parse_number

MOST_STRETCHES = 120
"""Of a curve. With more values each stretch holds twice as many, and so on."""
MOST_CURVES = 8
MOST_PHASES = 40
LATEST_STEP = 10**12


@dataclass
class Stretch:
    """Consecutive values of a curve: the smallest, the largest, their sum and their number."""

    low: float = math.inf
    high: float = -math.inf
    total: float = 0.0
    count: int = 0

    def add(self, other: Stretch) -> None:
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.total += other.total
        self.count += other.count


@dataclass
class LiveCurve:
    """The values of one series so far, in at most MOST_STRETCHES of `width` values each."""

    unit: str
    count: int = 0
    """Values so far; those that are no finite number are counted, and in no stretch."""
    width: int = 1
    stretches: list[Stretch] = field(default_factory=list)

    @property
    def latest(self) -> float | None:
        """Return the mean of the last stretch; None while it has no values."""
        last = next((stretch for stretch in reversed(self.stretches) if stretch.count), None)
        return last.total / last.count if last else None

    def add(self, values: Sequence[Any], first: int | None = None) -> None:
        """Add the values from the position `first` on; those that are known already are skipped."""
        position = self.count if first is None else first
        if position < self.count:
            values = values[self.count - position :]
            position = self.count
        for value in values:
            self._add(position, value)
            position += 1
        self.count = max(self.count, position)

    def _add(self, position: int, value: Any) -> None:
        while position // self.width >= MOST_STRETCHES:
            self._merge_pairs()
        place = position // self.width
        while len(self.stretches) <= place:
            self.stretches.append(Stretch())
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST:
            self.stretches[place].add(Stretch(float(value), float(value), float(value), 1))

    def _merge_pairs(self) -> None:
        for left, right in zip(self.stretches[::2], self.stretches[1::2], strict=False):
            left.add(right)
        self.stretches = self.stretches[::2]
        self.width *= 2


@dataclass
class LiveReport:
    """All that a running program has reported so far."""

    curves: dict[str, LiveCurve] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)
    warm_up: int | None = None
    """Its first steps that no mean will count; None where the program has not said."""
    odd_lines: int = 0

    def add_lines(self, content: bytes, *, is_all: bool = True) -> int:
        """Add the whole lines of `content`; return how many bytes they take.

        Of what is not `is_all`, because no more fits into an answer, a line without an end is
        given up: it would never fit.
        """
        whole, newline, _ = content.rpartition(b"\n")
        if not newline:
            if is_all:
                return 0
            self.odd_lines += 1
            return len(content)
        for line in whole.split(b"\n"):
            if line.strip():
                try:
                    self._add_line(parse(line))
                except SanityError:
                    self.odd_lines += 1
        return len(whole) + 1

    def _add_line(self, line: Mapping[str, Any]) -> None:
        if isinstance(line.get("step"), dict):
            for name, value in line["step"].items():
                if curve := self._find_curve(parse_name(name), None):
                    curve.add([value])
        if "series" in line:
            self._add_series(line)
        if "phase" in line:
            name, seconds = parse_name(line["phase"]), parse_number(line.get("seconds"), "phase")
            self._set_phases({name: self.phases.get(name, 0.0) + seconds})
        if isinstance(line.get("phases"), dict):
            self._set_phases(line["phases"])
        if isinstance(line.get("facts"), dict):
            steps = line["facts"].get("burn_in")
            if isinstance(steps, int) and not isinstance(steps, bool) and 0 <= steps < LATEST_STEP:
                self.warm_up = steps

    def _add_series(self, line: Mapping[str, Any]) -> None:
        name, values, first = parse_name(line["series"]), line.get("values"), line.get("from")
        if not isinstance(values, list):
            raise SanityError(f"the values of {name!r} are not a list of numbers")
        if first is not None:
            parse_number(first, "from")
            if not isinstance(first, int) or not 0 <= first < LATEST_STEP:
                raise SanityError(f"{name!r} goes on at {first!r}")
        if curve := self._find_curve(name, line.get("unit")):
            curve.add(values, first)

    def _find_curve(self, name: str, unit: Any) -> LiveCurve | None:
        """Return the curve of a series, a new one if need be; None if there are MOST_CURVES."""
        if name not in self.curves:
            if len(self.curves) == MOST_CURVES:
                return None
            self.curves[name] = LiveCurve("s" if name == "step_time" else "1")
        curve = self.curves[name]
        if isinstance(unit, str) and 0 < len(unit) <= LONGEST_UNIT and unit.isprintable():
            curve.unit = unit
        return curve

    def _set_phases(self, phases: Mapping[str, Any]) -> None:
        for name, seconds in phases.items():
            known = parse_name(name)
            if known in self.phases or len(self.phases) < MOST_PHASES:
                self.phases[known] = max(parse_number(seconds, known), 0.0)

    def build_document(self) -> dict[str, Any]:
        """Return it as a document of JSON, from which `restore_report` makes it again."""
        return {
            "curves": {
                name: {
                    "unit": curve.unit,
                    "count": curve.count,
                    "width": curve.width,
                    "stretches": [
                        [stretch.low, stretch.high, stretch.total, stretch.count]
                        if stretch.count
                        else []
                        for stretch in curve.stretches
                    ],
                }
                for name, curve in self.curves.items()
            },
            "phases": self.phases,
            "warm_up": self.warm_up,
            "odd_lines": self.odd_lines,
        }


def restore_report(document: Mapping[str, Any]) -> LiveReport:
    """Return the report whose `build_document` returned this; an empty one of {}."""
    curves = {
        name: LiveCurve(
            curve["unit"],
            curve["count"],
            curve["width"],
            [Stretch(*stretch) for stretch in curve["stretches"]],
        )
        for name, curve in document.get("curves", {}).items()
    }
    return LiveReport(
        curves,
        dict(document.get("phases", {})),
        document.get("warm_up"),
        document.get("odd_lines", 0),
    )
