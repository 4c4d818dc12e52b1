"""Figures as they are sent: what a trace says again and again is written once.

`static/js/charts.js` unpacks them. A trace of 20 runs of 500 steps names the run of each point, and
the same steps for each run: that is two thirds of the figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from dashboard.charts.style import Figure

WORTH = 4
"""A list is packed where that makes it so many times shorter."""


def pack_figure(figure: Figure) -> Figure:
    """Return a figure whose traces have `packed_customdata` and `packed_x` where that is shorter.

    The first is a list of values with how often each follows itself. The second is a list of
    places, and of lines that have as many of these, each line with a gap after it.
    """
    return {**figure, "data": [_pack_trace(trace) for trace in figure["data"]]}


def _pack_trace(trace: dict[str, Any]) -> dict[str, Any]:
    packed = {
        "customdata": _count_repetitions(trace.get("customdata") or ()),
        "x": _share_places(trace.get("x") or ()),
    }
    kept = {name: value for name, value in trace.items() if not packed.get(name)}
    return kept | {f"packed_{name}": value for name, value in packed.items() if value}


def _count_repetitions(values: Sequence[Any]) -> list[tuple[Any, int]] | None:
    """Return each value with how often it follows itself; None where few do."""
    counted = [(value, len(list(same))) for value, same in groupby(values)]
    return counted if WORTH * len(counted) <= len(values) else None


def _share_places(values: Sequence[Any]) -> tuple[list[Any], list[int]] | None:
    """Return the places of the longest line, and how many of them each line has.

    None where lines have others, or where that is not shorter.
    """
    if not values or values[-1] is not None:
        return None
    lines = list(_split_lines(values))
    longest = max(lines, key=len)
    if WORTH * (len(longest) + len(lines)) > len(values):
        return None
    if any(line != longest[: len(line)] for line in lines):
        return None
    return longest, [len(line) for line in lines]


def _split_lines(values: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield what stands before each None; the last value is one."""
    start = 0
    while start < len(values):
        end = values.index(None, start)
        yield list(values[start:end])
        start = end + 1
