"""Which printed figures a comparison offers."""

from __future__ import annotations

from collections.abc import Iterable

from dashboard.comparisons.figure_kinds import PrintedFigure
from dashboard.comparisons.panels import list_panels
from dashboard.comparisons.printed_figures import FIGURES
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
