"""Equal axes for two figures of the same kind that stand beside each other."""

from __future__ import annotations

import math
from typing import Any

from dashboard.charts.style import Figure, log_range

AXES = {"x": "xaxis", "y": "yaxis"}


def share_axes(left: Figure, right: Figure) -> None:
    """Give both figures the axes that hold the values of both, where they have the same titles.

    Axes with another title are in another unit, and stay.
    """
    for key, name in AXES.items():
        axes = [figure["layout"].get(name, {}) for figure in (left, right)]
        if _describe(axes[0]) != _describe(axes[1]):
            continue
        values = [value for figure in (left, right) for value in _list_values(figure, key)]
        if not values:
            continue
        low, high = min(values), max(values)
        for axis in axes:
            axis.update(_find_extent(axis, low, high))


def _describe(axis: dict[str, Any]) -> tuple[Any, Any]:
    return axis.get("title"), axis.get("type")


def _list_values(figure: Figure, key: str) -> list[float]:
    return [
        value
        for trace in figure["data"]
        for value in trace.get(key) or []
        if isinstance(value, int | float) and math.isfinite(value)
    ]


def _find_extent(axis: dict[str, Any], low: float, high: float) -> dict[str, Any]:
    if axis.get("type") == "log":
        return log_range(low, high) if low > 0 else {}
    room = 0.04 * (high - low) or 0.04 * abs(high) or 1.0
    beginning = 0.0 if axis.get("rangemode") == "tozero" and low >= 0 else low - room
    return {"range": [beginning, high + room]}
