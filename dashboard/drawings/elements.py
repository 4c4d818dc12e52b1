"""Drawings: lines, polygons and texts in millimetres from the upper left corner."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Point = tuple[float, float]
Face = Literal["regular", "bold", "italic"]
Anchor = Literal["start", "middle", "end"]

TYPE = 7.0
"""Points: the one size of type in a figure."""
BELOW_MIDDLE = 0.87
"""Millimetres from the middle of a row down to the baseline of its text."""
CORNERS = 32
"""Corners of the polygon that stands for a circle."""


@dataclass(frozen=True)
class Line:
    """A straight line; `width` in points, `dash` in points of line and gap."""

    start: Point
    end: Point
    width: float
    colour: str
    dash: tuple[float, ...] = ()
    name: str = ""
    """What the line stands for, by which tests find it."""


@dataclass(frozen=True)
class Polyline:
    """Lines from point to point; `width` in points, `dash` in points of line and gap."""

    points: tuple[Point, ...]
    width: float
    colour: str
    dash: tuple[float, ...] = ()
    name: str = ""
    opacity: float = 1.0


@dataclass(frozen=True)
class Polygon:
    """A closed shape; without `fill` it is a ring of its edge, whose `width` is in points."""

    points: tuple[Point, ...]
    fill: str = ""
    edge: str = ""
    width: float = 0.0
    name: str = ""
    opacity: float = 1.0


@dataclass(frozen=True)
class Text:
    """A line of text whose baseline begins, ends or has its middle at `place`."""

    place: Point
    text: str
    colour: str
    face: Face = "regular"
    anchor: Anchor = "start"
    size: float = TYPE


Element = Line | Polyline | Polygon | Text


@dataclass(frozen=True)
class Drawing:
    """One page of a figure at its final size."""

    width: float
    height: float
    ground: str
    title: str
    description: str
    elements: tuple[Element, ...]


def make_rectangle(left: float, top: float, right: float, bottom: float) -> tuple[Point, ...]:
    """Return the corners of a rectangle."""
    return (left, top), (right, top), (right, bottom), (left, bottom)


def make_symbol(index: int, centre: Point, radius: float) -> tuple[Point, ...]:
    """Return the corners of an environment's symbol, which is about as large as the others.

    The order is that of `dashboard.charts.SYMBOLS`: the same symbol on every page and figure.
    """
    x, y = centre
    place = index % len(_SHAPES)
    return tuple((x + radius * dx, y + radius * dy) for dx, dy in _SHAPES[place])


def _regular(corners: int, radius: float, *, first: float = -90.0) -> tuple[Point, ...]:
    angles = (math.radians(first + 360 * corner / corners) for corner in range(corners))
    return tuple((radius * math.cos(angle), radius * math.sin(angle)) for angle in angles)


def _moved(points: Sequence[Point], dy: float) -> tuple[Point, ...]:
    return tuple((x, y + dy) for x, y in points)


def _cross(arm: float, half: float) -> tuple[Point, ...]:
    corner = ((half, -arm), (half, -half), (arm, -half), (arm, half), (half, half), (half, arm))
    return (*corner, *((-x, -y) for x, y in corner))


_SHAPES: tuple[tuple[Point, ...], ...] = (
    _regular(CORNERS, 1.0),
    _regular(4, 1.25, first=-45.0),
    _regular(4, 1.3),
    _moved(_regular(3, 1.3), 0.2),
    _cross(1.15, 0.42),
    _moved(_regular(3, 1.3, first=90.0), -0.2),
    _regular(5, 1.1),
    _regular(6, 1.08, first=0.0),
)
