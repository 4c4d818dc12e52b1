"""What a row of a forest plot shows without words: its intervals, and the sign of its verdict."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from dashboard.drawings.elements import Element, Line, Polygon, make_symbol
from dashboard.drawings.forest import ForestRow
from dashboard.drawings.forest_columns import Places
from dashboard.drawings.themes import Theme
from experiments.statistics import Verdict

THICK, THIN, CAP, RIM = 2.1, 0.9, 0.8, 0.45
CAP_HEIGHT, RADIUS = 2.3, 0.72
ARROW, ARROW_HEIGHT, ARROW_ROOM = 2.2, 2.4, 2.0


def draw_interval(row: ForestRow, y: float, places: Places, theme: Theme) -> Iterator[Element]:
    """Draw both intervals of a ratio and its symbol, with an arrow where the axis cuts them."""
    colour = theme.colour(row.mark)
    left, right = places.left, places.right
    for interval, width, name in ((row.thin, THIN, "thin"), (row.thick, THICK, "thick")):
        if interval is None:
            continue
        start = max(places.find_x(interval[0]), left + ARROW_ROOM * row.cut_low)
        end = min(places.find_x(interval[1]), right - ARROW_ROOM * row.cut_high)
        if start < end:
            yield Line((start, y), (end, y), width, colour, name=name)
    for end in row.thick or ():
        x = places.find_x(end)
        if left <= x <= right:
            top, bottom = y - CAP_HEIGHT / 2, y + CAP_HEIGHT / 2
            yield Line((x, top), (x, bottom), CAP, colour, name="cap")
    yield from draw_arrows(row, y, left, right, colour)
    if row.ratio is None:
        return
    if row.is_outside:
        if not (row.cut_low or row.cut_high):  # it has no interval that would be cut
            is_low = row.ratio < places.low
            tip, back = (left, left + ARROW) if is_low else (right, right - ARROW)
            half = ARROW_HEIGHT / 2
            yield Polygon(((tip, y), (back, y - half), (back, y + half)), colour, name="arrow")
        return
    points = make_symbol(row.mark, (places.find_x(row.ratio), y), RADIUS)
    if row.thick:
        yield Polygon(points, colour, theme.ground, RIM, name="symbol")
    else:
        yield Polygon(points, theme.ground, colour, CAP, name="symbol")


def draw_arrows(
    row: ForestRow, y: float, left: float, right: float, colour: str
) -> Iterator[Element]:
    """Draw an arrow at each edge of the axis beyond which an interval of the row goes on."""
    for is_cut, tip, back in (
        (row.cut_low, left, left + ARROW),
        (row.cut_high, right, right - ARROW),
    ):
        if is_cut:
            half = ARROW_HEIGHT / 2
            yield Polygon(((tip, y), (back, y - half), (back, y + half)), colour, name="arrow")


def draw_glyph(verdict: str, left: float, y: float, theme: Theme) -> Iterator[Element]:
    """Draw the sign of a verdict in ink: two bars, ≤, a triangle, a ring, a dash."""
    ink, muted, middle = theme.ink, theme.muted, left + 0.85
    match verdict:
        case Verdict.EQUIVALENT:
            for shift in (-0.45, 0.45):
                yield Line((left, y + shift), (left + 1.7, y + shift), 1.1, ink, name="glyph")
        case Verdict.NOT_SLOWER:
            right = left + 1.7
            corner = ((right, y - 0.95), (left, y - 0.25), (right, y + 0.45))
            for start, end in (*pairwise(corner), ((left, y + 0.95), (right, y + 0.95))):
                yield Line(start, end, 0.9, ink, name="glyph")
        case Verdict.SLOWER | Verdict.FASTER:
            way = 1 if verdict == Verdict.SLOWER else -1
            tip, back = middle + 0.85 * way, middle - 0.75 * way
            yield Polygon(((tip, y), (back, y - 0.85), (back, y + 0.85)), ink, name="glyph")
        case Verdict.INCONCLUSIVE:
            ring = make_symbol(0, (middle, y), 0.68)
            yield Polygon(ring, "", muted, 1.0, name="glyph")
        case _:
            yield Line((left + 0.2, y), (left + 1.5, y), 0.8, muted, name="glyph")
