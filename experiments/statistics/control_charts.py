"""Control charts: values of one plan over time, with limits from their own history.

An individuals chart on the log scale. A value is judged by Student's prediction interval from the
values before it, up to the first 20; then the limits are fixed, so that a slow drift leaves them.
docs/statistics.md has the reasons, and how often it raises a false alarm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from experiments.statistics.estimates import IDENTICAL, LARGEST_LOG

FEWEST = 8
"""Values from which limits are computed."""
MOST = 20
"""Values after which the limits are fixed."""
FALSE_ALARMS = 0.01
"""The share of recurrences in which any chart of the page raises a false alarm, at most."""
LEVEL = 0.008
"""Of all charts together. Leaving out what left the limits makes those after it narrower, which
adds a fifth to the false alarms (simulated)."""


@dataclass(frozen=True)
class Limits:
    """Where the next value lies, in the unit of the values."""

    low: float
    centre: float
    high: float
    values: int
    """Of how many earlier values they are computed."""

    @property
    def are_fixed(self) -> bool:
        return self.values >= MOST


@dataclass(frozen=True)
class ChartPoint:
    """The value of one recurrence, and how it was judged."""

    number: int
    """Of the recurrence, from 1."""
    value: float | None
    """None where there is none that is finite and above 0."""
    problem: str = ""
    """Why there is no value, or why it is not judged."""
    limits: Limits | None = None
    """The limits by which it was judged; None where it was not."""
    verdict: str = ""
    """Of a ratio: the verdict of its recurrence."""
    stamps: tuple[str, ...] = ()
    """The values of the stamps beside that verdict."""

    @property
    def is_outside(self) -> bool:
        """Return whether it has left the limits."""
        if self.limits is None or self.value is None:
            return False
        # What is equal but for rounding has left nothing.
        value, rounding = math.log(self.value), IDENTICAL
        return (
            value < math.log(self.limits.low) - rounding
            or value > math.log(self.limits.high) + rounding
        )


@dataclass(frozen=True)
class ControlChart:
    """The values of one environment in one configuration, over all recurrences."""

    configuration: str
    environment: str
    baseline: str
    """With which the environment is compared; "" where its own level is shown."""
    metric: str
    unit: str
    """Of the level; "" for a ratio."""
    points: tuple[ChartPoint, ...] = ()
    rank: int = 0
    """Of its metric: 0 is the primary one, then the further decisive ones, then those asked for."""
    is_requested: bool = False
    """Whether its metric decides nothing and was asked for."""

    @property
    def is_ratio(self) -> bool:
        return bool(self.baseline)

    @property
    def name(self) -> str:
        """Return what is charted: "Apptainer / bare metal", "level of bare metal".

        With the metric unless that is the primary one, whose charts are called the same however
        many others there are: of one that was told nobody is to be told again.
        """
        return f"{self.metric}, {self.short_name}" if self.rank else self.short_name

    @property
    def short_name(self) -> str:
        """Return what is charted of its metric."""
        if self.is_ratio:
            return f"{self.environment} / {self.baseline}"
        return f"level of {self.environment}"

    @property
    def title(self) -> str:
        """Return what heads its column and its panel; names of environments stay as they are."""
        return self.short_name if self.is_ratio else f"Level of {self.environment}"

    @property
    def last(self) -> ChartPoint | None:
        """Return the last point that has a value."""
        return next((point for point in reversed(self.points) if point.value is not None), None)

    @property
    def limits(self) -> Limits | None:
        """Return the limits by which the last value was judged."""
        return next((point.limits for point in reversed(self.points) if point.limits), None)

    @property
    def outside(self) -> list[int]:
        """Return the numbers of the recurrences that left the limits."""
        return [point.number for point in self.points if point.is_outside]


def judge_points(
    points: Sequence[ChartPoint], alpha: float, *, first: int = 1
) -> tuple[ChartPoint, ...]:
    """Return the points with the limits by which each is judged, at the level `alpha`.

    Limits come from the values before a point, from the recurrence `first` on; those that left the
    limits do not count, nor those with a problem. Recurrences before `first` are not judged.
    """
    known: list[float] = []
    limits: Limits | None = None
    judged = []
    for point in points:
        value = _take_log(point.value)
        if value is None:
            problem = point.problem or "It has no value above 0."
            judged.append(replace(point, value=None, problem=problem))
            continue
        if point.problem or point.number < first:
            judged.append(point)
            continue
        point = replace(point, limits=limits)
        judged.append(point)
        if not point.is_outside and len(known) < MOST:
            known.append(value)
            limits = compute_limits(known, alpha)
    return tuple(judged)


def compute_limits(logs: Sequence[float], alpha: float) -> Limits | None:
    """Return the prediction interval for one more value, from logs; None for too few of them."""
    count = len(logs)
    if count < FEWEST:
        return None
    centre = math.fsum(logs) / count
    variance = math.fsum((value - centre) ** 2 for value in logs) / (count - 1)
    half = _find_quantile(alpha, count - 1) * math.sqrt(variance * (1 + 1 / count))
    low, middle, high = (
        math.exp(min(max(value, -LARGEST_LOG), LARGEST_LOG))
        for value in (centre - half, centre, centre + half)
    )
    return Limits(low, middle, high, count)


@cache
def _find_quantile(alpha: float, df: int) -> float:
    from experiments.statistics.special_functions import stdtrit  # lazily, as in estimates

    return -float(stdtrit(df, alpha / 2))


def choose_alpha(charts: int) -> float:
    """Return the level of each chart, with which all together keep `FALSE_ALARMS` (Bonferroni)."""
    return LEVEL / max(charts, 1)


def _take_log(value: float | None) -> float | None:
    """Return the log of a value; None of what has none."""
    if value is None or not math.isfinite(value) or value <= 0:
        return None
    return math.log(value)
