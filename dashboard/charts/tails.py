"""The plot of slow steps: the ECDF of step times, seen from its tail."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dashboard.charts.style import (
    Figure,
    Marks,
    axis,
    colour,
    dash,
    label,
    layout,
    legend_room,
    meta,
    with_unit,
)
from experiments.statistics import numbers
from experiments.statistics.steps import Tail


def draw_tails(
    environment_tails: Sequence[Tail], *, unit: str, metric: str, marks: Marks
) -> Figure:
    """Draw 1 minus the ECDF of each environment: the share (log) of steps that took at least x.

    Each curve ends on the right at the longest step.
    """
    factor, unit = numbers.si([tail.quantiles[0.95] for tail in environment_tails], unit)
    most = max((tail.steps for tail in environment_tails), default=1)
    decades = range(math.ceil(math.log10(most)) + 1)
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines",
                "meta": meta(marks[tail.environment]),
                "name": label(tail.environment, longest=28),
                "showlegend": True,
                "x": [value * factor for value in tail.values],
                "y": [100 * share for share in tail.shares],
                # Longer than this step took exactly the share of the next point.
                "line": {
                    "shape": "vh",
                    "width": 2,
                    "color": colour(marks[tail.environment]),
                    "dash": dash(marks[tail.environment]),
                },
                "hovertemplate": f"<b>{label(tail.environment)}</b><br>%{{y:.3g}} % of "
                f"{tail.steps:,} steps<br>took %{{x:.4g}} {label(unit)} or longer<extra></extra>",
            }
            for tail in environment_tails
        ],
        "layout": layout(
            height=360 + legend_room(len(environment_tails)),
            margin={"t": 48},
            showlegend=True,
            xaxis=axis(with_unit(metric, unit)),
            yaxis=axis(
                "as long or longer (%, log scale)",
                type="log",
                range=[2 - math.log10(most) - 0.1, 2.1],
                tickvals=[100 / 10**decade for decade in decades],
                ticktext=[f"{100 / 10**decade:g}" for decade in decades],
            ),
        ),
    }
