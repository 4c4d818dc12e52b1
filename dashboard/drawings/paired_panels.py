"""Two figures of the same kind as one: their panels beside each other, on equal axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from dashboard.drawings.axes_figure import (
    AxesFigure,
    Axis,
    Key,
    Panel,
    choose_linear_ticks,
)

NOTHING = "nothing was recorded"
LEFT_OUT = " ("
"""What begins the unit in the title of an axis."""


def pair_figures(
    figures: tuple[AxesFigure | None, AxesFigure | None], names: tuple[str, str], title: str
) -> AxesFigure | None:
    """Return one figure of two: each left panel beside the right one of the same quantity.

    Each panel says whose it is. What only one side has stands beside an empty panel. None where
    neither has anything.
    """
    left, right = figures
    known = [figure for figure in figures if figure]
    if not known:
        return None
    panels: list[Panel] = []
    for pair in _pair_panels(left.panels if left else (), right.panels if right else ()):
        panels += _share_axes(pair, names)
    return AxesFigure(
        title=title,
        description=f"{len(panels) // 2} quantities of two experiments, on equal axes.",
        panels=tuple(panels),
        keys=_join_keys(figures, names),
        notes=tuple(dict.fromkeys(note for figure in known for note in figure.notes)),
    )


def _identify(panel: Panel) -> tuple[str, ...]:
    """Return what a panel is of: its titles without units."""
    return tuple(
        text.partition(LEFT_OUT)[0] for text in (panel.title, panel.x.title, panel.y.title)
    )


def _pair_panels(
    left: Sequence[Panel], right: Sequence[Panel]
) -> Iterator[tuple[Panel | None, Panel | None]]:
    by_quantity: dict[tuple[str, ...], tuple[list[Panel], list[Panel]]] = {}
    for side, panels in enumerate((left, right)):
        for panel in panels:
            by_quantity.setdefault(_identify(panel), ([], []))[side].append(panel)
    for sides in by_quantity.values():
        yield from zip_longest(*sides)


def _share_axes(
    pair: tuple[Panel | None, Panel | None], names: tuple[str, str]
) -> tuple[Panel, Panel]:
    """Return both panels with the axes of both; without one of them, an empty one beside it."""
    left = pair[0] or _empty(pair[1])
    right = pair[1] or _empty(pair[0])
    x, y = _join_axes(left.x, right.x), _join_axes(left.y, right.y)
    return (
        replace(left, title=_write_title(names[0], left), x=x or left.x, y=y or left.y),
        replace(right, title=_write_title(names[1], right), x=x or right.x, y=y or right.y),
    )


def _empty(panel: Panel | None) -> Panel:
    """Return a panel without contents that is as large as another one."""
    assert panel is not None, "one of both sides has a panel"
    return replace(panel, items=(), title=NOTHING)


def _write_title(name: str, panel: Panel) -> str:
    return ": ".join(filter(None, (name, panel.title)))


def _join_axes(left: Axis, right: Axis) -> Axis | None:
    """Return the axis that holds both; None where they have other units or other scales."""
    if (left.title, left.is_log, left.has_names) != (right.title, right.is_log, right.has_names):
        return None
    if left.has_names:
        return None
    low, high = min(left.low, right.low), max(left.high, right.high)
    if left.is_log:
        ticks = tuple(sorted({**dict(left.ticks), **dict(right.ticks)}.items()))
        return replace(left, low=low, high=high, ticks=ticks)
    if not math.isfinite(high - low):
        return None
    return replace(left, low=low, high=high, ticks=choose_linear_ticks(low, high))


def _join_keys(
    figures: tuple[AxesFigure | None, AxesFigure | None], names: tuple[str, str]
) -> tuple[Key, ...]:
    """Return the keys of both; where a line stands for two environments, with the side."""
    sides = [figure.keys if figure else () for figure in figures]
    texts: dict[tuple[str, int], set[str]] = {}
    for key in (*sides[0], *sides[1]):
        texts.setdefault((key.kind, key.index), set()).add(key.text)
    return tuple(
        dict.fromkeys(
            replace(key, text=f"{key.text} ({side})")
            if len(texts[key.kind, key.index]) > 1
            else key
            for side, keys in zip(("left", "right"), sides, strict=True)
            for key in keys
        )
    )
