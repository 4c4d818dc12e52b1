"""The table behind a chart, for those who cannot see it: a row for each point.

`tableOfPoints` in `static/js/charts.js` makes the same of larger charts, in the browser.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.charts.style import Figure

MOST_CELLS = 400
"""Of one chart that are written on the server: each is some 40 bytes of the page."""
SCALE = ", log scale"
"""What the title of an axis says of the axis alone, and not of its numbers."""
TAG = re.compile(r"<[^<>]*>")


@dataclass(frozen=True)
class Cell:
    """One value of the table."""

    text: str
    is_number: bool = False


@dataclass(frozen=True)
class PointRow:
    """One point of a chart."""

    series: str
    cells: tuple[Cell, Cell]
    run: str
    """The run that it stands for; empty where it is none."""


@dataclass(frozen=True)
class PointTable:
    """The points of a chart as rows under their headings."""

    headings: tuple[str, ...]
    rows: tuple[PointRow, ...]

    @property
    def has_runs(self) -> bool:
        """Return whether any point is a run."""
        return any(row.run for row in self.rows)

    @property
    def count(self) -> int:
        """Return how many cells it has."""
        return len(self.rows) * len(self.headings)


def make_point_table(figure: Figure, most: int = MOST_CELLS) -> PointTable | None:
    """Return the table of a chart; None where it would have no row, or more than `most` cells."""
    traces = figure["data"]
    points = sum(len(trace["x"]) - trace["x"].count(None) for trace in traces)
    if not points or 3 * points > most:
        return None
    rows = tuple(_list_rows(figure))
    x, y = figure["layout"]["xaxis"], figure["layout"]["yaxis"]
    meta = figure["layout"].get("meta") or {}
    titles = (meta.get("x") or _title(x), _title(y))
    headings = ("series", *(_say_plainly(title).replace(SCALE, "") or "of" for title in titles))
    table = PointTable((*headings, "run") if any(row.run for row in rows) else headings, rows)
    return table if table.count <= most else None


def _list_rows(figure: Figure) -> Iterator[PointRow]:
    layout = figure["layout"]
    rows = (layout.get("meta") or {}).get("rows")
    x_axis, y_axis = layout["xaxis"], layout["yaxis"]
    for trace in figure["data"]:
        runs = trace.get("customdata") or ()
        name = _say_plainly(trace.get("name") or "")
        for place, (x, y) in enumerate(zip(trace["x"], trace["y"], strict=False)):
            if x is None:
                continue
            run = runs[place] if place < len(runs) else ""
            yield PointRow(
                name,
                (
                    _make_cell(x, x_axis, x_axis.get("ticktext")),
                    _make_cell(y, y_axis, rows or y_axis.get("ticktext")),
                ),
                run if isinstance(run, str) else "",
            )


def _make_cell(value: Any, axis: dict[str, Any], names: Sequence[str] | None) -> Cell:
    """Return a value as text; on an axis that has names in place of a title, the nearest name."""
    if isinstance(value, str):
        return Cell(_say_plainly(value))
    if value is None or not math.isfinite(value):
        return Cell("")
    ticks = axis.get("tickvals")
    if not _title(axis) and ticks and names:
        nearest = min(range(len(ticks)), key=lambda place: abs(ticks[place] - value))
        return Cell(_say_plainly(names[nearest]))
    return Cell(f"{value:.6g}", is_number=True)


def _title(axis: dict[str, Any]) -> str:
    return str((axis.get("title") or {}).get("text") or "")


def _say_plainly(text: str) -> str:
    """Return a text of a chart without its pseudo-HTML."""
    return html.unescape(TAG.sub("", text.replace("<br>", ", ")))
