"""Figures with axes in millimetres: panels in rows, a key above them, notes below."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from dashboard.drawings.axes_figure import AxesFigure, Axis, Key, Panel
from dashboard.drawings.axes_items import (
    DASHES,
    RADIUS,
    RIM,
    Box,
    draw_item,
    draw_phase,
    find_colour,
)
from dashboard.drawings.axes_pages import (
    AXIS_TITLE,
    GUTTER,
    LETTER_ROOM,
    LINE,
    NAME_LINES,
    Row,
    break_rows,
    count_title_lines,
    measure_foot,
    measure_head,
    measure_panel,
)
from dashboard.drawings.elements import (
    BELOW_MIDDLE,
    Anchor,
    Drawing,
    Element,
    Face,
    Line,
    Polygon,
    Text,
    make_symbol,
)
from dashboard.drawings.themes import Theme
from dashboard.drawings.typeface import Typeface

AXIS, GRID = 0.55, 0.5
TICK, TICK_GAP = 0.7, 0.7
LETTER_SIZE = 8.0
MOST_OF_NAMES = 0.42
"""Of a panel's width, for the names at its y axis."""
LEAST_ROOM = 6.0
EDGE = 0.5
KEY_LINE = 6.0
BETWEEN_KEYS = 3.2
BETWEEN_LABELS = 1.6
END_ROOM = 2.0
"""Right of a plot, for the half of the last label at its axis."""


def lay_out_axes_figure(
    figure: AxesFigure, *, width: int, theme: Theme, type_: Typeface
) -> list[Drawing]:
    """Return the pages of a figure that is so many millimetres wide: 88 or 180."""
    layout = _Layout(figure, width, theme, type_)
    pages = break_rows(figure, width)
    return [layout.make_page(page, number, len(pages)) for number, page in enumerate(pages, 1)]


