"""Where the columns of a forest plot and its axis are, across, in millimetres."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dashboard.drawings.forest import Forest
from dashboard.drawings.typeface import Typeface

INDENT, GLYPH = 2.4, 2.0
GAP = 3.4
"""Between two columns of text."""
EACH_BLOCK, EACH_NODE, EACH_SET = "each block", "each node", "each set"


@dataclass(frozen=True)
class Measures:
    """What differs between a figure of one column and one of two."""

    row: float
    is_narrow: bool
    least_plot: float


MEASURES = {88: Measures(3.6, True, 26.0), 180: Measures(3.7, False, 44.0)}


@dataclass(frozen=True)
class Column:
    """A column of numbers with its right edge; the interval's is the place of its dash."""

    name: str
    heading: str
    right: float
    width: float


@dataclass(frozen=True)
class Places:
    """Where columns and the axis are, across."""

    left: float
    right: float
    """The ends of the axis."""
    label: float
    """How wide names may be."""
    columns: dict[str, Column]
    glyph: float
    word: float
    notes: float
    low: float
    high: float

    def find_x(self, ratio: float) -> float:
        """Return where a ratio is on the log axis, in millimetres from the left."""
        share = math.log(ratio / self.low) / math.log(self.high / self.low)
        return self.left + share * (self.right - self.left)


def place_columns(forest: Forest, width: float, measures: Measures, type_: Typeface) -> Places:
    """Return where columns and axis of a figure are that is so many millimetres wide."""
    narrow = measures.is_narrow
    right = width - 0.5
    notes = right
    if not narrow and forest.notes:
        right -= max(find_widest(forest, type_, "letters", "", "italic"), 1.0) + 1.5
    word = right
    if narrow:
        right -= GLYPH
        word = right
    else:
        verdict = max((type_.measure(row.verdict, "bold") for row in forest.rows), default=0)
        word = right - max(verdict, type_.measure("Verdict"))
        right = word - GLYPH - 0.6
    glyph = right
    columns: dict[str, Column] = {}
    optional = [("nodes", "Nodes"), ("size", forest.size_heading), ("cost", "Cost (%)")]
    if not narrow:
        for name, heading in optional:
            texts = {getattr(row, f"{name}_text") for row in forest.rows}
            if texts <= {"–"}:
                continue
            right -= GAP if right != glyph else GAP - 1
            wide = max(find_widest(forest, type_, f"{name}_text"), type_.measure(heading))
            columns[name] = Column(name, heading, right, wide)
            right -= wide
    heading = f"{forest.thick_level} CI"
    low, high = find_widest(forest, type_, "low_text"), find_widest(forest, type_, "high_text")
    half = max(low, high, type_.measure(heading) / 2 - 1)
    right -= GAP - narrow * 1.2
    columns["interval"] = Column("interval", heading, right - half - 1, 2 * half + 2)
    right -= 2 * half + 2 + GAP - narrow * 1.2
    wide = max(find_widest(forest, type_, "ratio_text"), type_.measure("Ratio"))
    columns["ratio"] = Column("ratio", "Ratio", right, wide)
    right -= wide + 3.0
    letters = (
        find_widest(forest, type_, "letters", "", "italic") + 0.8
        if narrow and forest.notes
        else 0.0
    )
    names = max((type_.measure(row.environment) for row in forest.rows), default=0.0)
    if any(row.block_ratios for row in forest.rows):
        names = max(names, type_.measure(EACH_BLOCK))
    label = max(min(names, right - measures.least_plot - INDENT - 3 - letters), 12.0)
    left = INDENT + label + letters + 3.0
    return Places(left, right, label, columns, glyph, word, notes, forest.low, forest.high)


def find_widest(
    forest: Forest, type_: Typeface, name: str, least: str = "–", face: str = "regular"
) -> float:
    """Return how wide the widest text of a column is; `least` is among them."""
    texts = {getattr(row, name) for row in forest.rows} | {least}
    return max(type_.measure(text, face) for text in texts)  # type: ignore[arg-type]
