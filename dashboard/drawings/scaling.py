"""Scaling: the value against GPUs beside its ideal, and the efficiency, in panels side by side."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dashboard.charts.scaling import choose_places, find_bases, list_base_texts
from dashboard.charts.style import log_range
from dashboard.drawings.axes_figure import (
    AxesFigure,
    Axis,
    Item,
    Key,
    Panel,
    Path,
    Points,
    Rule,
    choose_linear_ticks,
    finish,
    take_axis,
)
from experiments.statistics import Better, numbers
from experiments.statistics.scaling import Batch, Gain, Level, compute_ideal
from experiments.statistics.values import Interval

ROOM = 0.14
"""Of log10 GPUs, beside the smallest and the largest scale."""
MOST_EFFICIENCY = 200.0
POINTS = "Bars: 95 % intervals; hollow: without one. Lines: the ideal from the smallest scale."


@dataclass(frozen=True)
class Scaled:
    """One workload at several scales, with what its panels are called."""

    title: str
    metric: str
    unit: str
    better: Better
    batch: Batch
    levels: Sequence[Level]
    gains: Sequence[Gain]


def describe_scaling(
    workloads: Sequence[Scaled], *, marks: Mapping[str, int], hide: Callable[[str], str] = str
) -> AxesFigure | None:
    """Describe a row of panels for each workload; None where nothing was scaled.

    Points are beside their number of GPUs as in the charts, and not joined: nothing was measured
    between two scales.
    """
    if not workloads:
        return None
    panels = [panel for scaled in workloads for panel in _describe_workload(scaled, marks)]
    names = {level.environment for scaled in workloads for level in scaled.levels}
    keys = (
        Key("symbol", marks[name], name) for name in sorted(names, key=lambda name: marks[name])
    )
    bases = [_describe_bases(scaled, marks) for scaled in workloads]
    return finish(
        AxesFigure(
            title="Scaling",
            description=f"{numbers.count(len(workloads), 'workload')} at several scales.",
            panels=tuple(panels),
            keys=tuple(keys),
            notes=(POINTS.replace(" %", "\N{NO-BREAK SPACE}%"), *bases),
        ),
        hide,
    )


def _describe_bases(scaled: Scaled, marks: Mapping[str, int]) -> str:
    bases = list(find_bases(scaled.levels, marks).values())
    heading, *texts = list_base_texts(bases, scaled.unit)
    return f"{scaled.title}. {heading} {'; '.join(map(html.unescape, texts))}."


def _describe_workload(scaled: Scaled, marks: Mapping[str, int]) -> list[Panel]:
    panels = [_describe_values(scaled, marks)]
    if any(gain.efficiency is not None for gain in scaled.gains):
        panels.append(_describe_efficiency(scaled, marks))
    return panels


def _describe_values(scaled: Scaled, marks: Mapping[str, int]) -> Panel:
    levels = scaled.levels
    factor, unit = numbers.si([level.mean for level in levels], scaled.unit)
    places = choose_places([level.environment for level in levels], marks)
    most = max(level.gpus for level in levels)
    items: list[Item] = []
    ends: list[float] = []
    for name, base in find_bases(levels, marks).items():
        ideal = compute_ideal(base, most, better=scaled.better, batch=scaled.batch)
        if ideal is not None and base.gpus < most:
            x = (base.gpus * places[name], most * places[name])
            y = (base.mean * factor, ideal * factor)
            items.append(Path(marks[name], x, y, width=0.6, is_dashed=True))
            ends += y
        mine = [level for level in levels if level.environment == name]
        x_all = [level.gpus * places[name] for level in mine]
        y_all = [level.mean * factor for level in mine]
        intervals = [_scale(level.ci95, factor) for level in mine]
        items += _draw_points(marks[name], x_all, y_all, intervals)
        ends += [*y_all, *(end for ci in intervals for end in ci or () if 0 < end < math.inf)]
    title = f"{scaled.metric} ({unit}, log)" if unit not in ("", "1") else f"{scaled.metric} (log)"
    y_axis = take_axis(title, log_range(min(ends), max(ends)))
    return Panel(scaled.title, _make_gpu_axis(levels), y_axis, tuple(items), height=50.0)


def _describe_efficiency(scaled: Scaled, marks: Mapping[str, int]) -> Panel:
    known = [gain for gain in scaled.gains if gain.efficiency is not None]
    names = sorted({gain.level.environment for gain in known}, key=lambda name: marks[name])
    places = choose_places(names, marks)
    items: list[Item] = [Rule(None, 100.0)]
    shown = [103.0]
    for name in names:
        mine = [gain for gain in known if gain.level.environment == name]
        y = [100 * (gain.efficiency or 0) for gain in mine]
        intervals = [_scale(gain.efficiency_ci95, 100) for gain in mine]
        x = [gain.level.gpus * places[name] for gain in mine]
        items += _draw_points(marks[name], x, y, intervals)
        shown += [min(end, MOST_EFFICIENCY) for end in (*y, *(ci[1] for ci in intervals if ci))]
    high = 1.04 * max(shown)
    axis = Axis("Efficiency (%)", 0.0, high, choose_linear_ticks(0.0, high))
    gpus = _make_gpu_axis([gain.level for gain in known])
    return Panel(scaled.title, gpus, axis, tuple(items), height=50.0)


def _make_gpu_axis(levels: Sequence[Level]) -> Axis:
    gpus = sorted({level.gpus for level in levels})
    ticks = tuple((float(count), f"{count:,}") for count in gpus)
    room = 10**ROOM
    return Axis("GPUs (log)", gpus[0] / room, gpus[-1] * room, ticks, is_log=True)


def _draw_points(
    mark: int, x: Sequence[float], y: Sequence[float], intervals: Sequence[Interval | None]
) -> list[Item]:
    """Return symbols and the lines of their intervals, as long as the axis reaches."""
    known = [(at, *ends) for at, ends in zip(x, intervals, strict=True) if ends is not None]
    lines = Path(
        mark,
        tuple(place for at, _, _ in known for place in (at, at, None)),
        tuple(end for _, low, high in known for end in (low, min(high, 1e300), None)),
        width=1.6,
    )
    hollow = tuple(place for place, interval in enumerate(intervals) if interval is None)
    return [lines, Points(mark, tuple(x), tuple(y), hollow)]


def _scale(interval: Interval | None, factor: float) -> Interval | None:
    return interval and (interval[0] * factor, interval[1] * factor)