@dataclass
class _Layout:
    figure: AxesFigure
    width: int
    theme: Theme
    type: Typeface

    def __post_init__(self) -> None:
        self.panel_width = measure_panel(self.figure, self.width)
        self.left_room = self._measure_left()

    def make_page(self, rows: list[Row], number: int, pages: int) -> Drawing:
        """Return one page: the key, its panels, and the notes of the whole figure."""
        elements: list[Element] = []
        y = 1.0
        for element, bottom in self._draw_keys(y):
            elements.append(element)
            y = max(y, bottom)
        y += 1.4 if self.figure.keys else 0.0
        for row in rows:
            elements += self._draw_row(row, y)
            y += row.height
        for note in self.figure.notes:
            for text in self.type.wrap(note, self.width - 2 * EDGE):
                y += LINE
                elements.append(self._text(EDGE, y - BELOW_MIDDLE, text, colour=self.theme.muted))
        title = self.figure.title + (f", page {number} of {pages}" if pages > 1 else "")
        return Drawing(
            float(self.width),
            round(y + 1.2, 3),
            self.theme.ground,
            title,
            self.figure.description,
            tuple(elements),
        )

    def _measure_left(self) -> float:
        """Return how wide the labels of y are, the same for all panels so that plots align."""
        widest = max(
            (self.type.measure(text) for panel in self.figure.panels for _, text in panel.y.ticks),
            default=0.0,
        )
        most = MOST_OF_NAMES * self.panel_width
        return max(min(widest, most) + TICK + TICK_GAP + EDGE, LEAST_ROOM)

    # The key

    def _draw_keys(self, top: float) -> Iterator[tuple[Element, float]]:
        """Yield the parts of the key, each with where the key ends below."""
        x, y = EDGE, top + LINE / 2
        for key in self.figure.keys:
            sample = KEY_LINE if key.kind in ("line", "both") else 3.0
            text = self.type.cut(key.text, self.width - sample - 2 * EDGE - 1.0)
            wide = sample + 1.0 + self.type.measure(text)
            if x > EDGE and x + wide > self.width - EDGE:
                x, y = EDGE, y + LINE
            for element in self._draw_sample(key, x, y, sample):
                yield element, y + LINE / 2
            yield self._text(x + sample + 1.0, y, text), y + LINE / 2
            x += wide + BETWEEN_KEYS

    def _draw_sample(self, key: Key, x: float, y: float, wide: float) -> Iterator[Element]:
        theme = self.theme
        if key.kind == "phase":
            yield from draw_phase(x, y - 1.2, x + wide, y + 1.2, key.index, theme, "key")
            return
        colour = find_colour(key.index, theme)
        if key.kind in ("line", "both"):
            dash = DASHES[key.index % len(DASHES)] if key.index >= 0 else (2.0, 1.5)
            yield Line((x, y), (x + wide, y), 1.2, colour, dash, name="key")
        if key.kind in ("symbol", "both"):
            symbol = make_symbol(max(key.index, 0), (x + wide / 2, y), RADIUS)
            yield Polygon(symbol, colour, theme.ground, RIM, name="key")

    # Panels

    def _draw_row(self, row: Row, top: float) -> Iterator[Element]:
        head = max(measure_head(panel, self.panel_width) for panel in row.panels)
        for place, panel in enumerate(row.panels):
            left = place * (self.panel_width + GUTTER)
            letter = _letter(row.first + place) if len(self.figure.panels) > 1 else ""
            yield from self._draw_head(panel, letter, left, top)
            plot_left = left + self.left_room
            right = left + self.panel_width - END_ROOM
            box = Box(panel, plot_left, top + head, right, top + head + panel.height)
            yield from self._draw_y(box, left)
            yield from self._draw_x(box, left)
            for item in panel.items:
                yield from draw_item(item, box, self.theme, self.type)
            yield from self._draw_frame(box)

    def _draw_head(self, panel: Panel, letter: str, left: float, top: float) -> Iterator[Element]:
        indent = 0.0
        y = top + LINE / 2
        if letter:
            indent = max(LETTER_ROOM, self.type.measure(letter, "bold", LETTER_SIZE) + 1.2)
            place = (left, y + BELOW_MIDDLE)
            yield Text(place, letter, self.theme.ink, "bold", size=LETTER_SIZE)
        lines = count_title_lines(panel, self.panel_width)
        width = self.panel_width - indent
        if lines:
            for line in self.type.wrap(panel.title, width, "bold", lines=lines):
                yield self._text(left + indent, y, line, face="bold")
                y += LINE
        if panel.y.title:
            title = self.type.cut(panel.y.title, width)
            yield self._text(left + indent, y, title)

    def _draw_y(self, box: Box, left: float) -> Iterator[Element]:
        axis = box.panel.y
        right = box.left - TICK - TICK_GAP
        last: float | None = None
        for value, label in sorted(axis.ticks, key=lambda tick: -box.find_y(tick[0])):
            y = box.find_y(value)
            if not box.top - 1e-6 <= y <= box.bottom + 1e-6:
                continue
            if not axis.has_names and last is not None and last - y < LINE - 0.2:
                continue
            last = y
            if axis.has_names:
                room = right - left - EDGE + 0.01
                lines = self.type.wrap(label, room, lines=NAME_LINES)
            else:
                yield Line((box.left, y), (box.right, y), GRID, self.theme.grid, name="grid")
                start = box.left - TICK
                yield Line((start, y), (box.left, y), AXIS, self.theme.edge, name="tick")
                lines = [label]
            for place, line in enumerate(lines):
                middle = y + LINE * (place - (len(lines) - 1) / 2)
                yield self._text(right, middle, line, anchor="end")

    def _draw_x(self, box: Box, left: float) -> Iterator[Element]:
        axis = box.panel.x
        y = box.bottom + TICK + TICK_GAP + LINE / 2
        for value, label, room in self._choose_x_labels(axis, box):
            x = box.find_x(value)
            if not axis.has_names:
                if box.panel.y.has_names:
                    yield Line((x, box.top), (x, box.bottom), GRID, self.theme.grid, name="grid")
                end = box.bottom + TICK
                yield Line((x, box.bottom), (x, end), AXIS, self.theme.edge, name="tick")
            lines = self.type.wrap(label, room, lines=NAME_LINES) if axis.has_names else [label]
            for place, line in enumerate(lines):
                half = self.type.measure(line) / 2
                ends = left + half, left + self.panel_width - half
                middle = x if ends[0] > ends[1] else min(max(x, ends[0]), ends[1])
                yield self._text(middle, y + LINE * place, line, anchor="middle")
        if axis.title:
            middle = box.bottom + measure_foot(box.panel) - AXIS_TITLE + LINE / 2
            title = self.type.cut(axis.title, self.panel_width)
            half = self.type.measure(title) / 2
            centre = max((box.left + box.right) / 2, left + half)
            centre = min(centre, left + self.panel_width - half)
            yield self._text(centre, middle, title, anchor="middle")

    def _choose_x_labels(self, axis: Axis, box: Box) -> list[tuple[float, str, float]]:
        """Return the ticks whose labels have room, with the room that a name has."""
        inside = [
            (value, label)
            for value, label in sorted(axis.ticks, key=lambda tick: box.find_x(tick[0]))
            if box.left - 1e-6 <= box.find_x(value) <= box.right + 1e-6
        ]
        places = [box.find_x(value) for value, _ in inside]
        if axis.has_names:
            apart = min(
                (after - before for before, after in pairwise(places)),
                default=box.right - box.left,
            )
            return [(value, label, apart - 1.0) for value, label in inside]
        chosen: list[tuple[float, str, float]] = []
        end = float("-inf")
        for (value, label), x in zip(inside, places, strict=True):
            half = self.type.measure(label) / 2
            if x - half >= end + BETWEEN_LABELS:
                chosen.append((value, label, 0.0))
                end = x + half
        return chosen

    def _draw_frame(self, box: Box) -> Iterator[Element]:
        edge, panel = self.theme.edge, box.panel
        if not panel.x.has_names:
            start, end = (box.left, box.bottom), (box.right, box.bottom)
            yield Line(start, end, AXIS, edge, name="axis")
        if not panel.y.has_names:
            yield Line((box.left, box.top), (box.left, box.bottom), AXIS, edge, name="axis")

    def _text(
        self,
        x: float,
        middle: float,
        text: str,
        *,
        colour: str = "",
        face: Face = "regular",
        anchor: Anchor = "start",
    ) -> Text:
        return Text((x, middle + BELOW_MIDDLE), text, colour or self.theme.ink, face, anchor)


def _letter(place: int) -> str:
    """Return the letter of a panel: a to z, then aa, ab ..."""
    first, second = divmod(place, 26)
    return (_letter(first - 1) if first else "") + chr(ord("a") + second)
