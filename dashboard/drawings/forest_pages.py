"""Pages of a forest plot: the same ones in each width, and known before anything is drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby

from dashboard.drawings.forest import Forest, ForestRow

TALLEST = 247.0
"""Millimetres of a page of a journal, at most."""
ROW, HEADING, BETWEEN_GROUPS = 3.7, 3.9, 1.5
LINE = 3.3
"""From one baseline to the next in notes and keys."""
AROUND = 36.0
"""What stands above and below the rows, where it is most: in one column."""
NARROWEST = 86.0
WIDE_LETTER = 1.6
"""Millimetres: few texts have wider letters on average."""
LETTER = 1.0
"""Millimetres of a letter on average."""
MOST_LINES = 2
BLOCK_PITCH, LEAST_BLOCKS, MOST_OF_BLOCKS = 1.25, 4.0, 16.0
"""Millimetres from one block to the next above a row that is alone, and of all of them."""
AROUND_ROWS = {180: 14.0, 88: 28.5}
"""What usually stands above and below the rows, without notes, in each width."""


@dataclass(frozen=True)
class Block:
    """Rows under one heading, which may take so many lines."""

    heading: str
    lines: int
    rows: tuple[ForestRow, ...]

    @property
    def height(self) -> float:
        rows = sum(ROW + measure_blocks(row) for row in self.rows)
        return HEADING * self.lines + rows + BETWEEN_GROUPS


def break_pages(forest: Forest) -> list[list[Block]]:
    """Return the rows in pages that are not too tall; groups stay together where they can."""
    notes = sum(len(note) + 5 for _, note in forest.notes)
    room = max(TALLEST - AROUND - LINE * _count_lines(notes), TALLEST / 2)
    pages: list[list[Block]] = [[]]
    left = room
    for heading, members in groupby(forest.rows, key=lambda row: row.group):
        rows = tuple(members)
        lines = min(_count_lines(len(heading)), MOST_LINES)
        while rows:
            fitting = int((left - HEADING * lines - BETWEEN_GROUPS + 1e-6) // ROW)
            whole = Block(heading, lines, rows)
            if pages[-1] and (fitting < 1 or (fitting < len(rows) and whole.height <= room)):
                pages.append([])
                left = room
                continue
            block = Block(heading, lines, rows[: max(fitting, 1)])
            pages[-1].append(block)
            left -= block.height
            rows = rows[len(block.rows) :]
    return pages


def measure_blocks(row: ForestRow) -> float:
    """Return how many millimetres the ratios of blocks take above their row."""
    if not row.block_ratios:
        return 0.0
    return min(max(BLOCK_PITCH * len(row.block_ratios), LEAST_BLOCKS), MOST_OF_BLOCKS) + 0.8


def measure_notes(forest: Forest, page: list[Block]) -> int:
    """Return how many letters the notes below a page have: those of its own rows."""
    letters = {letter for block in page for row in block.rows for letter in row.letters.split(",")}
    return sum(len(note) + 5 for letter, note in forest.notes if letter in letters)


def estimate_height(page: list[Block], notes: int, width: int) -> int:
    """Return about how many millimetres a page takes, before it is drawn.

    `notes` is how many letters stand below it.
    """
    around = AROUND_ROWS[width] + LINE * math.ceil(notes * LETTER / width)
    return round(around + sum(block.height for block in page))


def _count_lines(letters: int) -> int:
    """Return how many lines a text of so many letters may take in a narrow figure."""
    return math.ceil(letters * WIDE_LETTER / NARROWEST)
