"""Plot of one number inside two runs, step by step, on the same axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dashboard.charts.style import (
    Figure,
    Marks,
    axis,
    colour,
    dash,
    label,
    layout,
    legend_room,
    log_range,
    meta,
    with_unit,
)
from dashboard.charts.thinning import thin_curve
from experiments.statistics import numbers
from experiments.statistics.steps import Curve

FAR = 3.0
"""Values so many times above all later ones are cut off, and counted in words."""


@dataclass(frozen=True)
class Extent:
    """Between which values the axis of curves goes."""

    values: list[float]
    """All of the curves that are numbers."""
    steady: list[float]
    """Those after the warm-up, or all of a curve that has no others."""
    ends: tuple[float, float] | None
    """Where the axis ends below what is far above all steady values; None where nothing is."""


def choose_extent(curves: Sequence[Curve], warm_ups: Mapping[str, int]) -> Extent:
    """Return the values of curves, and the ends of their axis where some are far above others."""
    steady = [
        value
        for curve in curves
        for value in (curve.y[warm_ups.get(curve.environment, 0) :] or curve.y)
        if math.isfinite(value)
    ]
    values = [value for curve in curves for value in curve.y if math.isfinite(value)]
    if not steady or not 0 < FAR * max(steady) < max(values):
        return Extent(values, steady, None)
    low, high = min(steady), max(steady)
    room = max(high - low, 0.1 * high)
    return Extent(values, steady, (low - 0.1 * room, high + 0.3 * room))


def draw_paired_curves(
    curves: Sequence[Curve],
    *,
    unit: str,
    metric: str,
    marks: Marks,
    warm_ups: Mapping[str, int],
    log: bool = False,
    x_title: str = "step",
) -> tuple[Figure, list[str]]:
    """Draw a line for each curve; return the figure, and sentences on what it does not show.

    `warm_ups` has, by the curves' names, how many values come before the steady ones: where these
    are far above, the axis ends below them. Values that are no numbers are gaps.
    """
    chosen = choose_extent(curves, warm_ups)
    everything, steady = chosen.values, chosen.steady
    factor, unit = numbers.si(steady[:1000], unit)
    sentences = []
    missing = sum(len(curve.y) for curve in curves) - len(everything)
    if missing:
        sentences.append(f"{numbers.count(missing, 'value')} not a number, left out of the lines.")
    is_log = log and bool(everything) and min(everything) > 0
    extent = {}
    if is_log:
        extent = {"type": "log"} | log_range(min(everything) * factor, max(everything) * factor)
    elif chosen.ends:
        extent = {"range": [end * factor for end in chosen.ends]}
        above = [value for value in everything if value * factor > extent["range"][1]]
        furthest = numbers.quantity(max(above) * factor, "", significant=3)
        sentences.append(
            f"{numbers.count(len(above), 'value')} above the axis, up to {furthest} {unit}.".strip()
        )
    drawn = [(curve, *thin_curve(curve.x, curve.y)) for curve in curves]
    if any(len(y) < len(curve.y) for curve, _, y in drawn):
        longest = max(len(curve.y) for curve in curves)
        sentences.append(
            f"Of up to {longest:,} values about {max(len(y) for *_, y in drawn)} a line are drawn: "
            "the lowest and the highest of each stretch."
        )
    figure = {
        "data": [
            {
                "type": "scatter",
                "mode": "lines" if len(x) > 1 else "markers",
                "meta": meta(marks[curve.environment]),
                "name": label(curve.environment, longest=34),
                "showlegend": True,
                "x": x,
                "y": [value * factor if math.isfinite(value) else None for value in y],
                "line": {
                    "width": 1.5,
                    "color": colour(marks[curve.environment]),
                    "dash": dash(marks[curve.environment]),
                },
                "hovertemplate": f"<b>{label(curve.environment)}</b><br>{x_title} %{{x}}: "
                "%{y:.6g}<extra></extra>",
            }
            for curve, x, y in drawn
        ],
        "layout": layout(
            height=300 + legend_room(len(curves)),
            margin={"t": 48},
            showlegend=True,
            xaxis=axis(x_title, showgrid=False),
            yaxis=axis(with_unit(metric, unit) + ", log scale" * is_log, **extent),
        ),
    }
    return figure, sentences
