"""What happened inside one run, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from dashboard.charts.style import (
    MUTED,
    Figure,
    axis,
    band,
    colour,
    layout,
    meta,
    note,
    with_unit,
)
from experiments.statistics import numbers

BLOCK = 10
"""Steps whose median is drawn as one level."""
FAR = 3.0
"""Warm-up steps this many times above the slowest steady one leave the plot, and it says so."""


def step_trace(
    values: Sequence[float], *, burn_in: int, unit: str, metric: str = "step time", mark: int = 0
) -> Figure:
    """Each step and the medians of ten; the first `burn_in` steps are shaded as warm-up.

    `mark` is the index of the run's environment, whose colour the medians take.
    """
    steady = values[burn_in:] or values
    factor, unit = numbers.si(steady, unit)
    shown = [value * factor for value in values]
    highest = max(steady, default=0.0) * factor
    far = [value for value in shown[:burn_in] if value > FAR * highest]
    extent: dict[str, Any] = {}
    words = "warm-up"
    if far:
        lowest = min(steady) * factor
        room = max(highest - lowest, 0.1 * highest)
        extent = {"range": [lowest - 0.1 * room, highest + 0.6 * room]}
        above = sum(value > extent["range"][1] for value in shown)
        words += f": {above} step{'s' * (above != 1)} above, up to {max(far):.4g} {unit}"
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": "step",
                "meta": {"role": "muted"},
                "x": list(range(1, len(shown) + 1)),
                "y": shown,
                "line": {"width": 0.5, "color": MUTED},
                "marker": {"size": 4, "color": MUTED},
                "opacity": 0.7,
                "hovertemplate": f"step %{{x}}: %{{y:.4g}} {unit}<extra></extra>",
            },
            _medians(shown[burn_in:], burn_in, unit, mark),
        ],
        "layout": layout(
            height=320,
            margin={"t": 48},
            showlegend=True,
            xaxis=axis("step", showgrid=False, range=[0.5, len(shown) + 0.5]),
            yaxis=axis(with_unit(metric, unit), **extent),
            shapes=[band(xref="x", x0=0.5, x1=burn_in + 0.5, yref="paper", y0=0, y1=1)]
            if burn_in
            else [],
            annotations=[
                note(
                    words,
                    name="muted",
                    xref="x",
                    x=0.5,
                    xanchor="left",
                    xshift=4,
                    yref="paper",
                    y=1,
                    yanchor="top",
                )
            ]
            if burn_in
            else [],
        ),
    }


def _medians(steady: Sequence[float], burn_in: int, unit: str, mark: int) -> dict[str, Any]:
    """A level for every ten steps after the warm-up, the last one for what is left."""
    x: list[float | None] = []
    y: list[float | None] = []
    for start in range(0, len(steady), BLOCK):
        block = steady[start : start + BLOCK]
        first = burn_in + start + 0.5
        level = median(block)
        x += [first, first + len(block), None]
        y += [level, level, None]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"median of {BLOCK}",
        "meta": meta(mark),
        "x": x,
        "y": y,
        "line": {"width": 3, "color": colour(mark)},
        "hovertemplate": f"median %{{y:.4g}} {unit}<extra></extra>",
    }
