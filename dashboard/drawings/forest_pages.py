"""Pages of a forest plot, known before anything is drawn; each width has its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest

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
MATRIX_ROW, MATRIX_BETWEEN = 3.4, 1.5
LEAST_OF_ONE = 2
"""Configurations with one environment, from which on each takes a line on two columns."""
LEAST_OF_MATRIX = 25
"""Comparisons, from which on environments stand across where the figure has two columns."""
MATRIX_ENVIRONMENTS = range(2, 5)
"""How many of them have room across."""
AROUND_MATRIX = 24.0
MATRIX_WIDTH = 180


@dataclass(frozen=True)
class MatrixLine:
    """A configuration, or what is pooled, with its row of each environment by its name."""

    heading: str
    rows: Mapping[str, ForestRow]
    is_pooled: bool


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


def regroup(forest: Forest, width: int) -> Forest:
    """Return the figure as it stands on paper: of one environment a row is a configuration.

    On two columns it is the heading of all rows then, and each configuration takes one line.
    """
    rows = [row for row in forest.rows if not row.is_pooled]
    if (
        width != MATRIX_WIDTH
        or len(rows) < LEAST_OF_ONE
        or len({row.environment for row in rows}) > 1
        or len({row.group for row in rows}) < len(rows)
    ):
        return forest
    swapped = (
        row if row.is_pooled else replace(row, group=row.environment, environment=row.group)
        for row in forest.rows
    )
    return replace(forest, rows=tuple(swapped))


def break_pages(forest: Forest, width: int = 88) -> list[list[Block]]:
    """Return the rows in pages that are not too tall; groups stay together where they can."""
    forest = regroup(forest, width)
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


def is_matrix(forest: Forest, width: int) -> bool:
    """Return whether environments stand across: of many comparisons, on two columns.

    Not where rows have margins of their own, or a configuration has an environment twice.
    """
    rows = [row for row in forest.rows if not row.is_pooled]
    names = {row.environment for row in forest.rows}
    return (
        width == MATRIX_WIDTH
        and len(rows) >= LEAST_OF_MATRIX
        and len(names) in MATRIX_ENVIRONMENTS
        and len({(row.group, row.environment) for row in rows}) == len(rows)
        and all(row.margin is None for row in rows)
    )


def break_matrix(forest: Forest) -> list[list[MatrixLine]]:
    """Return the lines of a figure with environments across, in pages that are not too tall."""
    lines: list[MatrixLine] = []
    for heading, members in groupby(
        forest.rows, key=lambda row: ("", True) if row.is_pooled else (row.group, False)
    ):
        rows = {row.environment: row for row in members}
        lines.append(MatrixLine(heading[0], rows, heading[1]))
    notes = LINE * math.ceil(sum(len(note) + 5 for _, note in forest.notes) * 1.15 / MATRIX_WIDTH)
    room = max(TALLEST - AROUND_MATRIX - notes - MATRIX_BETWEEN, TALLEST / 2)
    most = int(room // MATRIX_ROW)
    return [lines[first : first + most] for first in range(0, len(lines), most)]


def estimate_heights(forest: Forest, width: int) -> list[int]:
    """Return about how many millimetres each page takes, before it is drawn."""
    if is_matrix(forest, width):
        heights = []
        for page in break_matrix(forest):
            rows = [row for line in page for row in line.rows.values()]
            used = {letter for row in rows for letter in row.letters.split(",")}
            notes = sum(len(note) + 5 for letter, note in forest.notes if letter in used)
            height = AROUND_MATRIX + LINE * math.ceil(notes * LETTER / width)
            heights.append(round(height + MATRIX_ROW * len(page)))
        return heights
    return [
        estimate_height(page, measure_notes(forest, page), width)
        for page in break_pages(forest, width)
    ]


def list_page_heights(forest: Forest) -> list[tuple[int, int, int]]:
    """Return the number of each page with its height in two columns and in one.

    0 stands where a width has no such page.
    """
    both = zip_longest(estimate_heights(forest, 180), estimate_heights(forest, 88), fillvalue=0)
    return [(number, *heights) for number, heights in enumerate(both, start=1)]


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
