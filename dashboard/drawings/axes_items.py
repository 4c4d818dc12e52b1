"""What stands in a panel, drawn in its box: points, lines, areas, rules and notes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dashboard.drawings.axes_figure import (
    INK,
    MUTED,
    Area,
    Band,
    Item,
    Note,
    Panel,
    Path,
    Points,
    Rule,
)
from dashboard.drawings.elements import (
    BELOW_MIDDLE,
    Element,
    Face,
    Line,
    Point,
    Polygon,
    Polyline,
    Text,
    make_rectangle,
    make_symbol,
)
from dashboard.drawings.themes import Theme, compute_contrast
from dashboard.drawings.typeface import Typeface

RADIUS, SMALL_RADIUS, RIM, RING = 0.85, 0.6, 0.35, 0.7
RULE, RULE_DASH = 0.5, (2.0, 1.5)
DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (5.0, 1.6),
    (5.0, 1.4, 1.2, 1.4),
    (1.3, 1.3),
    (8.0, 2.0),
    (8.0, 1.4, 1.2, 1.4),
)
"""Of the lines of environments, in points; in the order of `dashboard.charts.style.DASHES`."""
PALE, BAND, BAND_EDGE = 0.45, 0.15, 0.3
PADDING = 0.6
EDGE, HATCH, HATCH_LINE = 0.35, 1.3, 0.45
"""Of phases: the edge in points; the hatching in millimetres from line to line, and in points."""


@dataclass(frozen=True)
class Box:
    """Where a panel's plot is, in millimetres."""

    panel: Panel
    left: float
    top: float
    right: float
    bottom: float

    def find_x(self, value: float) -> float:
        """Return where a value of x is."""
        return self.left + self.panel.x.find_share(value) * (self.right - self.left)

    def find_y(self, value: float) -> float:
        """Return where a value of y is; larger ones are higher."""
        return self.bottom - self.panel.y.find_share(value) * (self.bottom - self.top)

    def holds(self, point: Point) -> bool:
        """Return whether a point lies in the box or on its edge."""
        x, y = point
        return (
            self.left - 1e-6 <= x <= self.right + 1e-6
            and self.top - 1e-6 <= y <= self.bottom + 1e-6
        )


def find_colour(mark: int, theme: Theme) -> str:
    """Return the colour of an environment, or of what belongs to none."""
    return {MUTED: theme.joining, INK: theme.ink}.get(mark) or theme.colour(mark)


def draw_item(item: Item, box: Box, theme: Theme, type_: Typeface) -> Iterator[Element]:
    """Draw one thing; what lies outside the axes is left out."""
    match item:
        case Points():
            yield from _draw_points(item, box, theme)
        case Path():
            yield from _draw_path(item, box, theme)
        case Area():
            yield from _draw_area(item, box, theme, type_)
        case Band():
            yield from _draw_band(item, box, theme)
        case Rule():
            yield from _draw_rule(item, box, theme, type_)
        case Note():
            yield from _draw_note(item, box, theme, type_)


def _draw_points(points: Points, box: Box, theme: Theme) -> Iterator[Element]:
    colour = find_colour(points.mark, theme)
    radius = SMALL_RADIUS if points.is_small else RADIUS
    hollow = set(points.hollow)
    for place, (x, y) in enumerate(zip(points.x, points.y, strict=True)):
        centre = box.find_x(x), box.find_y(y)
        if not box.holds(centre):
            continue
        symbol = make_symbol(max(points.mark, 0), centre, radius)
        if place in hollow:
            yield Polygon(symbol, theme.ground, colour, RING, name="point")
        else:
            yield Polygon(symbol, colour, theme.ground, RIM, name="point")


def _draw_path(path: Path, box: Box, theme: Theme) -> Iterator[Element]:
    dash: tuple[float, ...] = ()
    if path.is_dashed:
        dash = DASHES[path.mark % len(DASHES)] if path.mark >= 0 else RULE_DASH
    stretch: list[Point] = []
    stretches: list[list[Point]] = [stretch]
    for x, y in zip(path.x, path.y, strict=True):
        if x is None or y is None:
            stretch = []
            stretches.append(stretch)
        else:
            stretch.append((box.find_x(x), box.find_y(y)))
    colour = find_colour(path.mark, theme)
    for points in stretches:
        for piece in clip(points, box):
            yield Polyline(
                tuple(piece), path.width, colour, dash, "path", PALE if path.is_pale else 1.0
            )


def clip(points: Sequence[Point], box: Box) -> Iterator[list[Point]]:
    """Yield the parts of a line that lie in the box (Liang and Barsky, 1984)."""
    piece: list[Point] = []
    for start, end in pairwise(points):
        part = _clip_segment(start, end, box)
        if part is None:
            if len(piece) > 1:
                yield piece
            piece = []
            continue
        if piece and piece[-1] != part[0]:
            yield piece
            piece = []
        piece = [*(piece or [part[0]]), part[1]]
        if part[1] != end:
            yield piece
            piece = []
    if len(piece) > 1:
        yield piece


def _clip_segment(start: Point, end: Point, box: Box) -> tuple[Point, Point] | None:
    (x, y), dx, dy = start, end[0] - start[0], end[1] - start[1]
    first, last = 0.0, 1.0
    for step, room in (
        (-dx, x - box.left),
        (dx, box.right - x),
        (-dy, y - box.top),
        (dy, box.bottom - y),
    ):
        if step == 0:
            if room < 0:
                return None
            continue
        share = room / step
        if step < 0:
            first = max(first, share)
        else:
            last = min(last, share)
    if first > last:
        return None
    begin = start if first == 0 else (x + first * dx, y + first * dy)
    return begin, end if last == 1 else (x + last * dx, y + last * dy)


