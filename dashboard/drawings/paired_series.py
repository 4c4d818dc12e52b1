"""What two runs recorded step by step, on the same axes: a panel for each quantity."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dashboard.charts.paired_curves import choose_extent
from dashboard.charts.style import log_range
from dashboard.charts.thinning import thin_curve
from dashboard.drawings.axes_figure import (
    AxesFigure,
    Item,
    Key,
    Panel,
    Path,
    Points,
    finish,
    make_linear_axis,
    scale_finite,
    take_axis,
)
from experiments.statistics import numbers
from experiments.statistics.steps import Curve

LINE = 0.7
MOST_POINTS = 600


@dataclass(frozen=True)
class PairedCurves:
    """One quantity of two runs, or of the only one that has it; curves are named as the runs."""

    title: str
    unit: str
    curves: Sequence[Curve]
    warm_ups: Mapping[str, int]
    """How many values come before the steady ones, by the names of the runs."""
    x_title: str = "Step"
    is_log: bool = False


def describe_paired_series(
    series: Sequence[PairedCurves],
    *,
    names: Sequence[str],
    marks: Mapping[str, int],
    hide: Callable[[str], str] = str,
) -> AxesFigure | None:
    """Describe a panel for each quantity of the runs `names`; None where none has a number."""
    described = [
        _describe(each, marks)
        for each in series
        if any(math.isfinite(value) for curve in each.curves for value in curve.y)
    ]
    if not described:
        return None
    return finish(
        AxesFigure(
            title=f"Inside the runs: {' and '.join(dict.fromkeys(names))}",
            description=f"{len(described)} series, of both runs on the same axes.",
            panels=tuple(panel for panel, _ in described),
            keys=tuple(Key("line", marks[name], name) for name in dict.fromkeys(names)),
            notes=tuple(sentence for _, sentence in described if sentence),
            columns=1 if len(described) == 1 else 2,
        ),
        hide,
    )


def _describe(series: PairedCurves, marks: Mapping[str, int]) -> tuple[Panel, str]:
    """Return the panel of a quantity, and a sentence on what lies above its axis."""
    extent = choose_extent(series.curves, series.warm_ups)
    factor, unit = numbers.si(extent.steady[:1000] or extent.values[:1000], series.unit)
    title = f"{series.title} ({unit})" if unit and unit != "1" else series.title
    scaled = [value * factor for value in extent.values]
    sentence = ""
    if series.is_log and min(scaled) > 0:
        axis = take_axis(f"{title}, log", log_range(min(scaled), max(scaled)))
    elif extent.ends:
        axis = make_linear_axis(title, [end * factor for end in extent.ends])
        above = numbers.count(sum(value > axis.high for value in scaled), "value")
        furthest = f"{max(scaled):.4g} {unit}".strip()
        sentence = f"{series.title}: {above} above the axis, up to {furthest}."
    else:
        axis = make_linear_axis(title, scaled)
    items: list[Item] = []
    for curve in series.curves:
        x, y = thin_curve(curve.x, curve.y, MOST_POINTS)
        at = tuple(float(place) for place in x)
        if len(at) > 1:
            shown = scale_finite(y, factor)
            items.append(Path(marks[curve.environment], at, shown, LINE, is_dashed=True))
        elif at and math.isfinite(y[0]):
            items.append(Points(marks[curve.environment], at, (y[0] * factor,)))
    places = [float(place) for curve in series.curves for place in curve.x]
    x_axis = make_linear_axis(series.x_title, places, from_zero=True)
    return Panel("", x_axis, axis, tuple(items)), sentence
