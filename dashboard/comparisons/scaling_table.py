"""The scaling table of papers: GPUs in rows, environments in columns, cells such as `205 (x 3.7)`.

Below each number stands its interval, which papers leave out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dashboard.charts import Marks
from experiments.comparisons.scales import Scaling
from experiments.statistics import numbers
from experiments.statistics.scaling import Gain, Level
from experiments.statistics.values import Interval


@dataclass(frozen=True)
class Cell:
    """The value of one environment at one scale; "" where it is not known."""

    value: str = ""
    speed_up: str = ""
    small: str = ""
    """The interval and n."""


@dataclass(frozen=True)
class Row:
    """One number of GPUs, in all environments."""

    gpus: int
    scale: str
    cells: list[Cell]


@dataclass(frozen=True)
class ScalingTable:
    """The scaling table of one workload."""

    heading: str
    environments: list[tuple[str, int]]
    """Names with the indices of their symbols."""
    rows: list[Row]
    by_scale: bool
    """Whether scales differ in more than GPUs: in nodes, instances or a launcher."""


def make_scaling_table(scaling: Scaling, marks: Marks) -> ScalingTable:
    """Return the table of one workload, with one SI prefix for all values."""
    factor, unit = numbers.si([level.mean for level in scaling.levels], scaling.metric.unit)
    gains = {id(gain.level): gain for gain in scaling.gains}
    names = sorted({level.environment for level in scaling.levels}, key=lambda name: marks[name])
    levels_by_place = {
        (level.gpus, level.scale, level.environment): level for level in scaling.levels
    }
    places = sorted({(gpus, scale) for gpus, scale, _ in levels_by_place})
    rows = [
        Row(
            gpus,
            scale,
            [
                _cell(level, gains.get(id(level)), factor)
                if (level := levels_by_place.get((gpus, scale, name)))
                else Cell()
                for name in names
            ],
        )
        for gpus, scale in places
    ]
    return ScalingTable(
        heading=f"{scaling.metric.label}{f' ({unit})' if unit else ''}",
        environments=[(name, marks[name]) for name in names],
        rows=rows,
        by_scale=any(scale and scale != f"1x{gpus}" for gpus, scale in places),
    )


def _cell(level: Level, gain: Gain | None, factor: float) -> Cell:
    interval = level.ci95
    decimals = _decimals(level.mean * factor, interval, factor)
    count = f"n = {level.n}" if level.n else "n not stated"
    small = count
    if interval:
        low, high = (numbers.fixed(end * factor, decimals) for end in interval)
        small = f"[{low}, {high}], {count}"
    return Cell(
        value=numbers.fixed(level.mean * factor, decimals),
        speed_up=_speed_up(gain),
        small=small,
    )


def _speed_up(gain: Gain | None) -> str:
    if gain is None or gain.speed_up is None:
        return ""
    if gain.speed_up_ci95 is None:
        return f"x {gain.speed_up:.1f}"
    return f"x {numbers.factor(gain.speed_up, gain.speed_up_ci95)}"


def _decimals(value: float, interval: Interval | None, factor: float) -> int:
    """Return as many decimals as the interval supports; without one, at most four digits."""
    half = abs(interval[1] - interval[0]) * factor / 2 if interval else 0.0
    if half > 0:
        return min(max(1 - math.floor(math.log10(half)), 0), 6)
    digits = f"{value:.4g}".partition(".")[2] if value < 1000 else ""
    return len(digits)
