"""Pages of a figure with axes: rows of panels, known in each width before anything is drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dashboard.drawings.axes_figure import AxesFigure, Panel

WIDTHS = (88, 180)
TALLEST = 247.0
"""Millimetres of a page of a journal, at most."""
GUTTER = 7.0
"""Between two panels beside each other."""
LINE = 3.3
HEAD, TICKS, AXIS_TITLE, BETWEEN_ROWS = 1.6, 4.4, 3.6, 3.6
LETTER, WIDE_LETTER = 1.15, 1.45
"""Millimetres of a letter: on average, and where there are many wide ones."""
KEY_ROOM = 9.0
"""Millimetres that a line of the key takes beside its letters."""
MOST_KEY_LINES, MOST_TITLE_LINES, NAME_LINES = 6, 3, 2
LETTER_ROOM = 4.0
"""For the bold letter before a panel's title, where there are several panels."""


@dataclass(frozen=True)
class Row:
    """Panels beside each other; `first` is the number of the first one, from 0."""

    panels: tuple[Panel, ...]
    first: int
    height: float


def count_columns(figure: AxesFigure, width: int) -> int:
    """Return how many panels stand beside each other."""
    most = figure.columns if width > 100 else (figure.columns + 1) // 2
    return max(min(most, len(figure.panels)), 1)


def measure_panel(figure: AxesFigure, width: int) -> float:
    """Return how wide a panel is, with the labels of its axes."""
    columns = count_columns(figure, width)
    return (width - GUTTER * (columns - 1)) / columns


def count_title_lines(panel: Panel, width: float) -> int:
    """Return how many lines a panel's title may take."""
    lines = math.ceil(len(panel.title) * WIDE_LETTER / max(width - LETTER_ROOM, 1))
    return min(lines, MOST_TITLE_LINES)


def measure_foot(panel: Panel) -> float:
    """Return how many millimetres the labels of a panel's x axis take below it."""
    names = LINE * (NAME_LINES - 1) if panel.x.has_names else 0.0
    return TICKS + names + (AXIS_TITLE if panel.x.title else 0.0)


def measure_head(panel: Panel, width: float) -> float:
    """Return how many millimetres stand above the plot: its title, and the title of y."""
    lines = count_title_lines(panel, width) + bool(panel.y.title)
    return LINE * lines + HEAD


def count_key_lines(figure: AxesFigure, width: int) -> int:
    """Return about how many lines the key takes."""
    letters = sum(KEY_ROOM + len(key.text) * LETTER for key in figure.keys)
    return min(math.ceil(letters / width), MOST_KEY_LINES)


def estimate_around(figure: AxesFigure, width: int) -> float:
    """Return about how many millimetres the key and the notes take."""
    notes = sum(math.ceil(len(note) * LETTER / width) for note in figure.notes)
    return LINE * (count_key_lines(figure, width) + notes) + 4.0


def break_rows(figure: AxesFigure, width: int) -> list[list[Row]]:
    """Return the rows of panels in pages that are not too tall; a page has one row at least."""
    columns, panel_width = count_columns(figure, width), measure_panel(figure, width)
    room = TALLEST - min(estimate_around(figure, width), TALLEST / 2)
    pages: list[list[Row]] = [[]]
    left = room
    for first in range(0, len(figure.panels), columns):
        panels = figure.panels[first : first + columns]
        heads = max(measure_head(panel, panel_width) for panel in panels)
        plots = max(panel.height for panel in panels)
        height = heads + plots + max(map(measure_foot, panels)) + BETWEEN_ROWS
        if pages[-1] and height > left:
            pages.append([])
            left = room
        pages[-1].append(Row(panels, first, height))
        left -= height
    return pages
