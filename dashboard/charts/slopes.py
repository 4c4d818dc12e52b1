"""The slope plot: each block is a line from the baseline to the environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashboard.charts.block_slopes import list_slopes
from dashboard.charts.run_places import list_environments
from dashboard.charts.style import (
    MUTED,
    Figure,
    Marks,
    axis,
    colour,
    label,
    layout,
    legend_room,
    meta,
    symbol,
    value_axis,
)
from experiments.statistics import Sample, numbers

NAME_ROOM = 6
"""Pixels that the figure grows by for each character of its longest name."""
PANEL = 2.0
"""From one environment's panel to the next, where 1 is the width of a panel."""


def draw_slopes(samples: Sequence[Sample], *, unit: str, metric: str, marks: Marks) -> Figure:
    """Draw a panel for each environment, all on one scale; incomplete blocks are left out.

    Several runs of an environment in one block are its geometric mean, as in the comparison.
    """
    factor, unit = numbers.si([sample.value for sample in samples], unit)
    slopes = list_slopes(samples, marks)
    names = list_environments(samples, marks)
    data: list[dict[str, Any]] = []
    for panel, slope in enumerate(slopes):
        baseline, name, blocks = slope.baseline, slope.environment, slope.blocks
        ends = [[value * factor for value in values] for values in (slope.before, slope.after)]
        left, right = PANEL * panel, PANEL * panel + 1
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "meta": {"role": "muted"},
                "name": "blocks",
                "x": [x for _ in blocks for x in (left, right, None)],
                "y": [y for pair in zip(*ends, strict=True) for y in (*pair, None)],
                "line": {"width": 1, "color": MUTED},
                "hoverinfo": "skip",
                "showlegend": False,
            }
        )
        for x, arm, values in zip((left, right), (baseline, name), ends, strict=True):
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "meta": meta(marks[arm]),
                    "name": label(arm),
                    "showlegend": arm == name or panel == 0,
                    "x": [x for _ in blocks],
                    "y": values,
                    "customdata": list(slope.baseline_runs if arm == baseline else slope.runs),
                    "text": [
                        f"<b>{label(arm)}</b><br>{value:.4g} {unit}<br>block {label(block)}, "
                        f"ratio {after / before:.4f}"
                        for block, value, before, after in zip(blocks, values, *ends, strict=True)
                    ],
                    "hovertemplate": "%{text}<extra></extra>",
                    "marker": {
                        "symbol": symbol(marks[arm]),
                        "color": colour(marks[arm]),
                        "size": 9,
                        "line": {"width": 1, "color": "#ffffff"},
                    },
                }
            )
    ticks = [label(arm) for slope in slopes for arm in (slope.baseline, slope.environment)]
    shown = [y for trace in data for y in trace["y"] if y is not None]
    return {
        "data": data,
        "layout": layout(
            height=340 + NAME_ROOM * max(map(len, ticks), default=0) + legend_room(len(names)),
            margin={"t": 48},
            showlegend=True,
            xaxis=axis(
                range=[-0.4, PANEL * len(slopes) - PANEL + 1.4],
                tickvals=[PANEL * panel + end for panel in range(len(slopes)) for end in (0, 1)],
                ticktext=ticks,
                # Names that do not fit side by side, as on a phone, are upright.
                autotickangles=[0, -90],
                showgrid=False,
                fixedrange=True,
            ),
            # The comparison is of ratios: on this axis equal ones are parallel.
            yaxis=value_axis(metric, unit, shown),
        ),
    }
