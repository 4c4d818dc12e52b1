"""Plots of numbers inside runs: losses step by step, accuracies against seconds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from dashboard.charts.style import (
    MUTED,
    Figure,
    Marks,
    axis,
    close_log_range,
    colour,
    dash,
    label,
    layout,
    legend_room,
    meta,
    note,
    symbol,
    with_unit,
)
from experiments.statistics import numbers
from experiments.statistics.steps import Curve


def draw_loss_curves(
    curves: Sequence[Curve],
    medians: Sequence[Curve],
    *,
    metric: str,
    unit: str,
    marks: Marks,
    log: bool = True,
) -> Figure:
    """Draw a thin line for each run and a thick one for each environment's median.

    The unit's prefix is that of most steps, as on the run's own page: a slow first one is rare.
    """
    finite = [y for curve in (*curves, *medians) for y in filter(math.isfinite, curve.y)]
    factor, unit = numbers.si([statistics.median(finite or [0.0])], unit)
    curves, medians = (_scaled(drawn, factor) for drawn in (curves, medians))
    values = [y * factor for y in finite]
    positive = log and bool(values) and min(values) > 0
    return {
        "data": [
            *_runs(curves, marks, mode="lines"),
            *(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "meta": meta(marks[curve.environment]),
                    "name": f"{label(curve.environment, longest=28)}, median",
                    "showlegend": True,
                    "x": list(curve.x),
                    "y": _leave_gaps(curve.y),
                    "line": {
                        "width": 2.5,
                        "color": colour(marks[curve.environment]),
                        "dash": dash(marks[curve.environment]),
                    },
                    "hovertemplate": f"<b>{label(curve.environment)}</b><br>step %{{x}}: median "
                    "%{y:.6g}<extra></extra>",
                }
                for curve in medians
            ),
        ],
        "layout": layout(
            height=340 + legend_room(len(medians)),
            margin={"t": 48},
            showlegend=True,
            xaxis=axis("step", showgrid=False),
            yaxis=axis(
                with_unit(metric, "" if unit == "1" else unit) + ", log scale" * positive,
                **({"type": "log"} | close_log_range(min(values), max(values)) if positive else {}),
            ),
        ),
    }


def _scaled(curves: Sequence[Curve], factor: float) -> list[Curve]:
    return [replace(curve, y=[y * factor for y in curve.y]) for curve in curves]


def draw_accuracy_curves(
    curves: Sequence[Curve], *, metric: str, marks: Marks, target: float | None = None
) -> Figure:
    """Draw the accuracy (%) at each evaluation against the seconds of training until then.

    A thin line joins the evaluations of a run. `target`, a share, is a line across.
    """
    factor, unit = numbers.si([x for curve in curves for x in curve.x], "s")
    scaled = [
        Curve(
            curve.environment, [x * factor for x in curve.x], [100 * y for y in curve.y], curve.run
        )
        for curve in curves
    ]
    place = {"xref": "paper", "yref": "y", "y": 100 * target} if target else {}
    return {
        "data": list(_runs(scaled, marks, mode="lines+markers", showlegend=True)),
        "layout": layout(
            height=320 + legend_room(len({curve.environment for curve in curves})),
            margin={"t": 48},
            showlegend=True,
            xaxis=axis(f"time in steps ({unit})", showgrid=False, rangemode="tozero"),
            yaxis=axis(f"{label(metric)} (%)"),
            shapes=[
                {
                    "type": "line",
                    "name": "reference",
                    "layer": "below",
                    "line": {"color": MUTED, "width": 1.5},
                    "xref": "paper",
                    "x0": 0,
                    "x1": 1,
                    "yref": "y",
                    "y0": 100 * target,
                    "y1": 100 * target,
                }
            ]
            if target
            else [],
            annotations=[
                note(
                    f"target {numbers.margin(target)}",
                    name="muted",
                    x=0,
                    xanchor="left",
                    xshift=4,
                    yanchor="bottom",
                    **place,
                )
            ]
            if target
            else [],
        ),
    }


def _leave_gaps(values: Sequence[float]) -> list[float | None]:
    """Return the values with None for what is not finite: JSON has no other number for it."""
    return [value if math.isfinite(value) else None for value in values]


def _runs(
    curves: Sequence[Curve], marks: Marks, *, mode: str, showlegend: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield one trace for each environment; a null separates two runs."""
    for name in sorted({curve.environment for curve in curves}, key=lambda name: marks[name]):
        mine = [curve for curve in curves if curve.environment == name]
        yield {
            "type": "scatter",
            "mode": mode,
            "meta": meta(marks[name]),
            "name": label(name, longest=28),
            "showlegend": showlegend,
            "x": [x for curve in mine for x in (*curve.x, None)],
            "y": [y for curve in mine for y in (*_leave_gaps(curve.y), None)],
            "customdata": [run for curve in mine for run in (*[curve.run] * len(curve.x), "")],
            "line": {"width": 1, "color": colour(marks[name])},
            "opacity": 1 if showlegend else 0.45,
            **(
                {
                    "marker": {
                        "symbol": symbol(marks[name]),
                        "color": colour(marks[name]),
                        "size": 7,
                        "line": {"width": 1, "color": "#ffffff"},
                    }
                }
                if "markers" in mode
                else {}
            ),
            "hovertemplate": f"<b>{label(name)}</b><br>%{{x:.4g}}: %{{y:.6g}}<extra></extra>",
        }
