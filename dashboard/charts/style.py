"""Shared parts of all figures: symbols and colours of environments, layout, safe labels."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

Figure = dict[str, Any]
"""Plain JSON: {"data": [...], "layout": {...}}, lists and numbers only."""

Marks = Mapping[str, int]
"""Environment's name -> its index on every page and plot; 0 is the baseline."""

SYMBOLS = (
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "cross",
    "triangle-down",
    "pentagon",
    "hexagon",
)
COLOURS = (
    "#41464c",
    "#d9730d",
    "#008cdb",
    "#28743d",
    "#9e5500",
    "#5a6a9a",
    "#c94fae",
    "#8f8f45",
)
"""Dark grey, then hues in the order of Okabe and Ito's: the light theme's `--env-0` to `--env-7`.

They are apart in lightness too, each 3:1 or more on white, in print and for colour-blind readers.
"""
DASHES = ("solid", "dash", "dashdot", "dot", "longdash", "longdashdot")
"""Lines are told apart in grey print too; the baseline's is solid."""

GROUND = "#ffffff"
INK, MUTED, LINE, BAND = "#1b1f24", "#5a626b", "#dcdedd", "rgba(90, 98, 107, 0.10)"
MONOSPACE = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


TICKS = (
    (1,),
    (1, 2, 5),
    (1, 1.5, 2, 3, 5, 7),
    (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8),
    tuple(i / 10 for i in range(10, 100, 2)),
)
"""Round numbers for a log axis, from sparse to dense."""


def meta(index: int) -> dict[str, Any]:
    """Return the data by which the page finds an environment's traces, to colour them."""
    return {"environment": index} | ({"role": "baseline"} if index == 0 else {})


def colour(index: int) -> str:
    """Return the colour of the environment with this index."""
    return COLOURS[index % len(COLOURS)]


def symbol(index: int) -> str:
    """Return the marker of the environment with this index."""
    return SYMBOLS[index % len(SYMBOLS)]


def dash(index: int) -> str:
    """Return the line style of the environment with this index."""
    return DASHES[index % len(DASHES)]


def label(text: str, *, longest: int = 40) -> str:
    """Return a name as text without plotly's pseudo-HTML, cut where it would be too long."""
    short = text if len(text) <= longest else text[: longest - 1] + "…"
    return html.escape(short, quote=False)


def with_unit(metric: str, unit: str) -> str:
    """Return the metric with its unit in brackets, for the title of an axis."""
    return f"{label(metric)} ({label(unit)})" if unit else label(metric)


def axis(title: str = "", **options: Any) -> dict[str, Any]:
    """Return an axis in the style of all plots; `options` go before its own settings."""
    return {
        "title": {"text": title, "standoff": 12, "font": {"size": 13}},
        "gridcolor": LINE,
        "zeroline": False,
        "showline": False,
        "automargin": True,
        "ticks": "",
        **options,
    }


def log_range(low: float, high: float) -> dict[str, Any]:
    """Return a log axis that holds both ends, with at least three round numbers if possible."""
    low, high = low / 1.12, high * 1.12
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in TICKS:
        ticks = [step * 10.0**decade for decade in decades for step in steps]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) >= 3:
            break
    return {
        "range": [math.log10(low), math.log10(high)],
        "tickvals": ticks,
        "ticktext": [f"{tick:g}" for tick in ticks],
    }


def close_log_range(low: float, high: float) -> dict[str, Any]:
    """Return a log axis for values close together, with ticks as on a linear one.

    Where they span more than a factor of 3 it is that of `log_range`.
    """
    if high > 3 * low:
        return log_range(low, high)
    room = max((high / low) ** 0.08, 1.0005)
    low, high = low / room, high * room
    step = 10.0 ** math.floor(math.log10(high - low))
    step = next(s for s in (step / 5, step / 2, step, 2 * step) if (high - low) / s <= 7)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    ticks = [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return {
        "range": [math.log10(low), math.log10(high)],
        "tickvals": [float(f"{tick:.12g}") for tick in ticks],
        "ticktext": [f"{tick:.{decimals}f}" for tick in ticks],
    }


def value_axis(metric: str, unit: str, values: Sequence[float]) -> dict[str, Any]:
    """Return the axis of measured values as the printed figures have it: a log scale, and named so.

    Linear where a value is not positive, since a chart shows all of them.
    """
    title = with_unit(metric, unit)
    if not values or min(values) <= 0:
        return axis(title)
    return axis(f"{title}, log scale", type="log", **close_log_range(min(values), max(values)))


def layout(*, height: int, margin: Mapping[str, int], **options: Any) -> dict[str, Any]:
    """Return a layout with a transparent background; the width is the page's."""
    return {
        "height": height,
        "margin": {"t": 36, "r": 16, "b": 56, "l": 16, **margin},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {
            "color": INK,
            "size": 13,
            "family": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif",
        },
        "hovermode": "closest",
        "showlegend": False,
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1,
            "yanchor": "bottom",
            "itemclick": False,
            "itemdoubleclick": False,
        },
        **options,
    }


def legend_room(names: int) -> int:
    """Return the pixels that a plot grows by for its legend, so that phones can show both."""
    return 16 * max(names - 3, 0)


def note(text: str, **options: Any) -> dict[str, Any]:
    """Return an annotation without an arrow; one named "muted" has the page's muted colour."""
    quiet = {"font": {"color": MUTED, "size": 12}} if options.get("name") == "muted" else {}
    return {"text": text, "showarrow": False, **quiet, **options}


def band(**place: Any) -> dict[str, Any]:
    """Return a shaded region behind the data."""
    return {
        "type": "rect",
        "name": "band",
        "layer": "below",
        "fillcolor": BAND,
        "line": {"width": 0},
        **place,
    }