def _draw_area(area: Area, box: Box, theme: Theme, type_: Typeface) -> Iterator[Element]:
    left = box.left if area.left is None else box.find_x(area.left)
    right = box.right if area.right is None else box.find_x(area.right)
    bottom = box.bottom if area.bottom is None else box.find_y(area.bottom)
    top = box.top if area.top is None else box.find_y(area.top)
    left, right = sorted(min(max(x, box.left), box.right) for x in (left, right))
    top, bottom = sorted(min(max(y, box.top), box.bottom) for y in (top, bottom))
    if right <= left or bottom <= top:
        return
    kind, _, number = area.colour.partition(" ")
    if kind == "phase":
        fill, hatching = theme.fill_phase(int(number))
        yield from draw_phase(left, top, right, bottom, int(number), theme, "phase")
    else:
        fill, hatching = find_colour(int(number), theme) if kind == "mark" else theme.band, ""
        yield Polygon(make_rectangle(left, top, right, bottom), fill, name=kind)
    wide = type_.measure(area.text) if area.text else 0.0
    if area.text and wide + 2 * PADDING <= right - left:
        colour = max((theme.ink, theme.ground), key=lambda each: compute_contrast(each, fill))
        x, y = (left + right) / 2, (top + bottom) / 2 + BELOW_MIDDLE
        if hatching:
            half = wide / 2 + 0.4
            yield Polygon(make_rectangle(x - half, y - 2.2, x + half, y + 0.7), fill, name="ground")
        yield Text((x, y), area.text, colour, anchor="middle")


def draw_phase(
    left: float, top: float, right: float, bottom: float, index: int, theme: Theme, name: str
) -> Iterator[Element]:
    """Draw a rectangle as a phase looks: its shade, its hatching, and an edge in ink around it.

    The edge alone stands out from the ground where the shade does not.
    """
    corners = make_rectangle(left, top, right, bottom)
    fill, hatching = theme.fill_phase(index)
    yield Polygon(corners, fill, theme.ink, EDGE, name=name)
    if hatching:
        # Lines of x + y = constant, at the same places of the page in each rectangle.
        level = HATCH * math.ceil((left + top) / HATCH + 1e-9)
        while level < right + bottom - 1e-9:
            start = max(left, level - bottom)
            end = min(right, level - top)
            if end > start:
                ends = (start, level - start), (end, level - end)
                yield Line(*ends, HATCH_LINE, hatching, name="hatch")
            level += HATCH


def _draw_band(band: Band, box: Box, theme: Theme) -> Iterator[Element]:
    """Draw a shape for each stretch without a gap; it ends at the edges of the box."""
    stretch: list[tuple[float, float, float]] = []
    stretches = [stretch]
    for x, low, high in zip(band.x, band.low, band.high, strict=True):
        if low is None or high is None:
            stretch = []
            stretches.append(stretch)
            continue
        if box.left - 1e-6 <= box.find_x(x) <= box.right + 1e-6:
            stretch.append((box.find_x(x), box.find_y(low), box.find_y(high)))
    colour = find_colour(band.mark, theme)
    for places in stretches:
        if len(places) < 2:
            continue
        above = [(x, top) for x, _, top in places]
        below = [(x, bottom) for x, bottom, _ in places]
        corners = tuple(
            (x, min(max(y, box.top), box.bottom)) for x, y in (*above, *reversed(below))
        )
        yield Polygon(corners, colour, name="band of runs", opacity=BAND)
        for edge in (above, below):  # they tell bands apart that lie over each other
            for piece in clip(edge, box):
                yield Polyline(tuple(piece), BAND_EDGE, colour, name="edge of a band")


def _draw_rule(rule: Rule, box: Box, theme: Theme, type_: Typeface) -> Iterator[Element]:
    dash = RULE_DASH if rule.is_dashed else ()
    colour = theme.edge
    if rule.x is not None:
        x = box.find_x(rule.x)
        if not box.left <= x <= box.right:
            return
        yield Line((x, box.top), (x, box.bottom), RULE, colour, dash, name="rule")
        wide = type_.measure(rule.text)
        if rule.text and x + PADDING + wide <= box.right:
            place, anchor = (x + PADDING, box.top + 2.4), "start"
        else:
            place, anchor = (x - PADDING, box.top + 2.4), "end"
    elif rule.y is not None:
        y = box.find_y(rule.y)
        if not box.top <= y <= box.bottom:
            return
        yield Line((box.left, y), (box.right, y), RULE, colour, dash, name="rule")
        place, anchor = (box.left + PADDING, y + 2.6), "start"
        if place[1] > box.bottom - 0.4:
            place = (place[0], y - PADDING)
    else:
        return
    if rule.text:
        yield Text(place, rule.text, theme.muted, anchor=anchor)  # type: ignore[arg-type]


def _draw_note(note: Note, box: Box, theme: Theme, type_: Typeface) -> Iterator[Element]:
    """Draw a text right of its point; left of it where there is no room."""
    face: Face = "bold" if note.is_bold else "regular"
    x = min(max(box.find_x(note.x), box.left), box.right)
    y = min(max(box.find_y(note.y), box.top + 1.2), box.bottom - 1.2) + BELOW_MIDDLE
    wide = type_.measure(note.text, face)
    is_right = not note.is_left and x + 2 * PADDING + wide <= box.right
    left = x + 2 * PADDING if is_right else x - 2 * PADDING - wide
    if note.ground:
        behind = make_rectangle(left - 0.4, y - 2.2, left + wide + 0.4, y + 0.7)
        fill = theme.band if note.ground == "band" else theme.ground
        yield Polygon(behind, fill, name="ground")
    yield Text((left, y), note.text, theme.ink, face)
