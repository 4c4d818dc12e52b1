"""How long the steps of an environment took, down to the rarest: the ECDF seen from its tail."""

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


def tails(found: Sequence[Tail], *, unit: str, metric: str, marks: Marks) -> Figure:
    """A falling staircase an environment: the share of its steps (log) that took at least so long.

    1 minus the ECDF; where a curve ends on the right is the longest step.
    """
    factor, unit = numbers.si([one.quantiles[0.95] for one in found], unit)
    most = max((one.steps for one in found), default=1)
    decades = range(math.ceil(math.log10(most)) + 1)
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines",
                "meta": meta(marks[one.environment]),
                "name": label(one.environment, longest=28),
                "showlegend": True,
                "x": [value * factor for value in one.values],
                "y": [100 * share for share in one.shares],
                # Longer than this step took exactly the share of the next point.
                "line": {
                    "shape": "vh",
                    "width": 2,
                    "color": colour(marks[one.environment]),
                    "dash": dash(marks[one.environment]),
                },
                "hovertemplate": f"<b>{label(one.environment)}</b><br>%{{y:.3g}} % of "
                f"{one.steps:,} steps<br>took %{{x:.4g}} {label(unit)} or longer<extra></extra>",
            }
            for one in found
        ],
        "layout": layout(
            height=360 + legend_room(len(found)),
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
