"""Figures with axes as descriptions: what is where in units of the data, before any millimetre.

A pure function per figure fills them from the statistics' dataclasses; `axes_layout` gives all of
them places on paper. Numbers are finite: what is missing is None in a path, and left out of points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any

from dashboard.drawings.typeface import clean

MUTED, INK = -1, -2
"""Marks of what belongs to no environment."""
MOST_LINEAR = 6


@dataclass(frozen=True)
class Axis:
    """A scale from `low` to `high`; of its ticks those are drawn whose labels have room."""

    title: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    is_log: bool = False
    has_names: bool = False
    """Whether its ticks are names: all of them stand there, in several lines, without a grid."""

    def find_share(self, value: float) -> float:
        """Return where a value lies: 0 at `low`, 1 at `high`; far outside where a log has none."""
        if not self.is_log:
            return (value - self.low) / (self.high - self.low)
        if value <= 0:
            return -10.0
        return math.log(value / self.low) / math.log(self.high / self.low)


@dataclass(frozen=True)
class Points:
    """Symbols of one environment; those with an index in `hollow` are rings."""

    mark: int
    x: tuple[float, ...]
    y: tuple[float, ...]
    hollow: tuple[int, ...] = ()
    is_small: bool = False


@dataclass(frozen=True)
class Path:
    """Lines from point to point, with a gap where a coordinate is None; `width` is in points."""

    mark: int
    x: tuple[float | None, ...]
    y: tuple[float | None, ...]
    width: float = 0.9
    is_dashed: bool = False
    """Whether it has the dashes of its environment; of none, it has short ones."""
    is_pale: bool = False


@dataclass(frozen=True)
class Area:
    """A rectangle; an end that is None is that of the axis."""

    left: float | None
    right: float | None
    bottom: float | None
    top: float | None
    colour: str = "band"
    """"band", "mark 3" for an environment, or "phase 2" for a phase of a run."""
    text: str = ""
    """Written in its middle where there is room."""


@dataclass(frozen=True)
class Band:
    """What lies between two lines over x, in a pale shade; a gap where a coordinate is None."""

    mark: int
    x: tuple[float, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


@dataclass(frozen=True)
class Rule:
    """A line across the panel at a value of x or y, the other being None, with its name."""

    x: float | None
    y: float | None
    text: str = ""
    is_dashed: bool = True


@dataclass(frozen=True)
class Note:
    """A text right of a point, such as the number at the end of a bar; or left of it."""

    x: float
    y: float
    text: str
    is_bold: bool = False
    is_left: bool = False
    ground: str = ""
    """"paper" or "band": what covers the lines behind it; "" where there are none."""


Item = Points | Path | Area | Band | Rule | Note


@dataclass(frozen=True)
class Panel:
    """One pair of axes; `height` is of the plot alone, in millimetres."""

    title: str
    x: Axis
    y: Axis
    items: tuple[Item, ...]
    height: float = 44.0


@dataclass(frozen=True)
class Key:
    """A line of the key: an environment's symbol, a phase's colour, or a line, with its name."""

    kind: str
    """"symbol", "line", "both" or "phase"."""
    index: int
    text: str


@dataclass(frozen=True)
class AxesFigure:
    """Panels in reading order, `columns` of them beside each other on 180 mm."""

    title: str
    description: str
    panels: tuple[Panel, ...]
    keys: tuple[Key, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences below: what is not drawn, what lines stand for."""
    columns: int = 2


def finish(figure: AxesFigure, hide: Callable[[str], str]) -> AxesFigure:
    """Return the figure with its texts as they are drawn: without hidden names, on one line."""
    finished: AxesFigure = _change(figure, cache(lambda text: clean(hide(text))))
    return finished


_NO_TEXTS = {"colour", "kind", "ground"}
_NUMBERS = {float, int, type(None)}


def _change(thing: Any, change: Callable[[str], str]) -> Any:
    if isinstance(thing, str):
        return change(thing)
    if isinstance(thing, tuple):
        if _NUMBERS.issuperset(map(type, thing)):  # thousands of coordinates
            return thing
        return tuple(_change(part, change) for part in thing)
    if is_dataclass(thing) and not isinstance(thing, type):
        changed = {
            each.name: _change(getattr(thing, each.name), change)
            for each in fields(thing)
            if each.name not in _NO_TEXTS
        }
        return replace(thing, **changed)
    return thing


def take_axis(title: str, chart_axis: dict[str, Any]) -> Axis:
    """Return the log axis that a chart would have: `log_range` or `close_log_range`."""
    low, high = (10.0**end for end in chart_axis["range"])
    ticks = zip(chart_axis["tickvals"], chart_axis["ticktext"], strict=True)
    return Axis(title, low, high, tuple(ticks), is_log=True)


def make_linear_axis(
    title: str, values: Iterable[float], *, from_zero: bool = False, most: int = MOST_LINEAR
) -> Axis:
    """Return a linear axis around these values, with at most about `most` round ticks."""
    finite = list(filter(math.isfinite, values))
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    if from_zero:
        low = min(low, 0.0)
    room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    low, high = (low if from_zero and low == 0 else low - room), high + room
    return Axis(title, low, high, choose_linear_ticks(low, high, most))


def choose_linear_ticks(
    low: float, high: float, most: int = MOST_LINEAR
) -> tuple[tuple[float, str], ...]:
    """Return at most about `most` multiples of a round step between both ends, with labels."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= rough * (1 - 1e-9))
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple((i * step, write_tick(i * step, decimals)) for i in range(first, last + 1))


def write_tick(value: float, decimals: int) -> str:
    """Return a number for an axis: with separators between thousands, and a true minus."""
    return f"{value + 0.0:,.{decimals}f}".replace("-", "\N{MINUS SIGN}")


def scale_finite(values: Iterable[float], factor: float = 1.0) -> tuple[float | None, ...]:
    """Return the values times a factor; None, a gap in a line, for each that is not finite."""
    return tuple([value * factor if math.isfinite(value) else None for value in values])


def name_axis(names: Sequence[str], *, room: float = 0.6) -> Axis:
    """Return an axis of names at 0, 1, 2 ..., the first one on top or on the left."""
    ticks = tuple((float(place), name) for place, name in enumerate(names))
    return Axis("", -room, len(names) - 1 + room, ticks, has_names=True)


def turn_down(axis: Axis) -> Axis:
    """Return the axis the other way round, so that its first name is on top."""
    return replace(axis, low=axis.high, high=axis.low)
