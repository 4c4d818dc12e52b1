"""The kinds of figures that are printed: what each has to say of itself, its pages and files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from dashboard.comparisons.forest_figure import ENDINGS, THEMES, WIDTHS
from dashboard.drawings.axes_figure import AxesFigure
from dashboard.drawings.axes_pages import break_rows
from dashboard.drawings.forest import Forest
from dashboard.drawings.forest_pages import estimate_heights
from dashboard.typed_requests import OpenRequest, parse_whole_number
from experiments.comparisons import Comparison, Group
from experiments.statistics.scaling import Batch

FOREST = "forest"
"""The name of the figure that has a description and a layout of its own."""
BATCHES: dict[str, Batch] = {"strong": "total", "weak": "per GPU"}
"""What `?scaling=` may say of a table: which work stayed the same."""
RUN_FIGURES = ("series", "node")
"""The names of the figures of one run."""
CONTROL_CHARTS = "control_charts"
"""The name of the figure of a recurring experiment, which no comparison has."""
Hide = Callable[[str], str]
FigureFiles = tuple[str, list[tuple[str, str]]]
"""A width and a theme, with the name of each format and its address."""
Describe = Callable[[Any, Sequence[Group], Hide], AxesFigure | None]


@dataclass(frozen=True)
class PrintedFigure:
    """One kind of figure; its name is that of the section in which its chart stands."""

    name: str
    label: str
    describe: Describe
    """Turns a comparison and some of its groups into a figure; None where there is nothing."""
    of: type[Comparison] = Comparison
    """Which comparisons have it."""
    is_by_configuration: bool = True
    """Whether `?configuration=` chooses one of its groups."""
    is_of_one: bool = False
    """Whether it is always of one configuration: the first one unless another is named."""
    is_fetched: bool = False
    """Whether its section fetches its contents, the figure among them."""
    is_of_content: bool = False
    """Whether the page draws it of its section's content, which takes long to compute twice."""
    is_offered: Callable[[Comparison], bool] = bool
    """Whether there is one although its section is offered."""


def read_groups(kind: PrintedFigure, comparison: Comparison, request: OpenRequest) -> list[Group]:
    """Return the configurations that the address asks for: all of them, or one by its number."""
    number = parse_whole_number(request.GET.get("configuration", "")) or 0
    if kind.is_by_configuration and 1 <= number <= len(comparison.groups):
        return [comparison.groups[number - 1]]
    return comparison.groups[:1] if kind.is_of_one else comparison.groups


def count_pages(figure: Forest | AxesFigure, width: int) -> int:
    """Return how many pages a figure has in this width."""
    if isinstance(figure, Forest):
        return len(estimate_heights(figure, width))
    return len(break_rows(figure, width))


def list_files(address: str, query: dict[str, str], pages: Mapping[int, int]) -> list[FigureFiles]:
    """Return each width and theme with the addresses of its files.

    `address` has "ENDING" where that of the file stands; `pages` says how many each width has. Of
    several the PDF alone has all.
    """
    return [
        (
            f"{width_label}{theme_label}",
            [
                (
                    ending.upper(),
                    f"{address.replace('ENDING', ending)}?"
                    + urlencode({**query, "width": width, "theme": theme})
                    + "&download",
                )
                for ending in (ENDINGS if pages[width] == 1 else ENDINGS[:1])
            ],
        )
        for theme, theme_label in THEMES.items()
        for width, width_label in WIDTHS.items()
    ]
