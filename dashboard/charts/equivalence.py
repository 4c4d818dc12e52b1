"""The plot of p of equivalence against every choice of margin."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from dashboard.charts.style import (
    MUTED,
    Figure,
    Marks,
    axis,
    colour,
    dash,
    label,
    layout,
    meta,
    note,
    symbol,
)
from experiments.statistics import Pair, compute_equivalence_curve, numbers
from experiments.statistics.values import ALPHA

SMALLEST, LARGEST = 0.001, 0.1
"""Margins that are always shown; the axis grows to hold every crossing below `WIDEST`."""
WIDEST = 1.0
POINTS = 121
LOWEST_P = 0.001
"""Below this the curves leave the plot: p is written "< 0.001" everywhere."""
MOST_NAMED = 3
"""Environments that stand beside their level where a plot has several."""
ROUND = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


def draw_equivalence(pairs: Sequence[Pair], *, margin: float, marks: Marks) -> Figure:
    """Draw one line for each environment, from 1 towards 0 as the margin grows.

    The line crosses the level of its verdict at the smallest margin that the data prove; its symbol
    is there. Where environments have different levels, each level has a line that names them.
    """
    drawn = [pair for pair in pairs if pair.smallest_margin is not None]
    levels = list_levels(drawn)
    low, high = choose_margin_range(drawn, margin)
    margins = choose_margins(low, high)
    ticked = list_p_ticks(*levels)
    ticks = list_margin_ticks(low, high)
    return {
        "data": [trace for pair in drawn for trace in _traces(pair, margins, marks)],
        "layout": layout(
            height=340,
            margin={"t": 48},
            showlegend=True,
            xaxis=axis(
                "margin (%, log scale)",
                type="log",
                range=[math.log10(100 * low), math.log10(100 * high)],
                tickvals=ticks,
                ticktext=[f"{percent:g}" for percent in ticks],
            ),
            yaxis=axis(
                "p of equivalence (log scale)",
                type="log",
                range=[math.log10(LOWEST_P) - 0.15, 0.1],
                tickvals=ticked,
                ticktext=[f"{p:g}" for p in ticked],
            ),
            shapes=[
                *(
                    _line(xref="paper", x0=0, x1=1, yref="y", y0=level, y1=level)
                    for level in levels
                ),
                _line(xref="x", x0=100 * margin, x1=100 * margin, yref="paper", y0=0, y1=1),
            ],
            annotations=[
                *(
                    note(
                        f"below: equivalent{_name_environments(names) if len(levels) > 1 else ''}",
                        name="muted",
                        xref="paper",
                        x=0,
                        xanchor="left",
                        xshift=4,
                        yref="y",
                        y=math.log10(level),
                        yanchor="top",
                    )
                    for level, names in levels.items()
                ),
                note(
                    f"margin {numbers.margin(margin)}",
                    name="muted",
                    xref="x",
                    x=math.log10(100 * margin),
                    xanchor="left",
                    xshift=4,
                    yref="paper",
                    y=0,
                    yanchor="bottom",
                ),
            ],
        ),
    }


def _traces(pair: Pair, margins: Sequence[float], marks: Marks) -> Iterator[dict[str, Any]]:
    """Yield the curve, and the symbol where it crosses the level."""
    index = marks[pair.environment]
    proves = f"smallest margin for equivalence {numbers.provable(pair.smallest_margin, decimals=2)}"
    shared = {
        "type": "scatter",
        "meta": meta(index),
        "legendgroup": str(index),
        "name": label(pair.environment),
    }
    # p below the plot is cut where it cannot be seen, so that a log axis never meets a zero.
    curve = compute_drawn_curve(pair, margins)
    yield {
        **shared,
        "mode": "lines",
        "x": [_digits(100 * margin) for margin in margins],
        "y": curve,
        "showlegend": False,
        "line": {"color": colour(index), "width": 2, "dash": dash(index)},
        "hovertemplate": f"<b>{label(pair.environment)}</b><br>margin %{{x:.3g}} %: "
        "p = %{y:.3g}<extra></extra>",
    }
    yield {
        **shared,
        "mode": "lines+markers",
        "x": [100 * (pair.smallest_margin or 0)],
        "y": [pair.alpha],
        "showlegend": True,
        "name": f"{label(pair.environment)}: {numbers.provable(pair.smallest_margin, decimals=2)}",
        "line": {"color": colour(index), "width": 2, "dash": dash(index)},
        "marker": {
            "symbol": symbol(index),
            "color": colour(index),
            "size": 11,
            "line": {"width": 1.5, "color": "#ffffff"},
        },
        "hovertemplate": f"<b>{label(pair.environment)}</b><br>{proves}<extra></extra>",
    }


def _digits(value: float) -> float:
    """Return a value without digits that cannot be seen: they would only make the page larger."""
    return float(f"{value:.5g}")


def list_levels(pairs: Sequence[Pair]) -> dict[float, list[str]]:
    """Return the levels of the verdicts, the largest first, each with its environments.

    One, unless some were judged after an extension and some were not; 5 % where there is no pair.
    """
    levels: dict[float, list[str]] = {}
    for pair in sorted(pairs, key=lambda pair: -pair.alpha):
        levels.setdefault(pair.alpha, []).append(pair.environment)
    return levels or {ALPHA: []}


def _name_environments(names: Sequence[str]) -> str:
    """Return which environments a level is of: " (Podman and udocker)"; many are counted."""
    if len(names) > MOST_NAMED:
        return f" ({len(names)} environments)"
    return f" ({numbers.listed([label(name, longest=28) for name in names])})"


def choose_margins(low: float, high: float) -> list[float]:
    """Return the margins at which a curve is computed, evenly on a log axis."""
    return [_digits(low * (high / low) ** (i / (POINTS - 1))) for i in range(POINTS)]


def list_margin_ticks(low: float, high: float) -> list[float]:
    """Return the round margins in per cent between both ends, which are fractions."""
    return [percent for percent in ROUND if low <= percent / 100 <= high]


def list_p_ticks(*levels: float) -> list[float]:
    """Return the values of p at the axis, the levels among them."""
    return [0.001, *([0.01] if min(levels) > 0.03 else []), *sorted(levels), 0.2, 1]


def compute_drawn_curve(pair: Pair, margins: Sequence[float]) -> list[float]:
    """Return p of equivalence at each margin, never below what can be seen."""
    return [max(_digits(p), LOWEST_P / 10) for p in compute_equivalence_curve(pair, margins)]


def choose_margin_range(pairs: Sequence[Pair], margin: float) -> tuple[float, float]:
    crossings = [pair.smallest_margin for pair in pairs if pair.smallest_margin is not None]
    inside = [margin, *(crossing for crossing in crossings if crossing < WIDEST)]
    return min(SMALLEST, *(m / 1.3 for m in inside)), max(LARGEST, *(1.3 * m for m in inside))


def _line(**place: Any) -> dict[str, Any]:
    return {
        "type": "line",
        "name": "reference",
        "layer": "below",
        "line": {"color": MUTED, "width": 1.5},
        **place,
    }
