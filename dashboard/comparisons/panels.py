"""The panels of a comparison's page in their order, and the files that they have together.

The list of sections, the print and the exports follow PANELS. A new panel is one class, in
`figure_panels`, `table_panels` or a module of its own, one template in
`templates/comparisons/panels/`, and one name in PANELS.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dashboard.comparisons import latex
from dashboard.comparisons.facts_panel import FactsCompared
from dashboard.comparisons.figure_panels import (
    Anatomy,
    Bars,
    Blocks,
    EquivalenceCurve,
    ForestPlot,
    RunOrder,
    Runs,
    Scalings,
    Steps,
)
from dashboard.comparisons.panel_base import Panel, Rows
from dashboard.comparisons.reproduction_panel import Reproduction
from dashboard.comparisons.sides import SideBySide
from dashboard.comparisons.table_panels import (
    Accuracy,
    BetweenWorkloads,
    Exclusions,
    FullResults,
    Methods,
    RejectedRuns,
    Robustness,
    StepSpread,
    TableText,
    Variance,
    Verdicts,
    WarmUp,
)
from dashboard.comparisons.training_panel import TrainingEquivalence
from dashboard.typed_requests import OpenRequest
from experiments.comparisons import Comparison

PANELS: tuple[Panel[Any], ...] = (
    ForestPlot(),
    Reproduction(),
    Runs(),
    Verdicts(),
    Blocks(),
    RunOrder(),
    EquivalenceCurve(),
    Scalings(),
    BetweenWorkloads(),
    TrainingEquivalence(),
    Accuracy(),
    Steps(),
    StepSpread(),
    Variance(),
    Anatomy(),
    WarmUp(),
    Bars(),
    FullResults(),
    SideBySide(),
    FactsCompared(),
    Exclusions(),
    RejectedRuns(),
    Robustness(),
    Methods(),
    TableText(),
)


def list_panels(comparison: Comparison) -> Iterator[Panel[Any]]:
    """Yield the panels that a comparison of this kind has, in the order of the page."""
    return (panel for panel in PANELS if isinstance(comparison, panel.kind))


def compute_panels(
    comparison: Comparison, request: OpenRequest
) -> Iterator[tuple[Panel[Any], Any]]:
    """Yield each panel that has something to show, with its content."""
    for panel in list_panels(comparison):
        content = panel.compute(comparison, request)
        if content is not None:
            yield panel, content


def collect_exported_rows(comparison: Comparison) -> dict[str, Rows]:
    """Return the rows of all panels by their key in the JSON file."""
    rows: dict[str, Rows] = {}
    for panel in list_panels(comparison):
        rows |= panel.export(comparison)
    return rows


def latex_file(comparison: Comparison) -> str:
    """Return the parts of all panels that have one in the LaTeX file."""
    parts = (panel.latex(comparison) for panel in list_panels(comparison))
    return latex.document(list(filter(None, parts)))


def collect_csv_rows(comparison: Comparison) -> Rows:
    """Return the rows of the panels that have a part in the CSV file."""
    return [
        row
        for panel in list_panels(comparison)
        if panel.in_csv
        for rows in panel.export(comparison).values()
        for row in rows
    ]
