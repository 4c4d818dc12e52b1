"""Plots with a point for every run: by environment, and in the order in which they ran."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from dashboard.charts.run_places import (
    find_block,
    find_heights,
    find_time_scale,
    list_environments,
)
from dashboard.charts.style import (
    MUTED,
    Figure,
    Marks,
    axis,
    colour,
    label,
    layout,
    meta,
    symbol,
    value_axis,
)
from dashboard.charts.thinning import thin_samples
from experiments.natural_order import sort_naturally
from experiments.statistics import Sample, numbers

NODE_FILLS = ("", "-open", "-dot", "-open-dot")
"""The environment keeps its symbol and colour; a node is told by how the symbol is filled."""


def strip(samples: Sequence[Sample], *, unit: str, metric: str, marks: Marks) -> Figure:
    """Draw values by environment; within one row the blocks lie from top to bottom in their order.

    The runs of one block are at the same height in each row. The tick is the median.
    """
    factor, unit = numbers.si([sample.value for sample in samples], unit)
    names = list_environments(samples, marks)
    heights = find_heights(samples)
    drawn = thin_samples(samples)
    data: list[dict[str, Any]] = []
    for y, name in enumerate(names):
        mine = [sample for sample in samples if sample.environment == name]
        data.append(
            {
                "type": "scatter",
                "meta": meta(marks[name]),
                "name": "median",
                "mode": "markers",
                "x": [median(sample.value for sample in mine) * factor],
                "y": [y],
                "marker": {
                    "symbol": "line-ns-open",
                    "size": 40,
                    "color": colour(marks[name]),
                    "line": {"width": 2},
                },
                "hovertemplate": f"median %{{x:.4g}} {unit}<extra></extra>",
            }
        )
        mine = [sample for sample in drawn if sample.environment == name]
        offsets = [heights[find_block(sample)] for sample in mine]
        data.append(
            _points(mine, marks, unit, [s.value * factor for s in mine])
            | {"x": [s.value * factor for s in mine], "y": [y + offset for offset in offsets]}
        )
    return {
        "data": data,
        "layout": layout(
            height=60 * len(names) + 100,
            margin={"t": 16},
            xaxis=value_axis(metric, unit, [sample.value * factor for sample in samples]),
            yaxis=axis(
                range=[len(names) - 0.4, -0.6],
                tickvals=list(range(len(names))),
                ticktext=[
                    f"{label(name)}<br>n = {sum(s.environment == name for s in samples)}"
                    for name in names
                ],
                showgrid=False,
                fixedrange=True,
            ),
        ),
    }


def draw_run_order(samples: Sequence[Sample], *, unit: str, metric: str, marks: Marks) -> Figure:
    """Draw values against their start, to show drift; runs without a start are left out.

    Points are never joined. Where several nodes ran, the filling of the symbol shows the node.
    """
    known = thin_samples([sample for sample in samples if sample.started is not None])
    timed = [(sample, sample.started) for sample in known if sample.started is not None]
    first, size, word, since = find_time_scale([started for _, started in timed])
    factor, unit = numbers.si([sample.value for sample, _ in timed], unit)
    nodes = sort_naturally({sample.node for sample, _ in timed})
    data: list[dict[str, Any]] = []
    for name in list_environments(known, marks):
        mine = [(sample, started) for sample, started in timed if sample.environment == name]
        runs = [sample for sample, _ in mine]
        trace = _points(runs, marks, unit, [sample.value * factor for sample in runs])
        fills = [NODE_FILLS[nodes.index(sample.node) % len(NODE_FILLS)] for sample in runs]
        trace["marker"]["symbol"] = [symbol(marks[name]) + fill for fill in fills]
        trace |= {
            "name": label(name),
            "showlegend": True,
            "x": [(started - first) / size for _, started in mine],
            "y": [sample.value * factor for sample in runs],
        }
        data.append(trace)
    if len(nodes) > 1:
        data += [_node_in_legend(node, i) for i, node in enumerate(nodes)]
    return {
        "data": data,
        "layout": layout(
            height=340,
            margin={"t": 48},
            showlegend=True,
            xaxis=axis(f"{word} since {since}" if timed else "no run has started", showgrid=False),
            yaxis=value_axis(metric, unit, [sample.value * factor for sample, _ in timed]),
        ),
    }


def _points(
    samples: Sequence[Sample], marks: Marks, unit: str, values: Sequence[float]
) -> dict[str, Any]:
    """Return the runs of one environment as symbols; the caller places them."""
    index = marks[samples[0].environment]
    return {
        "type": "scatter",
        "mode": "markers",
        "meta": meta(index),
        "name": label(samples[0].environment),
        "marker": {
            "symbol": symbol(index),
            "color": colour(index),
            "size": 10,
            "line": {"width": 1, "color": "#ffffff"},
        },
        "customdata": [sample.run for sample in samples],
        "text": [
            f"<b>{label(sample.environment)}</b><br>{value:.4g} {unit}<br>{_where(sample)}"
            for sample, value in zip(samples, values, strict=True)
        ],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _where(sample: Sample) -> str:
    known = [
        f"block {label(sample.block)}" if sample.block else f"run {label(sample.run)}",
        f"node {label(sample.node)}" if sample.node else "",
    ]
    return ", ".join(filter(None, known))


def _node_in_legend(node: str, index: int) -> dict[str, Any]:
    """Return an empty trace that explains a filling in the legend."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [None],
        "y": [None],
        "name": f"node {label(node) or 'unknown'}",
        "showlegend": True,
        "meta": {"role": "muted"},
        "marker": {
            "symbol": "circle" + NODE_FILLS[index % len(NODE_FILLS)],
            "color": MUTED,
            "size": 10,
        },
    }
