"""Plots of scaling: the value beside the ideal, and the efficiency with its interval."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dashboard.charts.style import (
    MUTED,
    Figure,
    Marks,
    axis,
    colour,
    label,
    layout,
    legend_room,
    log_range,
    meta,
    note,
    symbol,
)
from experiments.statistics import Better, numbers
from experiments.statistics.scaling import Batch, Gain, Level, compute_ideal
from experiments.statistics.values import Interval

APART = 0.025
"""Distance (in log10 GPUs) between the symbols of neighbouring environments."""
WIDEST = 0.16
"""Largest distance between the first and the last one: 2 GPUs must not look like 3."""
LEFT = 64
"""Pixels for the labels of the values: fixed, so that the small print can begin below them."""
LINE_HEIGHT = 15
LINE_LENGTH = 48
"""Characters of the small print that fit in one line on a phone."""


def draw_scaling(
    levels: Sequence[Level], *, unit: str, metric: str, better: Better, batch: Batch, marks: Marks
) -> Figure:
    """Draw the value against GPUs on log axes: a point for each level, with its 95 % interval.

    Dashed lines are the ideal of each environment. Points are not joined, because nothing was
    measured between two scales. Each base is printed below.
    """
    factor, shown = numbers.si([level.mean for level in levels], unit)
    bases = find_bases(levels, marks)
    most = max((level.gpus for level in levels), default=1)
    places = choose_places([level.environment for level in levels], marks)
    data = [
        trace
        for base in bases.values()
        for trace in _ideal(base, most, factor, better, batch, marks, places)
        if base.gpus < most
    ]
    for name in bases:
        mine = [level for level in levels if level.environment == name]
        data += _points(
            name,
            [level.gpus * places[name] for level in mine],
            [level.mean * factor for level in mine],
            [_scaled(level.ci95, factor) for level in mine],
            [_hover_text_of_level(level, unit) for level in mine],
            marks,
        )
    ends = [y for trace in data for y in trace["y"] if y is not None]
    return _figure(
        data,
        levels,
        axis(
            f"{label(metric, longest=28)}{f' ({label(shown)})' * bool(shown)}, log scale",
            type="log",
            **log_range(min(ends, default=1.0), max(ends, default=10.0)),
        ),
        [],
        list_base_texts(list(bases.values()), unit),
    )


def draw_efficiency(gains: Sequence[Gain], *, marks: Marks) -> Figure:
    """Draw the share of the ideal speed-up, with 95 % intervals; the base is 100 %."""
    known = [gain for gain in gains if gain.efficiency is not None]
    names = list(dict.fromkeys(gain.level.environment for gain in known))
    places = choose_places(names, marks)
    data: list[dict[str, Any]] = []
    for name in sorted(names, key=lambda name: marks[name]):
        mine = [gain for gain in known if gain.level.environment == name]
        data += _points(
            name,
            [gain.level.gpus * places[name] for gain in mine],
            [100 * (gain.efficiency or 0) for gain in mine],
            [_scaled(gain.efficiency_ci95, 100) for gain in mine],
            [_hover_text_of_gain(gain) for gain in mine],
            marks,
        )
    # A wild interval runs out of the plot; its numbers stand in the table of the figure.
    highest = max((min(y, 200.0) for trace in data for y in trace["y"] if y is not None), default=0)
    return _figure(
        data,
        [gain.level for gain in known],
        axis("efficiency (%)", range=[0, 1.06 * max(highest, 103.0)]),
        [
            {
                "type": "line",
                "name": "reference",
                "layer": "below",
                "line": {"color": MUTED, "width": 1.5},
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "yref": "y",
                "y0": 100,
                "y1": 100,
            }
        ],
        [],
    )


def _figure(
    data: list[dict[str, Any]],
    levels: Sequence[Level],
    yaxis: dict[str, Any],
    shapes: list[dict[str, Any]],
    small: Sequence[str],
) -> Figure:
    """Return a figure with GPUs on a log axis whose ticks are the numbers that were measured."""
    gpus = sorted({level.gpus for level in levels}) or [1]
    room = 0.5 * WIDEST + 0.1
    lines = [line for text in small for line in textwrap.wrap(text, LINE_LENGTH) or [""]]
    below = 60 + LINE_HEIGHT * len(lines)
    return {
        "data": data,
        "layout": layout(
            height=300 + 48 + below + legend_room(len({level.environment for level in levels})),
            margin={"t": 48, "b": below, "l": LEFT},
            showlegend=True,
            # The symbols stand beside their tick, so the tick is what a point's GPUs are.
            xaxis=axis(
                type="log",
                range=[math.log10(gpus[0]) - room, math.log10(gpus[-1]) + room],
                tickvals=gpus,
                ticktext=[str(count) for count in gpus],
                showgrid=False,
                automargin=False,
            ),
            yaxis={**yaxis, "automargin": False},
            shapes=shapes,
            meta={"x": "GPUs"},
            annotations=[
                _under("GPUs (log scale)", 24, x=0.5, xanchor="center", font={"size": 13}),
                *(
                    _under(
                        line,
                        50 + LINE_HEIGHT * place,
                        x=0,
                        xanchor="left",
                        xshift=4 - LEFT,
                        name="muted",
                        font={"color": MUTED, "size": 11},
                    )
                    for place, line in enumerate(lines)
                ),
            ],
        ),
    }


def _under(text: str, pixels: int, **options: Any) -> dict[str, Any]:
    """Return a note `pixels` below the plot."""
    return note(text, xref="paper", yref="paper", y=0, yanchor="top", yshift=-pixels, **options)


def find_bases(levels: Sequence[Level], marks: Marks) -> dict[str, Level]:
    """Return the smallest scale of each environment, in the order of their symbols."""
    bases: dict[str, Level] = {}
    for level in sorted(levels, key=lambda level: level.gpus):
        bases.setdefault(level.environment, level)
    return {name: bases[name] for name in sorted(bases, key=lambda name: marks[name])}


def _ideal(
    base: Level,
    most: int,
    factor: float,
    better: Better,
    batch: Batch,
    marks: Marks,
    places: Mapping[str, float],
) -> Iterator[dict[str, Any]]:
    """Draw the ideal of an environment, moved aside as far as its points are."""
    end = compute_ideal(base, most, better=better, batch=batch)
    aside, index = places[base.environment], marks[base.environment]
    if end is None:
        return
    yield {
        "type": "scatter",
        "mode": "lines",
        "meta": meta(index),
        "legendgroup": str(index),
        "name": f"{label(base.environment, longest=28)}, ideal",
        "x": [base.gpus * aside, most * aside],
        "y": [base.mean * factor, end * factor],
        "line": {"width": 1, "dash": "dash", "color": colour(index)},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _points(
    name: str,
    x: Sequence[float],
    y: Sequence[float],
    intervals: Sequence[Interval | None],
    hover_texts: Sequence[str],
    marks: Marks,
) -> Iterator[dict[str, Any]]:
    """Draw symbols and their intervals; a symbol without an interval is hollow."""
    index = marks[name]
    shared = {"type": "scatter", "meta": meta(index), "legendgroup": str(index)}
    known = [(at, *ends) for at, ends in zip(x, intervals, strict=True) if ends is not None]
    yield {
        **shared,
        "mode": "lines",
        "name": f"{label(name, longest=28)}, 95 % interval",
        "x": [place for at, _, _ in known for place in (at, at, None)],
        "y": [end for _, low, high in known for end in (low, high, None)],
        "line": {"width": 2, "color": colour(index)},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    yield {
        **shared,
        "mode": "markers",
        "name": label(name, longest=28),
        "x": list(x),
        "y": list(y),
        "marker": {
            "symbol": [symbol(index) + "-open" * (ends is None) for ends in intervals],
            "color": colour(index),
            "size": 10,
            "line": {"width": 1, "color": "#ffffff"},
        },
        "text": list(hover_texts),
        "hovertemplate": "%{text}<extra></extra>",
    }


def choose_places(names: Sequence[str], marks: Marks) -> Mapping[str, float]:
    """Return the factor by which each environment's points are moved beside their GPUs."""
    ordered = sorted(set(names), key=lambda name: marks[name])
    apart = min(APART, WIDEST / max(len(ordered) - 1, 1))
    middle = (len(ordered) - 1) / 2
    return {name: 10 ** (apart * (place - middle)) for place, name in enumerate(ordered)}


