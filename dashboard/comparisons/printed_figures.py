"""The figures of a comparison that are printed: which there are, and what describes each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from dashboard.comparisons.forest_figure import ENDINGS, THEMES, WIDTHS, say_metric
from dashboard.drawings.axes_figure import AxesFigure
from dashboard.drawings.axes_pages import break_rows
from dashboard.drawings.forest import Forest
from dashboard.drawings.forest_pages import break_pages
from dashboard.drawings.runs import Runs, describe_run_order, describe_runs
from dashboard.typed_requests import OpenRequest, parse_whole_number
from experiments.comparisons import Comparison, Group

FOREST = "forest"
"""The name of the figure that has a description and a layout of its own."""
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


def read_groups(kind: PrintedFigure, comparison: Comparison, request: OpenRequest) -> list[Group]:
    """Return the configurations that the address asks for: all of them, or one by its number."""
    number = parse_whole_number(request.GET.get("configuration", "")) or 0
    if kind.is_by_configuration and 1 <= number <= len(comparison.groups):
        return [comparison.groups[number - 1]]
    return comparison.groups[:1] if kind.is_of_one else comparison.groups


def count_pages(figure: Forest | AxesFigure, width: int) -> int:
    """Return how many pages a figure has in this width."""
    if isinstance(figure, Forest):
        return len(break_pages(figure))
    return len(break_rows(figure, width))


def list_files(
    address: str, query: dict[str, str], endings: Iterable[str] = ENDINGS
) -> list[FigureFiles]:
    """Return each width and theme with the addresses of its files.

    `address` has "ENDING" where that of the file stands.
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
                for ending in endings
            ],
        )
        for theme, theme_label in THEMES.items()
        for width, width_label in WIDTHS.items()
    ]


def _take_runs(comparison: Comparison, groups: Sequence[Group]) -> list[Runs]:
    return [
        Runs(group.name or group.title, say_metric(group), group.metric.unit, group.samples)
        for group in groups
    ]


def _describe_runs(
    comparison: Comparison, groups: Sequence[Group], hide: Hide
) -> AxesFigure | None:
    return describe_runs(_take_runs(comparison, groups), marks=comparison.marks, hide=hide)


def _describe_run_order(
    comparison: Comparison, groups: Sequence[Group], hide: Hide
) -> AxesFigure | None:
    return describe_run_order(_take_runs(comparison, groups), marks=comparison.marks, hide=hide)


FIGURES = {
    kind.name: kind
    for kind in (
        PrintedFigure("runs", "All runs", _describe_runs),
        PrintedFigure("run_order", "Run order", _describe_run_order),
    )
}
