"""The row of a forest plot that pools configurations: a diamond, and a dashed line around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from dashboard.drawings.elements import Element, Line, Polygon
from dashboard.drawings.forest import ForestRow
from dashboard.drawings.forest_marks import ARROW, draw_arrows
from dashboard.drawings.themes import Theme

HALF_HEIGHT = 1.15
NARROWEST = 0.9
"""Millimetres: a narrower diamond would not be seen as one."""
RIM, DASHED, CAP, CAP_HEIGHT = 0.45, 0.9, 0.8, 1.6
DASH = (2.0, 1.2)


class Axis(Protocol):
    """Where ratios are, across."""

    @property
    def left(self) -> float: ...
    @property
    def right(self) -> float: ...
    def find_x(self, ratio: float) -> float: ...


def draw_diamond(row: ForestRow, y: float, axis: Axis, theme: Theme) -> Iterator[Element]:
    """Draw the interval of a mean as a diamond, and its prediction interval as a dashed line.

    What lies beyond the axis ends in an arrow at its edge.
    """
    if row.ratio is None or row.thick is None:
        return
    colour, left, right = theme.colour(row.mark), axis.left, axis.right
    if row.prediction:
        low, high = map(axis.find_x, row.prediction)
        start, end = max(low, left + ARROW * row.cut_low), min(high, right - ARROW * row.cut_high)
        if start < end:
            yield Line((start, y), (end, y), DASHED, colour, DASH, name="prediction")
        for x in (low, high):
            if left <= x <= right:
                top, bottom = y - CAP_HEIGHT / 2, y + CAP_HEIGHT / 2
                yield Line((x, top), (x, bottom), CAP, colour, name="prediction cap")
    yield from draw_arrows(row, y, left, right, colour)
    if row.is_outside:
        return
    middle = axis.find_x(row.ratio)
    low, high = (min(max(axis.find_x(end), left), right) for end in row.thick)
    low, high = min(low, middle - NARROWEST / 2), max(high, middle + NARROWEST / 2)
    points = ((low, y), (middle, y - HALF_HEIGHT), (high, y), (middle, y + HALF_HEIGHT))
    yield Polygon(points, colour, theme.ground, RIM, name="diamond")
