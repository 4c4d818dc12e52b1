"""Plots of the steps inside one run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from textwrap import wrap
from typing import Any

from dashboard.charts.style import (
    GROUND,
    MUTED,
    Figure,
    axis,
    band,
    colour,
    layout,
    meta,
    note,
    with_unit,
)
from experiments.statistics import numbers
from experiments.statistics.change_points import Shape, SteadyState

BLOCK = 10
"""Number of steps whose median is drawn as one level."""
MOST_LETTERS = 40
"""In a line of a note: what a phone has room for."""
LINE = 16
"""Pixels of a line of notes."""
FAR = 3.0
"""Warm-up steps this many times above the slowest steady one are cut off, with a note."""


def draw_step_trace(
    values: Sequence[float],
    *,
    fixed_warm_up: int,
    unit: str,
    metric: str = "step time",
    mark: int = 0,
    steady_state: SteadyState | None = None,
    ends: Sequence[int] | None = None,
) -> Figure:
    """Draw each step, the medians of blocks after the cut, and the mean of the steady segment.

    The detected warm-up is shaded, else the fixed warm-up; a line marks the end of the latter.
    `mark` is the index of the run's environment, whose colour the medians have; `ends` are the
    last steps of values that are means of several.
    """
    ends = list(ends or range(1, len(values) + 1))
    edges = [0.5, *(end + 0.5 for end in ends)]
    cut = (
        fixed_warm_up
        if steady_state is None or steady_state.warm_up is None
        else steady_state.warm_up
    )
    first = bisect_right(ends, cut)
    steady = values[first:] or values
    factor, unit = numbers.si(steady, unit)
    shown = [value * factor for value in values]
    highest = max(steady, default=0.0) * factor
    far = [value for value in shown[:first] if value > FAR * highest]
    extent: dict[str, Any] = {}
    note_text = _describe_shape(steady_state)
    if far:
        lowest = min(steady) * factor
        room = max(highest - lowest, 0.1 * highest)
        extent = {"range": [lowest - 0.1 * room, highest + 0.6 * room]}
        above = sum(value > extent["range"][1] for value in shown)
        note_text += f": {above} step{'s' * (above != 1)} above, up to {max(far):.4g} {unit}"
    lines = wrap(note_text, MOST_LETTERS, break_long_words=False)
    notes = [_note_beside(0.5, "<br>".join(lines))] if cut or steady_state else []
    if steady_state and fixed_warm_up:
        is_late = fixed_warm_up > edges[-1] / 2
        place = fixed_warm_up + 0.5
        notes.append(_note_beside(place, "fixed warm-up", line=len(lines), is_left=is_late))
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "step" if ends == list(range(1, len(values) + 1)) else "mean of some steps",
            "meta": {"role": "muted"},
            "x": ends,
            "y": shown,
            "line": {"width": 0.5, "color": MUTED},
            "marker": {"size": 4, "color": MUTED},
            "opacity": 0.7,
            "hovertemplate": f"step %{{x}}: %{{y:.4g}} {unit}<extra></extra>",
        },
        _medians(
            shown, edges, first, steady_state.block_steps if steady_state else BLOCK, unit, mark
        ),
    ]
    if steady_state and steady_state.steady_from is not None:
        data.append(_level(shown, edges, bisect_right(ends, steady_state.steady_from), unit))
    return {
        "data": data,
        "layout": layout(
            height=320,
            margin={"t": 48},
            showlegend=True,
            xaxis=axis("step", showgrid=False, range=[0.5, edges[-1]]),
            yaxis=axis(with_unit(metric, unit), **extent),
            shapes=list(_shapes(cut, fixed_warm_up if steady_state else 0)),
            annotations=notes,
        ),
    }


def _describe_shape(steady_state: SteadyState | None) -> str:
    if steady_state is None:
        return "warm-up"
    if not steady_state.has_trend or steady_state.trend is None:
        return str(steady_state.shape)
    if steady_state.trend < 0:
        return f"{steady_state.shape}; faster with time"
    # That a slowdown is slower with time goes without saying.
    return str(steady_state.shape) + "; slower with time" * (
        steady_state.shape is not Shape.SLOWDOWN
    )


def _shapes(cut: int, fixed_warm_up: int) -> Iterator[dict[str, Any]]:
    whole = {"yref": "paper", "y0": 0, "y1": 1}
    if cut:
        yield band(xref="x", x0=0.5, x1=cut + 0.5, **whole)
    if fixed_warm_up:
        place = {"xref": "x", "x0": fixed_warm_up + 0.5, "x1": fixed_warm_up + 0.5}
        line = {"color": MUTED, "width": 1, "dash": "dot"}
        yield {"type": "line", "name": "reference", **place, **whole, "line": line}


def _note_beside(x: float, text: str, *, line: int = 0, is_left: bool = False) -> dict[str, Any]:
    """Return a note right or left of x, `line` lines below the top of the plot.

    Its ground covers the lines behind it.
    """
    return note(
        text,
        name="muted",
        xref="x",
        x=x,
        xanchor="right" if is_left else "left",
        xshift=-4 if is_left else 4,
        yref="paper",
        y=1,
        yanchor="top",
        yshift=-LINE * line,
        align="left",
        bgcolor=GROUND,
        borderpad=0,
    )


def _medians(
    shown: Sequence[float], edges: Sequence[float], first: int, steps: int, unit: str, mark: int
) -> dict[str, Any]:
    """Draw a level for every block of `steps` after the cut; the last block may be shorter."""
    x: list[float | None] = []
    y: list[float | None] = []
    while first < len(shown):
        last = max(bisect_right(edges, edges[first] + steps) - 1, first + 1)
        level = median(shown[first:last])
        x += [edges[first], edges[last], None]
        y += [level, level, None]
        first = last
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"median of {steps:,}",
        "meta": meta(mark),
        "x": x,
        "y": y,
        "line": {"width": 3, "color": colour(mark)},
        "hovertemplate": f"median %{{y:.4g}} {unit}<extra></extra>",
    }


def _level(shown: Sequence[float], edges: Sequence[float], first: int, unit: str) -> dict[str, Any]:
    """Draw the mean of the steady segment, over all its steps."""
    steps = [after - before for before, after in pairwise(edges[first:])]
    total = sum(step * value for step, value in zip(steps, shown[first:], strict=True))
    mean = total / sum(steps)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"steady: mean {mean:.4g} {unit}",
        "meta": {"role": "muted"},
        "x": [edges[first], edges[-1]],
        "y": [mean, mean],
        "line": {"width": 1.5, "color": MUTED, "dash": "dash"},
        "hovertemplate": f"mean %{{y:.4g}} {unit}<extra></extra>",
    }
