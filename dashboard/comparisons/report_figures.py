"""The figures of a comparison's file: the forest plot, and those of sections that papers need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dashboard.access.hidden_names import find_hiding
from dashboard.access.visitors import Visitor
from dashboard.comparisons.figure_kinds import FOREST, count_pages
from dashboard.comparisons.figures import ORDER, STRIP
from dashboard.comparisons.forest_figure import describe_for, write_caption
from dashboard.comparisons.panels import list_panels
from dashboard.comparisons.printed_figures import FIGURES, describe_kind
from dashboard.comparisons.shown_figures import make_figure_address
from dashboard.drawings.axes_figure import AxesFigure
from dashboard.drawings.dark_svg import add_dark_theme
from dashboard.drawings.drawing_process import Busy, NotDrawn, draw
from dashboard.drawings.forest import Forest
from dashboard.typed_requests import OpenRequest
from experiments.comparisons import Comparison

PICTURE_MARK = 'src="picture-{}"'
"""Where a picture goes, after names were hidden: what a person types is escaped, never this."""
WIDTH = 180
"""Millimetres of each figure: the width between the margins of A4."""
MOST_PAGES = 6
"""Pages of the forest plot that are drawn: each may take two seconds. The PDF has all of them."""
MOST_FURTHER_PAGES = 2
"""Pages of each other figure."""
MOST_BYTES = 1_500_000
"""Of all pictures as they stand in the file; the forest plot comes first, and always."""
CAPTIONS = {
    "runs": STRIP,
    "run_order": ORDER,
    "equivalence": (
        "What another margin would have said: each curve falls below its level at the smallest "
        "margin that these runs prove."
    ),
}
"""The sections whose figures are in the file, by their names in order, with what they show."""
LEFT_OUT = "With it the pictures of the file would be {:.1f} MB; they may be {:.1f} MB in all."


@dataclass(frozen=True)
class ReportFigure:
    """A figure of the report."""

    title: str
    text: str
    caption: str
    pages: int
    pdf: str
    """The address of the PDF with all pages."""
    pictures: list[bytes]
    """Its first pages, as SVG."""
    first: int
    """The number of the first of them among all pictures of the file, from 0."""
    problem: str = ""
    """Why there is no picture."""

    @property
    def marks(self) -> list[str]:
        """Return what stands in the page where the addresses of the pictures will."""
        return [PICTURE_MARK.format(self.first + place) for place in range(len(self.pictures))]


def draw_report_figures(request: OpenRequest, comparison: Comparison) -> list[ReportFigure]:
    """Return the figures of the file; Busy where one cannot be drawn now, but later.

    One that fails, or for which there is no room any more, says why in place of its pictures.
    """
    figures: list[ReportFigure] = []
    kept, count = 0, 0
    for name, described, caption in _describe_all(request, comparison):
        most = MOST_PAGES if isinstance(described, Forest) else MOST_FURTHER_PAGES
        pages = count_pages(described, WIDTH)
        pictures, problem = _draw_pages(request, described, min(pages, most))
        size = sum(len(picture) * 4 // 3 for picture in pictures)  # as base64
        if figures and kept + size > MOST_BYTES:
            pictures, problem = [], LEFT_OUT.format((kept + size) / 1e6, MOST_BYTES / 1e6)
        else:
            kept += size
        address = make_figure_address(comparison, name).replace("ENDING", "pdf")
        figures.append(
            ReportFigure(
                title=described.title,
                text=described.description,
                caption=caption,
                pages=pages,
                pdf=request.build_absolute_uri(address),
                pictures=pictures,
                first=count,
                problem=problem,
            )
        )
        count += len(pictures)
    return figures


def _describe_all(
    request: OpenRequest, comparison: Comparison
) -> Iterator[tuple[str, Forest | AxesFigure, str]]:
    """Yield the name of each figure that this comparison has, the figure, and its caption."""
    forest = describe_for(comparison, request)
    if forest is None:
        return
    yield FOREST, forest, write_caption(forest)
    hide = find_hiding(request.user)
    panels = {panel.name: panel for panel in list_panels(comparison) if panel.name in CAPTIONS}
    for name, caption in CAPTIONS.items():
        if name in panels and panels[name].is_offered(comparison):
            described = describe_kind(FIGURES[name], comparison, comparison.groups, hide)
            if described is not None:
                yield name, described, caption


def _draw_pages(
    request: OpenRequest, described: Forest | AxesFigure, count: int
) -> tuple[list[bytes], str]:
    """Return the first pages as SVG; none of them and the reason where one cannot be drawn."""
    pictures = []
    try:
        for page in range(1, count + 1):
            picture = draw(
                described,
                width=WIDTH,
                theme="light",
                ending="svg",
                page=page,
                is_visitor=isinstance(request.user, Visitor),
            )
            pictures.append(add_dark_theme(picture))
    except Busy:
        raise
    except NotDrawn as error:
        return [], str(error)
    return pictures, ""
