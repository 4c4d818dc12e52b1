"""Margins: how much slower, and how much faster, still counts as the same."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from experiments.statistics import numbers

if TYPE_CHECKING:
    from experiments.statistics.values import Better, Interval


class Goal(StrEnum):
    """What an experiment is to show, by its plan."""

    EQUIVALENCE = "equivalence"
    NOT_SLOWER = "not slower"


@dataclass(frozen=True)
class Margin:
    """Fractions of the time: 0.02 slower is 1.02 times as long, 0.02 faster is 1 / 1.02.

    On the scale of logarithms 1/1.02 and 1.02 are equally far from 1, and so swapping both
    environments mirrors a verdict. ValueError for what is no positive fraction.
    """

    slower: float
    faster: float
    """Infinite where it does not matter how much faster: the goal is then "not slower"."""

    def __post_init__(self) -> None:
        if not (0 < self.slower < math.inf and self.faster > 0):
            wrong = self.faster if 0 < self.slower < math.inf else self.slower
            raise ValueError(f"A margin is a positive fraction such as 0.02, not {wrong}.")

    @classmethod
    def of(cls, margin: float | Margin) -> Margin:
        """Return a margin; a number is one that is as large in both directions."""
        return margin if isinstance(margin, Margin) else cls(margin, margin)

    @classmethod
    def make(cls, goal: str, slower: float, faster: float | None = None) -> Margin:
        """Return the margin of a plan; without `faster` it is as large in both directions."""
        if goal == Goal.NOT_SLOWER:
            return cls(slower, math.inf)
        return cls(slower, slower if faster is None else faster)

    @property
    def goal(self) -> Goal:
        return Goal.NOT_SLOWER if self.faster == math.inf else Goal.EQUIVALENCE

    @property
    def is_symmetric(self) -> bool:
        """Return whether both directions are alike: then it does not matter which is better."""
        return self.slower == self.faster

    @property
    def log_cost_bounds(self) -> Interval:
        """Return the bounds of ln(cost), where more is slower."""
        return -math.log1p(self.faster), math.log1p(self.slower)

    def find_log_bounds(self, better: Better | None) -> Interval:
        """Return the bounds of ln(ratio) of a metric."""
        low, high = self.log_cost_bounds
        return (-high, -low) if better == "higher" else (low, high)

    def find_bounds(self, better: Better | None) -> Interval:
        """Return the bounds of the ratio of a metric: 0 or infinite where there is none."""
        low, high = 1 / (1 + self.faster), 1 + self.slower
        return (1 / high, 1 / low if low else math.inf) if better == "higher" else (low, high)

    def find_common_bounds(self, directions: Iterable[Better | None]) -> Interval | None:
        """Return the bounds that all metrics of these directions have; None where they differ."""
        bounds = {self.find_bounds(better) for better in directions} or {self.find_bounds(None)}
        if self.is_symmetric:
            return self.find_bounds(None)
        return bounds.pop() if len(bounds) == 1 else None

    @property
    def largest(self) -> float:
        """Return the larger of what is finite."""
        return self.slower if self.faster == math.inf else max(self.slower, self.faster)

    @property
    def text(self) -> str:
        """Return it as part of a sentence: "2 %", "2 % faster to 5 % slower"."""
        return self.describe()

    def describe(self, *, less: str = "faster", more: str = "slower") -> str:
        """Return the text with other words for both directions: "2 % less to 5 % more"."""
        slower = numbers.margin(self.slower)
        if self.is_symmetric or self.goal is Goal.NOT_SLOWER:
            return slower
        return f"{numbers.margin(self.faster)} {less} to {slower} {more}"


def describe_bounds(bounds: Interval) -> str:
    """Return bounds of the ratio as text: "ratios 0.980 to 1.020", "ratios up to 1.020"."""
    low, high = (numbers.fixed(end, 3) for end in bounds)
    if bounds[0] == 0:
        return f"ratios up to {high}"
    return f"ratios from {low} on" if bounds[1] == math.inf else f"ratios {low} to {high}"
