"""The figure of a section as its page shows it first: the printed one, with the files of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import Any
from urllib.parse import urlencode

from dashboard.access.hidden_names import find_hiding
from dashboard.comparisons.comparison_addresses import make_page_address
from dashboard.comparisons.figure_kinds import FigureFiles, list_files
from dashboard.comparisons.forest_figure import PrintedForest
from dashboard.comparisons.panel_base import Panel
from dashboard.comparisons.printed_figures import FIGURES, describe_kind
from dashboard.drawings.axes_figure import AxesFigure
from dashboard.drawings.axes_pages import break_rows, estimate_around
from dashboard.drawings.forest import Forest
from dashboard.drawings.forest_pages import list_page_heights
from dashboard.typed_requests import OpenRequest
from experiments.comparisons import Comparison

WIDE, NARROW = 180, 88


@dataclass(frozen=True)
class ShownFigure:
    """A figure with axes, and where its files are."""

    described: AxesFigure
    address: str
    """Of its files, with ENDING where that of the file stands."""
    query: dict[str, str] = field(default_factory=dict)

    themes = PrintedForest.themes

    @property
    def picture(self) -> str:
        """Return the address of its pictures, up to their width, theme and page."""
        query = f"{urlencode(self.query)}&" if self.query else ""
        return f"{self.address.replace('ENDING', 'svg')}?{query}"

    @cached_property
    def pages(self) -> list[tuple[int, int, int]]:
        """Return the number of each page, and about how tall it is in two columns and in one.

        Fewer panels stand beside each other in one column: 0 where a width has no such page.
        """
        wide, narrow = (_estimate_heights(self.described, width) for width in (WIDE, NARROW))
        heights = zip_longest(wide, narrow, fillvalue=0)
        return [(number, *both) for number, both in enumerate(heights, start=1)]

    @property
    def files(self) -> list[FigureFiles]:
        """Return each width and theme with its files; of several pages the PDF alone has all."""
        counts = {width: len(break_rows(self.described, width)) for width in (WIDE, NARROW)}
        return list_files(self.address, self.query, counts)


@dataclass(frozen=True)
class ShownForest:
    """A forest plot outside of a comparison's own page, and where its files are."""

    described: Forest
    address: str
    """Of its files, with ENDING where that of the file stands."""

    themes = PrintedForest.themes

    @property
    def picture(self) -> str:
        """Return the address of its pictures, up to their width, theme and page."""
        return f"{self.address.replace('ENDING', 'svg')}?"

    @cached_property
    def pages(self) -> list[tuple[int, int, int]]:
        """Return the number of each page, and about how tall it is in two columns and in one."""
        return list_page_heights(self.described)

    @property
    def files(self) -> list[FigureFiles]:
        """Return each width and theme with its files; of several pages the PDF alone has all."""
        counts = {
            WIDE: sum(wide > 0 for _, wide, _ in self.pages),
            NARROW: sum(narrow > 0 for _, _, narrow in self.pages),
        }
        return list_files(self.address, {}, counts)


def show_figure(
    comparison: Comparison, panel: Panel[Any], content: Any, request: OpenRequest
) -> ShownFigure | None:
    """Return the figure of a section, of the configurations that it shows; None without one.

    A section that fetches its contents shows its figure with them.
    """
    kind = FIGURES.get(panel.name)
    if kind is None or kind.is_fetched or not isinstance(comparison, kind.of):
        return None
    if not kind.is_offered(comparison):
        return None
    number = panel.read_configuration(comparison, request)
    hide = find_hiding(request.user)
    scaling = request.GET.get("scaling", "")
    described = panel.describe(comparison, content, hide)
    if described is None and not kind.is_of_content:
        groups = [comparison.groups[number - 1]] if number else comparison.groups
        described = describe_kind(kind, comparison, groups, hide, scaling)
    if described is None:
        return None
    query = {"configuration": str(number)} if number else {}
    if "scaling" in request.GET:
        query["scaling"] = scaling
    return ShownFigure(described, make_figure_address(comparison, kind.name), query)


def make_figure_address(comparison: Comparison, name: str) -> str:
    """Return the address of a figure's files, with ENDING where that of the file stands."""
    return leave_ending_open(make_page_address(comparison, "figure_svg", "table_figure_svg", name))


def leave_ending_open(address: str) -> str:
    """Return the address of an SVG with ENDING in place of its ending."""
    return address.removesuffix("svg") + "ENDING"


def _estimate_heights(figure: AxesFigure, width: int) -> list[int]:
    """Return about how many millimetres each page of a figure is tall."""
    around = estimate_around(figure, width)
    return [round(sum(row.height for row in page) + around) for page in break_rows(figure, width)]
