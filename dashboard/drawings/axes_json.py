"""A figure with axes as JSON, in which it travels to the process that draws it."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

from dashboard.drawings.axes_figure import (
    Area,
    AxesFigure,
    Axis,
    Band,
    Key,
    Note,
    Panel,
    Path,
    Points,
    Rule,
)

KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (Area, AxesFigure, Axis, Band, Key, Note, Panel, Path, Points, Rule)
}
KIND = "kind of thing"
"""The key under which the name of a class stands."""


def write_axes_figure(figure: AxesFigure) -> str:
    """Return the description as JSON with its keys in order: equal figures are equal texts."""
    return json.dumps(_write(figure), sort_keys=True, ensure_ascii=False, allow_nan=False)


def read_axes_figure(text: str) -> AxesFigure:
    """Return the description that `write_axes_figure` has written."""
    figure = _read(json.loads(text))
    if not isinstance(figure, AxesFigure):
        raise TypeError("This is not a figure with axes.")
    return figure


def _write(thing: Any) -> Any:
    if isinstance(thing, tuple):
        return [_write(part) for part in thing]
    if is_dataclass(thing) and not isinstance(thing, type):
        written = {each.name: _write(getattr(thing, each.name)) for each in fields(thing)}
        return {KIND: type(thing).__name__, **written}
    return thing


def _read(thing: Any) -> Any:
    if isinstance(thing, list):
        return tuple(_read(part) for part in thing)
    if isinstance(thing, dict):
        return KINDS[thing.pop(KIND)](**{name: _read(part) for name, part in thing.items()})
    return thing
