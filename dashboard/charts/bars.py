"""The usual bar chart: each environment as a ratio to the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from dashboard.charts.forest import Row
from dashboard.charts.style import (
    GROUND,
    MUTED,
    Figure,
    Marks,
    axis,
    colour,
    label,
    layout,
    meta,
    note,
)
from experiments.statistics import Better, Pair, numbers
from experiments.statistics.scaling import Level, make_level_from_moments
from experiments.statistics.values import Interval

BAR, GAP, HEADING = 16, 6, 40
"""Heights in pixels: of a bar, between two bars, of the two lines above a group."""
WIDEST = 3.0
"""A bar or interval beyond this ratio leaves the plot; its numbers are in the table."""


def draw_bars(rows: Sequence[Row], *, marks: Marks, better: Better | None) -> Figure:
    """Draw ratios to the baseline as bars from zero, in the order of rows, with group headings.

    `better` is the direction if all rows have the same one. Whiskers are 95 % intervals, or those
    of an interim analysis: of the ratio, which includes the baseline's own uncertainty, and on the
    baseline's bar of its mean alone. Where rows have different levels, each name says its own.
    Under each heading stands the absolute value of 1.
    """
    places: list[int] = []
    names: list[str] = []
    table: list[str] = []
    notes: list[dict[str, Any]] = []
    drawn: dict[str, list[tuple[int, float, Interval | None, str]]] = {}
    levels: dict[str, set[float]] = {}
    end = 0
    has_levels = len({row.pair.alpha for row in rows}) > 1
    for group, members in groupby(rows, key=lambda row: row.group):
        pairs = [row.pair for row in members]
        base = find_base(pairs)
        notes += _heading(group, pairs[0], base, end)
        end += HEADING
        for name, ratio, interval, alpha in list_bars(pairs, base):
            place = end + BAR // 2
            level = numbers.level(1 - alpha)
            what = "of its mean" if name == pairs[0].baseline else "of the ratio"
            hover_text = f"{numbers.ratio(ratio, interval)}" + (
                f" ({level} CI {what})" if interval else ""
            )
            drawn.setdefault(name, []).append((place, ratio, interval, hover_text))
            levels.setdefault(name, set()).add(alpha)
            places.append(place)
            names.append(label(name, longest=28) + (f", {level}" if has_levels else ""))
            table.append(f"{label(group)}: {label(name)}")
            end += BAR + GAP
        end += GAP
    data = [
        trace
        for name in sorted(drawn, key=lambda name: marks[name])
        for trace in _traces(name, drawn[name], marks[name], numbers.levels(levels[name]))
    ]
    furthest = max((x for trace in data for x in trace["x"] if x is not None), default=1.0)
    return {
        "data": data,
        "layout": layout(
            height=end + 16 + 68,
            margin={"t": 16, "b": 68},
            barmode="overlay",
            xaxis=axis(_title(rows, better), range=[0, 1.05 * min(furthest, WIDEST)]),
            yaxis=axis(
                range=[end, 0],
                tickvals=places,
                ticktext=names,
                ticklabelstandoff=4,
                showgrid=False,
                fixedrange=True,
            ),
            shapes=[
                {
                    "type": "line",
                    "name": "reference",
                    "layer": "above",
                    "line": {"color": MUTED, "width": 1, "dash": "dot"},
                    "xref": "x",
                    "x0": 1,
                    "x1": 1,
                    "yref": "paper",
                    "y0": 0,
                    "y1": 1,
                }
            ],
            meta={"rows": table},
            annotations=notes,
        ),
    }


def list_bars(
    pairs: Sequence[Pair], base: Level | None
) -> list[tuple[str, float, Interval | None, float]]:
    """Return the name, ratio and interval of each bar of a group with the interval's level.

    The baseline, if it is known, comes first: its mean at the level of the plan, which is the
    largest where some pairs were judged again after an extension.
    """
    bars: list[tuple[str, float, Interval | None, float]] = []
    if base:
        alpha = max(pair.alpha for pair in pairs)
        own = base.interval(1 - alpha)
        relative = (own[0] / base.mean, own[1] / base.mean) if own else None
        bars.append((pairs[0].baseline, 1.0, relative, alpha))
    return bars + [
        (pair.environment, pair.ratio, pair.ci_difference, pair.alpha)
        for pair in pairs
        if pair.ratio is not None
    ]


def find_base(pairs: Sequence[Pair]) -> Level | None:
    """Return the baseline's mean, from the pair with most of its runs; None if none has it."""
    known = [pair for pair in pairs if pair.baseline_mean]
    if not known:
        return None
    pair = max(known, key=lambda pair: pair.n_baseline)
    mean = pair.baseline_mean or 0.0
    return make_level_from_moments(pair.baseline, 1, mean, pair.baseline_sd, pair.n_baseline)


def _heading(group: str, pair: Pair, base: Level | None, top: int) -> list[dict[str, Any]]:
    """Return the notes above a group: its name, and the absolute value of the ratio 1."""
    base_text = "no run of the baseline"
    if base:
        unit = "" if pair.unit == "1" else pair.unit
        sd = pair.baseline_sd if base.n > 1 else None
        value = (
            numbers.spread(base.mean, sd, base.n, unit)
            if base.n
            else f"{numbers.quantity(base.mean, unit)} (n not stated)"
        )
        base_text = f"1 = {label(pair.baseline, longest=24)}, {label(value, longest=60)}"
    # The notes have a background because the grid and the reference line run behind them.
    place = {"xref": "paper", "x": 0, "xanchor": "left", "yanchor": "top", "bgcolor": GROUND}
    return [
        note(f"<b>{label(group, longest=72)}</b>", y=top, **place),
        note(base_text, y=top + 18, name="muted", **place),
    ]


def _traces(
    name: str, drawn: Sequence[tuple[int, float, Interval | None, str]], index: int, level: str
) -> list[dict[str, Any]]:
    """Draw the bars of one environment, and their whiskers in the colour of the text."""
    known = [(place, interval) for place, _, interval, _ in drawn if interval is not None]
    return [
        {
            "type": "bar",
            "orientation": "h",
            "name": label(name, longest=28),
            "meta": meta(index),
            "x": [ratio for _, ratio, _, _ in drawn],
            "y": [place for place, _, _, _ in drawn],
            "width": BAR,
            "marker": {"color": colour(index), "opacity": 0.55, "line": {"width": 0}},
            "text": [f"<b>{label(name)}</b><br>{hover_text}" for _, _, _, hover_text in drawn],
            "textposition": "none",
            "hovertemplate": "%{text}<extra></extra>",
        },
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": f"{label(name, longest=28)}, {level} interval",
            "meta": {"role": "ink"},
            "x": [x for _, (low, high) in known for x in (low, high, None)],
            "y": [y for place, _ in known for y in (place, place, None)],
            "line": {"width": 1.5, "color": "#1b1f24"},
            "marker": {
                "symbol": "line-ns-open",
                "size": 8,
                "color": "#1b1f24",
                "line": {"width": 1.5},
            },
            "hoverinfo": "skip",
        },
    ]


def _title(rows: Sequence[Row], better: Better | None) -> str:
    baselines = {label(row.pair.baseline, longest=24) for row in rows}
    title = f"ratio to {' or '.join(sorted(baselines)) or 'the baseline'}"
    return f"{title} ({better} is better)" if better else title
