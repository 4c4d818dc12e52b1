"""Do the values look normal? Each against the value that a normal distribution would have."""

from __future__ import annotations

from collections.abc import Sequence

from dashboard.charts.style import MUTED, Figure, Marks, axis, colour, label, layout, meta, symbol
from experiments.statistics.normality import Normality


def quantiles(checked: Sequence[Normality], *, marks: Marks) -> Figure:
    """A quantile-quantile plot; points of a normal distribution lie along the line.

    Log-ratios of blocks have no environment of their own: they take the colour of the first
    environment that is not the baseline.
    """
    reach = max((abs(x) for one in checked for point in one.points for x in point), default=1.0)
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"{label(one.of)}, n = {one.n}",
                "meta": meta(marks.get(one.of, 1)),
                "x": [round(expected, 4) for expected, _ in one.points],
                "y": [round(value, 4) for _, value in one.points],
                "marker": {
                    "symbol": symbol(marks.get(one.of, 1)),
                    "color": colour(marks.get(one.of, 1)),
                    "size": 9,
                    "line": {"width": 1.5, "color": "#ffffff"},
                },
                "hovertemplate": "expected %{x:.2f}, seen %{y:.2f}<extra></extra>",
            }
            for one in checked
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
