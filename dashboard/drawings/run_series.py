"""Series of one run, and samples of its node: a panel for each quantity."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from dashboard.charts.thinning import thin_curve
from dashboard.drawings.axes_figure import (
    INK,
    MUTED,
    Area,
    AxesFigure,
    Item,
    Panel,
    Path,
    Points,
    Rule,
    finish,
    make_linear_axis,
    scale_finite,
)
from experiments.statistics import numbers
from experiments.statistics.change_points import SteadyState

STEP, MEDIAN, LEVEL = 0.35, 1.5, 0.7
BLOCK = 10
"""Steps whose median is drawn as one level, where no change points were looked for."""
MOST_POINTS, MOST_LEVELS = 1200, 400
FAR = 3.0
"""Warm-up steps this many times above the slowest steady one are cut off and counted in words."""
SHADED = "Shaded: the warm-up. Thin: steps; thick: medians of stretches of them."
OF_ALL = "Of all that ran on the node; a line for each GPU. Shown, and never compared."
OF_ONE = "Of the first of {nodes} nodes of the run: the others were not sampled."
STEADY = "Dashed: the mean of the steady steps."


@dataclass(frozen=True)
class RunSeries:
    """A number that a run recorded: against the steps, or against seconds of training."""

    title: str
    unit: str
    x: Sequence[float]
    """The last step of each value, or seconds."""
    y: Sequence[float]
    warm_up: int = 0
    """Steps that no mean counts."""
    steady_state: SteadyState | None = None
    is_of_steps: bool = True
    target: float = 0.0


@dataclass(frozen=True)
class Track:
    """One quantity of the node during a run, of one GPU or of all: means at equal distances."""

    name: str
    unit: str
    means: Sequence[float | None]
    has_limit: bool = False
    """Whether its axis ends at 100 %."""


def describe_run_series(
    title: str, series: Sequence[RunSeries], *, mark: int, hide: Callable[[str], str] = str
) -> AxesFigure | None:
    """Describe a panel for each series of a run; None where it recorded none."""
    drawn = [each for each in series if any(map(math.isfinite, each.y))]
    if not drawn:
        return None
    described = [
        _describe_steps(each, mark) if each.is_of_steps else _describe_evaluations(each, mark)
        for each in drawn
    ]
    steps = [each for each in drawn if each.is_of_steps]
    notes = [sentence for _, sentence in described if sentence]
    notes += [SHADED] * bool(steps) + [STEADY] * any(map(_has_level, steps))
    return finish(
        AxesFigure(
            title=f"Inside the run: {title}",
            description=f"{len(drawn)} series.",
            panels=tuple(panel for panel, _ in described),
            notes=tuple(notes),
            columns=1 if len(drawn) == 1 else 2,
        ),
        hide,
    )


def describe_node(
    title: str,
    tracks: Sequence[Track],
    seconds: float,
    *,
    is_first_of: int = 1,
    hide: Callable[[str], str] = str,
) -> AxesFigure | None:
    """Describe a panel for each quantity of a node, a line for each GPU; None without samples.

    `is_first_of` is how many nodes the run had: where the first alone is sampled, the caption says
    so.
    """
    by_name: dict[str, list[Track]] = {}
    for track in tracks:
        if any(mean is not None for mean in track.means):
            by_name.setdefault(track.name, []).append(track)
    if not by_name:
        return None
    return finish(
        AxesFigure(
            title=f"The node during the run: {title}",
            description=f"{len(by_name)} of its quantities.",
            panels=tuple(
                _describe_quantity(name, shown, seconds) for name, shown in by_name.items()
            ),
            notes=(OF_ONE.format(nodes=is_first_of),) * (is_first_of > 1) + (OF_ALL,),
        ),
        hide,
    )


def _has_level(series: RunSeries) -> bool:
    return bool(series.steady_state and series.steady_state.steady_from is not None)


def _describe_steps(series: RunSeries, mark: int) -> tuple[Panel, str]:
    """Return the panel, and a sentence on the steps that lie above its axis."""
    ends = list(series.x)
    first = bisect_right(ends, series.warm_up)
    steady = [value for value in series.y[first:] or series.y if math.isfinite(value)]
    steady = steady or [value for value in series.y if math.isfinite(value)]
    factor, unit = numbers.si([median(steady)], series.unit)
    shown = [value * factor if math.isfinite(value) else math.nan for value in series.y]
    highest, lowest = max(steady) * factor, min(steady) * factor
    far = [value for value in shown[:first] if value > FAR * highest > 0]
    values = [lowest, highest + 0.3 * (highest - lowest or highest)] if far else shown
    axis = make_linear_axis(_write_title(series.title, unit), values)
    above = sum(value > axis.high for value in shown)
    x, y = thin_curve([float(end) for end in ends], shown, MOST_POINTS)
    items: list[Item] = []
    if series.warm_up:
        items.append(Area(0.5, min(series.warm_up, ends[-1]) + 0.5, None, None))
    items.append(Path(MUTED, tuple(x), scale_finite(y), STEP))
    items.append(_draw_medians(ends, shown, first, mark))
    if _has_level(series) and series.steady_state:
        start = bisect_right(ends, series.steady_state.steady_from or 0)
        level = [value for value in shown[start:] if math.isfinite(value)]
        if level:
            mean = sum(level) / len(level)
            left = float(series.steady_state.steady_from or 0) + 0.5
            items.append(Path(INK, (left, float(ends[-1])), (mean, mean), LEVEL, is_dashed=True))
    sentence = (
        f"{series.title}: {numbers.count(above, 'step')} above the axis, up to "
        f"{max(far):.4g} {unit}."
        if far and above
        else ""
    )
    return Panel(
        "", make_linear_axis("Step", [0.0, float(ends[-1])], from_zero=True), axis, tuple(items)
    ), sentence


def _draw_medians(ends: Sequence[float], shown: Sequence[float], first: int, mark: int) -> Path:
    """Return a level for each stretch after the warm-up."""
    size = max(BLOCK, math.ceil((len(shown) - first) / MOST_LEVELS))
    x: list[float | None] = []
    y: list[float | None] = []
    for start in range(first, len(shown), size):
        stretch = [value for value in shown[start : start + size] if math.isfinite(value)]
        if not stretch:
            continue
        left = float(ends[start - 1]) + 0.5 if start else 0.5
        right = float(ends[min(start + size, len(ends)) - 1]) + 0.5
        x += [left, right, None]
        y += [median(stretch), median(stretch), None]
    return Path(mark, tuple(x), tuple(y), MEDIAN)


def _describe_evaluations(series: RunSeries, mark: int) -> tuple[Panel, str]:
    factor, unit = numbers.si(list(series.x), "s")
    x = tuple(second * factor for second in series.x)
    y = tuple(100 * value for value in series.y)
    items: list[Item] = []
    if series.target:
        items.append(Rule(None, 100 * series.target, f"target {numbers.margin(series.target)}"))
    items += [Path(mark, x, scale_finite(y)), _draw_points(mark, x, y)]
    values = [*y, *([100 * series.target] if series.target else [])]
    return (
        Panel(
            "",
            make_linear_axis(f"Time in steps ({unit})", x, from_zero=True),
            make_linear_axis(f"{series.title} (%)", values),
            tuple(items),
        ),
        "",
    )


def _draw_points(mark: int, x: Sequence[float], y: Sequence[float]) -> Points:
    kept = [(at, value) for at, value in zip(x, y, strict=True) if math.isfinite(value)]
    return Points(mark, tuple(at for at, _ in kept), tuple(value for _, value in kept))


def _describe_quantity(name: str, tracks: Sequence[Track], seconds: float) -> Panel:
    means = [mean for track in tracks for mean in track.means if mean is not None]
    factor, unit = numbers.si([max(means)], tracks[0].unit)
    factor_of_time, unit_of_time = numbers.si([seconds], "s")
    items = []
    for track in tracks:
        count = len(track.means)
        items.append(
            Path(
                INK,
                tuple(seconds * factor_of_time * (place + 0.5) / count for place in range(count)),
                tuple(None if mean is None else mean * factor for mean in track.means),
                STEP if len(tracks) > 1 else LEVEL,
            )
        )
    ends = [100.0] if tracks[0].has_limit else [max(means) * factor]
    return Panel(
        "",
        make_linear_axis(f"Time ({unit_of_time})", [0.0, seconds * factor_of_time], from_zero=True),
        make_linear_axis(_write_title(name, unit), [0.0, *ends], from_zero=True),
        tuple(items),
        height=26.0,
    )


def _write_title(title: str, unit: str) -> str:
    return f"{title} ({unit})" if unit and unit != "1" else title
