"""The plot of values that a run logged every few steps."""

from __future__ import annotations

from collections.abc import Sequence

from dashboard.charts.style import Figure, axis, colour, layout, meta, with_unit
from experiments.statistics import numbers


def draw_interval_trace(
    values: Sequence[float],
    steps: Sequence[int],
    *,
    unit: str,
    metric: str = "step time",
    mark: int = 0,
) -> Figure:
    """Draw one point for every step in `steps`: its value, or the mean since the step before.

    `mark` is the index of the run's environment, whose colour the line takes.
    """
    factor, unit = numbers.si(values, unit)
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": "logged",
                "meta": meta(mark),
                "x": list(steps),
                "y": [value * factor for value in values],
                "line": {"width": 1.5, "color": colour(mark)},
                "marker": {"size": 5, "color": colour(mark)},
                "hovertemplate": f"up to step %{{x}}: %{{y:.4g}} {unit}<extra></extra>",
            }
        ],
        "layout": layout(
            height=320,
            margin={},
            xaxis=axis("step", showgrid=False),
            yaxis=axis(with_unit(metric, unit)),
        ),
    }
