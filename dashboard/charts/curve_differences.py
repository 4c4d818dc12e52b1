"""Plot of the mean difference of two environments' losses, over the whole length of training."""

from __future__ import annotations

import math

from dashboard.charts.style import Figure, Marks, axis, colour, dash, label, layout, meta
from experiments.statistics.training.loss_curves import CurvePair


def scale_difference(pair: CurvePair, value: float) -> float:
    """Return a difference as it is drawn: of logs in per cent, else in the loss's own unit."""
    return 100 * math.expm1(min(value, 700.0)) if pair.is_relative else value


def draw_curve_difference(pair: CurvePair, *, marks: Marks) -> Figure:
    """Draw the mean difference in each bin, within the band that chance alone does not leave."""
    ends = {
        "upper end of the band": [scale_difference(pair, half) for half in pair.band],
        "lower end of the band": [scale_difference(pair, -half) for half in pair.band],
    }
    return {
        "data": [
            *(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "meta": {"role": "muted"},
                    "name": name,
                    "showlegend": False,
                    "x": list(pair.x),
                    "y": values,
                    "line": {"width": 1, "dash": "dot"},
                    "hovertemplate": f"{name}<br>step %{{x}}: %{{y:.3g}}<extra></extra>",
                }
                for name, values in ends.items()
                if values
            ),
            {
                "type": "scatter",
                "mode": "lines" if len(pair.x) > 1 else "markers",
                "meta": meta(marks[pair.environment]),
                "name": label(pair.environment, longest=28),
                "showlegend": False,
                "x": list(pair.x),
                "y": [scale_difference(pair, value) for value in pair.difference],
                "line": {
                    "width": 2,
                    "color": colour(marks[pair.environment]),
                    "dash": dash(marks[pair.environment]),
                },
                "hovertemplate": f"<b>{label(pair.environment)}</b><br>step %{{x}}: %{{y:.3g}}"
                "<extra></extra>",
            },
        ],
        "layout": layout(
            height=260,
            margin={"t": 16},
            xaxis=axis("step", showgrid=False),
            yaxis=axis("difference of the loss" + " (%)" * pair.is_relative, zeroline=True),
        ),
    }
