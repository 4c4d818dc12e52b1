"""A forest plot of many comparisons on two columns: configurations down, environments across."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dashboard.drawings.elements import Drawing, Element, Line, Polygon, make_symbol
from dashboard.drawings.forest import Forest, ForestRow
from dashboard.drawings.forest_columns import GLYPH, Places, find_widest
from dashboard.drawings.forest_diamond import DASH, draw_diamond
from dashboard.drawings.forest_layout import AXIS, INSET, Layout, find_lowest
from dashboard.drawings.forest_marks import RADIUS, THICK, THIN, draw_glyph, draw_interval
from dashboard.drawings.forest_pages import (
    LINE,
    MATRIX_BETWEEN,
    MATRIX_ROW,
    MatrixLine,
    break_matrix,
)
from dashboard.drawings.themes import Theme
from dashboard.drawings.typeface import Typeface
from experiments.statistics import Verdict

HEAD = 8.4
BETWEEN = 4.0
"""Millimetres between two environments."""
MOST_OF_LABELS = 44.0
POOLED = "Pooled (diamond)"


@dataclass(frozen=True)
class _Part:
    """What stands under one environment."""

    name: str
    mark: int
    places: Places


class MatrixLayout(Layout):
    """Each environment has its own axis, all of one scale; intervals are those of the rows."""

    def __init__(self, forest: Forest, width: int, theme: Theme, type_: Typeface) -> None:
        super().__init__(forest, width, theme, type_)
        self.measures = replace(self.measures, row=MATRIX_ROW)
        self.parts = self._place_parts()
        self.places = self.parts[0].places
        self.ticks = self._choose_ticks()

    def make_pages(self) -> list[Drawing]:
        pages = break_matrix(self.forest)
        drawn = []
        for number, lines in enumerate(pages, start=1):
            elements = list(self._draw_lines(lines))
            title = self.forest.title
            if len(pages) > 1:
                title += f" (page {number} of {len(pages)})"
            height = round(max(map(find_lowest, elements)) + 0.8, 2)
            about = (self.theme.ground, title, self.forest.description)
            drawn.append(Drawing(self.width, height, *about, tuple(elements)))
        return drawn

    def _place_parts(self) -> list[_Part]:
        marks = {row.environment: row.mark for row in self.forest.rows}
        headings = {POOLED if row.is_pooled else row.group for row in self.forest.rows}
        widest = max(self.type.measure(heading, "bold") for heading in headings)
        label = min(widest, MOST_OF_LABELS)
        ratio = max(find_widest(self.forest, self.type, "ratio_text"), self.type.measure("Ratio"))
        letters = 0.0
        if self.forest.notes:
            letters = max(find_widest(self.forest, self.type, "letters", "", "italic"), 1.0) + 0.6
        first = INSET + label + 3.0
        wide = (self.width - 0.5 - first - BETWEEN * (len(marks) - 1)) / len(marks)
        parts = []
        for number, (name, mark) in enumerate(sorted(marks.items(), key=lambda item: item[1])):
            left = first + number * (wide + BETWEEN)
            notes = left + wide
            glyph = notes - letters - GLYPH
            right_of_ratio = glyph - 1.2
            right = right_of_ratio - ratio - 2.4
            places = replace(
                self.places,
                left=left,
                right=right,
                label=label,
                glyph=glyph,
                word=right_of_ratio,
                notes=notes,
            )
            parts.append(_Part(name, mark, places))
        return parts

    def _draw_lines(self, lines: Sequence[MatrixLine]) -> Iterator[Element]:
        yield from self._draw_heads()
        y = HEAD + 0.5
        for number, line in enumerate(lines):
            if line.is_pooled and number:
                yield self._rule(y + MATRIX_BETWEEN / 2 - 0.2, 0.5, self.theme.ink)
                y += MATRIX_BETWEEN
            bottom = y + MATRIX_ROW
            text = POOLED if line.is_pooled else line.heading
            label = self.type.cut(text, self.parts[0].places.label, "bold")
            yield self._text(INSET, bottom - MATRIX_ROW / 2, label, face="bold")
            for part in self.parts:
                self.places = part.places
                yield from self._draw_ground(y, bottom)
                if row := line.rows.get(part.name):
                    yield from self._draw_cell(row, bottom - MATRIX_ROW / 2)
            y = bottom
        shown = [row for line in lines for row in line.rows.values()]
        yield from self._draw_axes(y, shown)

    def _draw_heads(self) -> Iterator[Element]:
        y = HEAD - 2.6
        yield self._text(INSET, y, "Configuration")
        for part in self.parts:
            places, colour = part.places, self.theme.colour(part.mark)
            symbol = make_symbol(part.mark, (places.left + 1.0, y - LINE - 0.4), RADIUS + 0.15)
            yield Polygon(symbol, colour, self.theme.ground, name="head")
            room = places.notes - places.left - 3.0
            name = self.type.cut(part.name, room, "bold")
            yield self._text(places.left + 3.0, y - LINE - 0.4, name, face="bold")
            if self.forest.has_band:
                low, high = (places.find_x(end) for end in self.forest.band)
                half = self.type.measure("margin") / 2
                middle = min(max((low + high) / 2, places.left + half), places.right - half)
                yield self._text(middle, y, "margin", colour=self.theme.muted, anchor="middle")
            yield self._text(places.word, y, "Ratio", anchor="end")
        yield self._rule(HEAD - 0.4, 0.7, self.theme.ink)

    def _draw_cell(self, row: ForestRow, y: float) -> Iterator[Element]:
        places = self.places
        if row.is_pooled:
            yield from draw_diamond(row, y, places, self.theme)
        else:
            yield from draw_interval(row, y, places, self.theme)
        face = "bold" if row.is_pooled else "regular"
        yield self._text(places.word, y, row.ratio_text, anchor="end", face=face)  # type: ignore[arg-type]
        if row.sign:
            yield from draw_glyph(row.sign, places.glyph, y, self.theme)
        if row.letters:
            muted = self.theme.muted
            yield self._text(
                places.notes, y, row.letters, colour=muted, face="italic", anchor="end"
            )

    def _draw_axes(self, top: float, shown: Sequence[ForestRow]) -> Iterator[Element]:
        y = top + 0.7
        for part in self.parts:
            places = part.places
            yield Line(
                (places.left - 1, y), (places.right + 1, y), AXIS, self.theme.ink, name="axis"
            )
            for value, label in self.ticks:
                x = places.find_x(value)
                yield Line((x, y), (x, y + 0.7), AXIS, self.theme.ink, name="tick")
                yield self._text(x, y + 2.5, label, anchor="middle")
        y += 2.5 + LINE
        first, last = self.parts[0].places.left, self.parts[-1].places.right
        title = self.forest.axis_title
        if self.forest.sides[0]:
            title = f"← {self.forest.sides[0]} · {title} · {self.forest.sides[1]} →"
        middle = (first + last) / 2
        for line in self.type.wrap(title, 2 * min(middle, self.width - middle) - 2, lines=2):
            yield self._text(middle, y, line, anchor="middle")
            y += LINE
        y += 0.6
        for entries in self._break_key(shown):
            x = INSET
            for sign, text, wide in entries:
                yield from self._draw_key(sign, x, y, text)
                x += wide
            y += LINE
        letters = {letter for row in shown for letter in row.letters.split(",")}
        for text in self._wrap_notes([note for note in self.forest.notes if note[0] in letters]):
            yield self._text(INSET, y, text, colour=self.theme.muted)
            y += LINE

    def _break_key(self, shown: Sequence[ForestRow]) -> list[list[tuple[str, str, float]]]:
        """Return the key in lines: the verdicts with their counts, and what the lines stand for."""
        words = {row.sign: row.verdict for row in shown if row.sign}
        counts = Counter(row.sign for row in shown if row.sign)
        entries = [
            (str(sign.value), f"{words[sign]} ({counts[sign]})")
            for sign in Verdict
            if sign in words
        ]
        if self.forest.has_band:
            entries.append(("band", f"margin {self.forest.margin_text}"))
        entries += [
            ("thick", f"{self.forest.thick_level} interval"),
            ("thin", f"{self.forest.thin_level} interval"),
        ]
        if any(row.prediction for row in shown):
            entries.append(("prediction", "prediction interval"))
        lines: list[list[tuple[str, str, float]]] = [[]]
        left = self.width - 2 * INSET
        for sign, text in entries:
            wide = self._measure_sign(sign) + self.type.measure(text) + 3.4
            if lines[-1] and wide - 3.4 > left:
                lines.append([])
                left = self.width - 2 * INSET
            lines[-1].append((sign, text, wide))
            left -= wide
        return lines

    @staticmethod
    def _measure_sign(sign: str) -> float:
        return 7.1 if sign in ("thick", "thin", "prediction", "band") else GLYPH + 0.6

    def _draw_key(self, sign: str, x: float, y: float, text: str) -> Iterator[Element]:
        muted = self.theme.muted
        match sign:
            case "thick":
                yield Line((x, y), (x + 6, y), THICK, muted, name="key")
            case "thin":
                yield Line((x, y), (x + 6, y), THIN, muted, name="key")
            case "prediction":
                yield Line((x, y), (x + 6, y), THIN, muted, DASH, name="key")
            case "band":
                corners = ((x, y - 1), (x + 6, y - 1), (x + 6, y + 1), (x, y + 1))
                yield Polygon(corners, self.theme.band, self.theme.edge, 0.5, name="key")
            case _:
                yield from draw_glyph(sign, x, y, self.theme)
        yield self._text(x + self._measure_sign(sign), y, text)
