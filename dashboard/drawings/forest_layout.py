"""The forest plot in millimetres: one row a comparison, columns aligned, pages for many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from dashboard.drawings.elements import (
    BELOW_MIDDLE,
    Anchor,
    Drawing,
    Element,
    Face,
    Line,
    Polygon,
    Polyline,
    Text,
    make_rectangle,
    make_symbol,
)
from dashboard.drawings.forest import Forest, ForestRow
from dashboard.drawings.forest_columns import (
    EACH_BLOCK,
    EACH_NODE,
    EACH_SET,
    GLYPH,
    INDENT,
    MEASURES,
    place_columns,
)
from dashboard.drawings.forest_diamond import draw_diamond
from dashboard.drawings.forest_marks import RIM, THICK, THIN, draw_glyph, draw_interval
from dashboard.drawings.forest_pages import (
    BETWEEN_GROUPS,
    HEADING,
    LINE,
    Block,
    break_pages,
    measure_blocks,
    regroup,
)
from dashboard.drawings.themes import Theme
from dashboard.drawings.typeface import Typeface
from experiments.statistics import Verdict

INSET, AXIS = 0.6, 0.55
SMALL_RADIUS = 0.5
NEAR_EDGE = 0.4
"""No line of the grid is as near as this to an end of the margin."""


class Layout:
    """A row for each comparison, under the heading of its configuration."""

    def __init__(self, forest: Forest, width: int, theme: Theme, type_: Typeface) -> None:
        self.forest, self.width = regroup(forest, width), float(width)
        self.theme, self.type = theme, type_
        self.has_rows_of_configurations = self.forest is not forest
        self.measures = MEASURES[width]
        self.places = place_columns(self.forest, self.width, self.measures, type_)
        self.ticks = self._choose_ticks()

    def _choose_ticks(self) -> tuple[tuple[float, str], ...]:
        """Return the densest set of ticks whose labels stand apart."""
        for ticks in (self.forest.ticks, self.forest.few_ticks):
            edges = [
                (self.places.find_x(value), self.type.measure(label) / 2) for value, label in ticks
            ]
            if all(
                x - half >= before + other + 1.6 for (before, other), (x, half) in pairwise(edges)
            ):
                return ticks
        return self.forest.few_ticks[::2]

    def make_pages(self) -> list[Drawing]:
        pages = break_pages(self.forest, round(self.width))
        drawn = []
        for number, blocks in enumerate(pages, start=1):
            elements = list(self._draw_page(blocks))
            height = max(find_lowest(element) for element in elements) + 0.8
            title = self.forest.title
            if len(pages) > 1:
                title += f" (page {number} of {len(pages)})"
            drawn.append(
                Drawing(
                    self.width,
                    round(height, 2),
                    self.theme.ground,
                    title,
                    self.forest.description,
                    tuple(elements),
                )
            )
        return drawn

    def _head_height(self) -> float:
        return 8.2 if self.measures.is_narrow else 4.9

    def _draw_page(self, blocks: Sequence[Block]) -> Iterator[Element]:
        yield from self._draw_head()
        y = self._head_height() + 0.5
        row = self.measures.row
        for number, block in enumerate(blocks):
            if number:
                is_pooled = block.rows[0].is_pooled
                weight, colour = (0.5, self.theme.ink) if is_pooled else (0.35, self.theme.grid)
                yield self._rule(y + BETWEEN_GROUPS / 2 - 0.2, weight, colour)
                y += BETWEEN_GROUPS
            room = self.width - 2 * INSET
            for line in self.type.wrap(block.heading, room, "bold", lines=block.lines):
                yield self._text(INSET, y + HEADING / 2, line, face="bold")
                y += HEADING
            bottom = y + sum(row + measure_blocks(shown) for shown in block.rows)
            yield from self._draw_ground(y, bottom)
            for shown in block.rows:
                yield from self._draw_block_ratios(shown, y)
                y += measure_blocks(shown) + row
                yield from self._draw_row(shown, y - row / 2)
        letters = {
            letter for block in blocks for row_ in block.rows for letter in row_.letters.split(",")
        }
        verdicts = {row_.sign: row_.verdict for block in blocks for row_ in block.rows}
        yield from self._draw_foot(y, letters, verdicts)

    def _draw_head(self) -> Iterator[Element]:
        places, muted = self.places, self.theme.muted
        y = self._head_height() - 2.6
        low, high = (places.find_x(end) for end in self.forest.band)
        lines = [f"Margin {self.forest.margin_text}"]
        if self.measures.is_narrow:
            lines = ["Margin", self.forest.margin_text]
        else:
            what = "Configuration" if self.has_rows_of_configurations else "Environment"
            yield self._text(INSET, y, what)
        for number, line in enumerate(reversed(lines)):
            half = self.type.measure(line) / 2
            # Over its band, but neither beyond the figure nor over a heading.
            middle = min(max((low + high) / 2, places.left + half - 1), places.right - half + 1)
            yield self._text(middle, y - number * LINE, line, colour=muted, anchor="middle")
        for column in places.columns.values():
            if column.name == "interval":
                yield self._text(column.right, y, column.heading, anchor="middle")
            else:
                yield self._text(column.right, y, column.heading, anchor="end")
        if not self.measures.is_narrow:
            yield self._text(places.word, y, "Verdict")
        yield self._rule(self._head_height() - 0.4, 0.7, self.theme.ink)

    def _draw_ground(self, top: float, bottom: float) -> Iterator[Element]:
        """Draw margin, grid and the line at 1 behind the rows of one group."""
        places, theme = self.places, self.theme
        low, high = (places.find_x(end) for end in self.forest.band)
        yield Polygon(make_rectangle(low, top, high, bottom), theme.band, name="band")
        for value, _ in self.ticks:
            x = places.find_x(value)
            if min(abs(x - low), abs(x - high)) > NEAR_EDGE and abs(value - 1) > 1e-9:
                yield Line((x, top), (x, bottom), 0.5, theme.grid, name="grid")
        for x in (low, high):
            yield Line((x, top), (x, bottom), 0.5, theme.edge, (2, 1.5), name="edge")
        x = places.find_x(1)
        yield Line((x, top), (x, bottom), AXIS, theme.ink, name="reference")

    def _draw_own_margin(self, row: ForestRow, y: float) -> Iterator[Element]:
        """Draw the margin of a row behind it, where rows have different ones."""
        if row.margin is None:
            return
        low, high = map(self.places.find_x, row.margin)
        top, bottom = y - self.measures.row / 2, y + self.measures.row / 2
        yield Polygon(make_rectangle(low, top, high, bottom), self.theme.band, name="band")
        for x in (low, high):
            yield Line((x, top), (x, bottom), 0.5, self.theme.edge, (2, 1.5), name="edge")
        x = self.places.find_x(1)
        yield Line((x, top), (x, bottom), AXIS, self.theme.ink, name="reference")

    def _draw_row(self, row: ForestRow, y: float) -> Iterator[Element]:
        places, theme = self.places, self.theme
        yield from self._draw_own_margin(row, y)
        label = self.type.cut(row.environment, places.label)
        yield self._text(INDENT, y, label)
        if self.measures.is_narrow and row.letters:
            after = INDENT + self.type.measure(label) + 0.8
            yield self._text(after, y, row.letters, colour=theme.muted, face="italic")
        yield from (
            draw_diamond(row, y, places, theme)
            if row.is_pooled
            else draw_interval(row, y, places, theme)
        )
        columns = places.columns
        for name in ("ratio", "cost", "size", "nodes"):
            if name in columns:
                yield self._text(columns[name].right, y, getattr(row, f"{name}_text"), anchor="end")
        dash = columns["interval"].right
        if row.thick:
            yield self._text(dash - 1, y, row.low_text, anchor="end")
            yield self._text(dash, y, "–", anchor="middle")
            yield self._text(dash + 1, y, row.high_text)
        else:
            yield self._text(dash, y, "–", anchor="middle", colour=theme.muted)
        if row.sign:
            yield from draw_glyph(row.sign, places.glyph, y, theme)
        if not self.measures.is_narrow:
            face: Face = "bold" if row.is_decided else "regular"
            colour = theme.ink if row.is_decided else theme.muted
            yield self._text(places.word, y, row.verdict, colour=colour, face=face)
            if row.letters:
                yield self._text(
                    places.notes, y, row.letters, colour=theme.muted, face="italic", anchor="end"
                )

    def _draw_block_ratios(self, row: ForestRow, top: float) -> Iterator[Element]:
        """Draw the ratio of each block, or node, above the interval, the first one highest."""
        room, count = measure_blocks(row), len(row.block_ratios)
        if not count:
            return
        of_nodes = EACH_SET if row.has_ratios_of_sets else EACH_NODE
        what = of_nodes if row.has_ratios_of_nodes else EACH_BLOCK
        label = self.type.cut(what, self.places.label)
        yield self._text(INDENT, top + room / 2, label, colour=self.theme.muted)
        first, last = top + 1.2, top + room - 0.6
        for place, ratio in enumerate(row.block_ratios):
            x = self.places.find_x(ratio)
            if self.places.left <= x <= self.places.right:
                y = (
                    (first + last) / 2
                    if count == 1
                    else first + (last - first) * place / (count - 1)
                )
                points = make_symbol(row.mark, (x, y), SMALL_RADIUS)
                colour = self.theme.colour(row.mark)
                yield Polygon(points, colour, self.theme.ground, RIM / 2, name="block")

    def _draw_foot(
        self, top: float, letters: set[str], verdicts: Mapping[str, str]
    ) -> Iterator[Element]:
        places, theme, narrow = self.places, self.theme, self.measures.is_narrow
        y = top + 0.7
        yield Line((places.left - 1, y), (places.right + 1, y), AXIS, theme.ink, name="axis")
        for value, label in self.ticks:
            x = places.find_x(value)
            yield Line((x, y), (x, y + 0.7), AXIS, theme.ink, name="tick")
            yield self._text(x, y + 2.5, label, anchor="middle")
        y += 2.5
        title, first = self.forest.axis_title, y + LINE
        middle = (places.left + places.right) / 2
        left, right = (f"← {self.forest.sides[0]}", f"{self.forest.sides[1]} →")
        beside = (
            self.type.measure(left) + self.type.measure(right) + 4 if self.forest.sides[0] else 0
        )
        fits = not narrow and self.type.measure(title) + beside <= places.right - places.left + 2
        room = places.right - places.left + 2 if fits else 2 * min(middle, self.width - middle) - 2
        lines = self.type.wrap(title, room, lines=2)
        for line in lines:
            y += LINE
            yield self._text(middle, y, line, anchor="middle")
        if self.forest.sides[0]:
            if not fits:
                y += LINE
            colour = theme.ink if fits else theme.muted
            yield self._text(places.left - 1, y, left, colour=colour)
            yield self._text(places.right + 1, y, right, colour=colour, anchor="end")
        thick = f"{self.forest.thick_level} interval"
        thin = f"{self.forest.thin_level} interval"
        if narrow:
            y += 2.4
            yield self._rule(y, 0.35, theme.grid)
            y += 2.0
            yield from self._draw_verdict_key(y, verdicts)
            y += LINE + 0.3
            yield from self._draw_line_key(INSET, y, THICK, thick)
            yield from self._draw_line_key(self.width / 2, y, THIN, thin)
        else:
            # Beside the axis, where there is room to its right.
            x = places.columns["ratio"].right - places.columns["ratio"].width
            if self.forest.has_verdicts:
                thick += f": inside the band, {self.forest.proved}"
                thin += ": clear of 1"
                if len(self.forest.detected) == 2:  # of more there is no room
                    thin += f", {' or '.join(self.forest.detected)}"
            yield from self._draw_line_key(x, first - LINE, THICK, thick)
            yield from self._draw_line_key(x, first, THIN, thin)
        notes = [note for note in self.forest.notes if note[0] in letters]
        y = max(y, first) + 1.2
        for line in self._wrap_notes(notes):
            y += LINE
            yield self._text(INSET, y, line, colour=theme.muted)

    def _draw_verdict_key(self, y: float, verdicts: Mapping[str, str]) -> Iterator[Element]:
        x = INSET
        for sign in Verdict:
            if word := verdicts.get(sign):
                yield from draw_glyph(sign, x, y, self.theme)
                yield self._text(x + GLYPH + 0.6, y, word)
                x += GLYPH + 0.6 + self.type.measure(word) + 2.6

    def _draw_line_key(self, x: float, y: float, width: float, label: str) -> Iterator[Element]:
        yield Line((x, y), (x + 6, y), width, self.theme.muted, name="key")
        yield self._text(x + 7.1, y, label, colour=self.theme.muted)

    def _wrap_notes(self, notes: Sequence[tuple[str, str]]) -> list[str]:
        text = "  ".join(f"{letter}, {note}." for letter, note in notes)
        return self.type.wrap(text, self.width - 2 * INSET) if text else []

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

    def _rule(self, y: float, width: float, colour: str) -> Line:
        return Line((0, y), (self.width, y), width, colour, name="rule")


def find_lowest(element: Element) -> float:
    """Return where an element ends, in millimetres from the top."""
    match element:
        case Line():
            return max(element.start[1], element.end[1])
        case Polygon() | Polyline():
            return max(y for _, y in element.points)
        case Text():
            return element.place[1] + 0.6
