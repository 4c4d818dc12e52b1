"""Quantile-quantile plots: values against those that a normal distribution would have."""

from __future__ import annotations

from collections.abc import Sequence

from dashboard.charts.style import MUTED, Figure, Marks, axis, colour, label, layout, meta, symbol
from experiments.statistics.normality import Normality


def draw_quantiles(checked: Sequence[Normality], *, marks: Marks) -> Figure:
    """Draw a quantile-quantile plot; points of a normal distribution lie along the line.

    Log-ratios of blocks have no environment of their own: they have the colour of the first
    environment that is not the baseline.
    """
    reach = max((abs(x) for group in checked for point in group.points for x in point), default=1.0)
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"{label(group.of)}, n = {group.n}",
                "meta": meta(find_mark(group, marks)),
                "x": [round(expected, 4) for expected, _ in group.points],
                "y": [round(value, 4) for _, value in group.points],
                "marker": {
                    "symbol": symbol(find_mark(group, marks)),
                    "color": colour(find_mark(group, marks)),
                    "size": 9,
                    "line": {"width": 1.5, "color": "#ffffff"},
                },
                "hovertemplate": "expected %{x:.2f}, seen %{y:.2f}<extra></extra>",
            }
            for group in checked
        ],
        "layout": layout(
            height=320,
            margin={"t": 36},
            showlegend=True,
            xaxis=axis("quantile of the normal distribution"),
            yaxis=axis("log of the value, in SDs from its mean"),
            shapes=[
                {
                    "type": "line",
                    "name": "reference",
                    "layer": "below",
                    "line": {"color": MUTED, "width": 1.5},
                    "x0": -reach,
                    "y0": -reach,
                    "x1": reach,
                    "y1": reach,
                }
            ],
        ),
    }


def find_mark(checked: Normality, marks: Marks) -> int:
    """Return the index of an environment's symbol; that of log-ratios is the first one's."""
    return marks.get(checked.of, 1)
