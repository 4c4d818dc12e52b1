"""Which printed figures a comparison offers, and the addresses of the one that a section shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dashboard.comparisons.comparison_addresses import make_page_address
from dashboard.comparisons.forest_figure import ENDINGS
from dashboard.comparisons.panel_base import Panel
from dashboard.comparisons.panels import list_panels
from dashboard.comparisons.printed_figures import (
    FIGURES,
    FigureFiles,
    PrintedFigure,
    list_files,
)
from dashboard.typed_requests import OpenRequest
from experiments.comparisons import Comparison


def list_printed_figures(
    comparison: Comparison, sections: Iterable[str] | None = None
) -> list[PrintedFigure]:
    """Return the figures to print beside the forest plot: those whose section is offered.

    `sections` are the names of these where they are known already.
    """
    if sections is None:
        sections = [
            panel.name
            for panel in list_panels(comparison)
            if panel.name in FIGURES and panel.is_offered(comparison)
        ]
    kinds = [FIGURES[name] for name in sections if name in FIGURES]
    return [kind for kind in kinds if kind.is_offered(comparison)]


def list_figure_files(
    comparison: Comparison, panel: Panel[Any], request: OpenRequest
) -> list[FigureFiles]:
    """Return the files of the figure that a section shows, of the configurations that it shows."""
    kind = FIGURES.get(panel.name)
    if kind is None or not kind.is_offered(comparison):
        return []
    address = make_page_address(comparison, "figure_svg", "table_figure_svg", kind.name)
    number = panel.read_configuration(comparison, request)
    has_pages = number is None and len(comparison.groups) > 1 and not kind.is_of_one
    query = {"configuration": str(number)} if number else {}
    if "scaling" in request.GET:
        query["scaling"] = request.GET["scaling"]
    return list_files(
        address.removesuffix("svg") + "ENDING", query, ENDINGS[:1] if has_pages else ENDINGS
    )