def _scaled(interval: Interval | None, factor: float) -> Interval | None:
    return interval and (interval[0] * factor, interval[1] * factor)


def list_base_texts(bases: Sequence[Level], unit: str) -> list[str]:
    """Return lines on each base: value, n, machine and framework (Hoefler & Belli, rule 1)."""
    lines = [
        f"{label(base.environment, longest=28)} {_value(base, unit)}, {_gpus(base.gpus)}".replace(
            " GPU", "\u00a0GPU"
        )
        for base in bases
    ]
    if lines:
        lines.insert(0, "Each base with its 95 % CI:")
    environments_by_software: dict[str, list[str]] = {}
    for base in bases:
        environments_by_software.setdefault(base.made_with, []).append(
            label(base.environment, longest=24)
        )
    for software, names in environments_by_software.items():
        who = f"{', '.join(names)}: " if len(environments_by_software) > 1 else ""
        lines.append(f"{who}{label(software, longest=90) or 'machine and framework not stated'}")
    return lines


def _value(level: Level, unit: str) -> str:
    """Return the value of a level with its interval and n."""
    runs = f"n = {level.n}" if level.n else "n not stated"
    unit = "" if unit == "1" else unit
    if level.ci95 is None:
        return f"{numbers.quantity(level.mean, unit)} ({runs})"
    factor, text = numbers.si([level.mean], unit)
    decimals = max(0, 3 - math.floor(math.log10(level.mean * factor)))
    mean, low, high = (numbers.fixed(x * factor, decimals) for x in (level.mean, *level.ci95))
    return f"{mean} {label(text)} [{low}, {high}], {runs}"


def _hover_text_of_level(level: Level, unit: str) -> str:
    scale = f" ({label(level.scale)})" if level.scale else ""
    where = f"<b>{label(level.environment)}</b>, {_gpus(level.gpus)}{scale}"
    return f"{where}<br>{_value(level, unit)}"


def _hover_text_of_gain(gain: Gain) -> str:
    level, base = gain.level, gain.base
    return "<br>".join(
        (
            f"<b>{label(level.environment)}</b>, {_gpus(level.gpus)}",
            f"efficiency {numbers.ratio(gain.efficiency, gain.efficiency_ci95)} (95 % CI)",
            f"speed-up {numbers.ratio(gain.speed_up, gain.speed_up_ci95)} over {_gpus(base.gpus)}",
        )
    )


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' * (count != 1)}"
