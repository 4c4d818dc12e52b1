"""The panels of a comparison's page in their order: what each one computes, shows and exports.

The page, its print and the exports follow PANELS. A new panel is one class here, one template in
`templates/comparisons/panels/`, and one name in PANELS.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from django.urls import reverse

from dashboard.comparisons import anatomy, latex
from dashboard.comparisons.figures import Panel as ScalingPanel
from dashboard.comparisons.figures import (
    Plot,
    Section,
    bars_plot,
    draw_scaling_panels,
    draw_sections,
    forest_plot,
)
from dashboard.comparisons.forest_figure import ENDINGS, PrintedForest, describe_comparison
from dashboard.comparisons.methods import describe_methods
from dashboard.typed_requests import OpenRequest
from experiments.comparisons import (
    Comparison,
    Exclusion,
    ExperimentComparison,
    Group,
    list_comparison_rows,
    list_everywhere_rows,
)
from experiments.comparisons.accuracies import Accuracies, tabulate_accuracies
from experiments.comparisons.anatomy import collect_anatomies
from experiments.comparisons.companions import is_worth_asking, list_companion_rows
from experiments.comparisons.published_tables import TableComparison
from experiments.comparisons.scales import compute_scalings
from experiments.comparisons.step_spreads import (
    Steadiness,
    compare_steadiness,
    list_steadiness_rows,
)
from experiments.statistics.published.sheets import Sheet
from experiments.statistics.scaling import Batch

MOST_OPEN = 4
"""Groups whose plots and tables are seen at once; where there are more, each is opened by who wants
it, and on paper all are."""
BATCHES: dict[str, Batch] = {"strong": "total", "weak": "per GPU"}
EXPORTS = (
    ("Comparison, CSV", "comparison_csv"),
    ("Comparison, JSON", "comparison_json"),
    ("Comparison, LaTeX", "comparison_tex"),
    ("Forest plot, PDF", "forest_pdf"),
    ("Forest plot, SVG", "forest_svg"),
    ("Forest plot, PNG", "forest_png"),
    ("Runs, CSV", "runs_csv"),
    ("Runs, JSON", "runs_json"),
)
TABLE_EXPORTS = (
    ("Comparison, CSV", "table_csv"),
    ("Comparison, JSON", "table_json"),
    ("Comparison, LaTeX", "table_tex"),
    ("Forest plot, PDF", "table_forest_pdf"),
    ("Forest plot, SVG", "table_forest_svg"),
    ("Forest plot, PNG", "table_forest_png"),
    ("The table as given", "table_text"),
)
Rows = list[dict[str, Any]]
Kind = TypeVar("Kind", bound=Comparison)


class Panel(Generic[Kind]):
    """One part of the page. Its template finds what `compute` returns as `content`."""

    name: ClassVar[str]
    heading: ClassVar[str] = ""
    kind: ClassVar[type[Comparison]] = Comparison
    """Which comparisons have the panel: all, those of experiments, or those of tables."""
    in_csv: ClassVar[bool] = False
    """Whether the rows of its export stand in the CSV file too."""

    @property
    def template(self) -> str:
        return f"comparisons/panels/{self.name}.html"

    def compute(self, comparison: Kind, request: OpenRequest) -> Any:
        """Return what the template shows; None where there is nothing to show."""
        raise NotImplementedError(f"{type(self).__name__} does not compute anything.")

    def export(self, comparison: Kind) -> dict[str, Rows]:
        """Return rows by the key under which they stand in the JSON file."""
        return {}

    def latex(self, comparison: Kind) -> list[str]:
        """Return the lines of its part of the LaTeX file."""
        return []


class ExperimentPanel(Panel[ExperimentComparison]):
    """A panel that only comparisons of experiments have."""

    kind = ExperimentComparison


class TablePanel(Panel[TableComparison]):
    """A panel that only comparisons of published tables have."""

    kind = TableComparison


class Verdicts(Panel[Comparison]):
    """The verdict of each pair; in files, every number of it."""

    name = "verdicts"
    heading = "Verdicts"
    in_csv = True

    def compute(self, comparison: Comparison, request: OpenRequest) -> Comparison:
        return comparison

    def export(self, comparison: Comparison) -> dict[str, Rows]:
        return {
            "comparison": list_comparison_rows(comparison),
            "all_cells": list_everywhere_rows(comparison),
        }


class ForestPlot(Panel[Comparison]):
    """The forest plot; its heading names the baseline, and the metric where there is one only."""

    name = "forest"

    def compute(self, comparison: Comparison, request: OpenRequest) -> PrintedForest | None:
        plot, described = forest_plot(comparison), describe_comparison(comparison)
        if plot is None or described is None:
            return None
        files = {
            ending: page_address(comparison, f"forest_{ending}", f"table_forest_{ending}")
            for ending in ENDINGS
        }
        return PrintedForest(plot, described, files)


class Bars(Panel[Comparison]):
    """The ratios of the forest plot once more, closed until a reader opens them."""

    name = "bars"
    heading = "The same as bars"

    def compute(self, comparison: Comparison, request: OpenRequest) -> Plot | None:
        return bars_plot(comparison)


@dataclass(frozen=True)
class ScalingContent:
    """The plots and tables of the scaling panel."""

    panels: list[ScalingPanel]
    is_folded: bool
    is_kind_chosen: bool
    """Whether the address says which work stayed the same, because nobody else has."""


class Scalings(Panel[Comparison]):
    """Value and efficiency against GPUs; `?scaling=` says strong or weak of a table."""

    name = "scaling"

    def compute(self, comparison: Comparison, request: OpenRequest) -> ScalingContent | None:
        batch = BATCHES.get(request.GET.get("scaling", ""), "")
        panels = draw_scaling_panels(compute_scalings(comparison, batch=batch), comparison.marks)
        is_folded = has_folds(comparison) and len(panels) > MOST_OPEN
        return ScalingContent(panels, is_folded, bool(batch)) if panels else None


class Configurations(Panel[Comparison]):
    """The plots of each workload at each scale, under the heading of their group."""

    name = "configurations"

    def compute(self, comparison: Comparison, request: OpenRequest) -> list[Section] | None:
        return [section for section in draw_sections(comparison) if section.plots] or None


class TrainingEquivalence(ExperimentPanel):
    """The sentences on training equivalence, by configuration."""

    name = "training"
    heading = "Training equivalence"

    def compute(self, comparison: ExperimentComparison, request: OpenRequest) -> list[Group] | None:
        return comparison.trained or None


class Accuracy(ExperimentPanel):
    """The accuracies that runs have reached, and the time that it took."""

    name = "accuracy"
    heading = "Accuracy, and the time it took"

    def compute(
        self, comparison: ExperimentComparison, request: OpenRequest
    ) -> list[Accuracies] | None:
        return tabulate_accuracies(comparison) or None


class StepSpread(ExperimentPanel):
    """The spread of the steps inside runs, with its ratios to the baseline."""

    name = "steadiness"
    heading = "Steadiness"
    in_csv = True

    def compute(self, comparison: ExperimentComparison, request: OpenRequest) -> Steadiness | None:
        steadiness = compare_steadiness(comparison)
        return steadiness if steadiness.groups else None

    def export(self, comparison: ExperimentComparison) -> dict[str, Rows]:
        return {"steadiness": list_steadiness_rows(comparison)}


class Anatomy(ExperimentPanel):
    """The phases of the runs, by environment."""

    name = "anatomy"
    heading = "Anatomy of a run"

    def compute(
        self, comparison: ExperimentComparison, request: OpenRequest
    ) -> list[anatomy.Panel] | None:
        return anatomy.prepare_panels(collect_anatomies(comparison)) or None


class FullResults(Panel[Comparison]):
    """The table with every estimate, interval and p value."""

    name = "full_results"
    heading = "Full results"

    def compute(self, comparison: Comparison, request: OpenRequest) -> list[Group] | None:
        return comparison.groups if comparison.pairs else None

    def latex(self, comparison: Comparison) -> list[str]:
        return latex.results_table(comparison)


class Exclusions(ExperimentPanel):
    """The runs that persons have excluded, with their reasons."""

    name = "exclusions"
    heading = "Excluded runs"

    def compute(
        self, comparison: ExperimentComparison, request: OpenRequest
    ) -> list[Exclusion] | None:
        return comparison.exclusions or None

    def export(self, comparison: ExperimentComparison) -> dict[str, Rows]:
        rows = [{"run": excluded.run, **excluded.columns} for excluded in comparison.exclusions]
        return {"exclusions": rows}


class WarmUp(ExperimentPanel):
    """The shapes and warm-ups that were detected in the runs."""

    name = "warm_up"
    heading = "Warm-up"

    def compute(self, comparison: ExperimentComparison, request: OpenRequest) -> list[str] | None:
        return comparison.warm_up_rules or None


class Robustness(Panel[Comparison]):
    """A link that fetches other tests, or the sentence that there are too few runs for any."""

    name = "robustness"
    heading = "Robustness"

    def compute(self, comparison: Comparison, request: OpenRequest) -> str | None:
        if is_worth_asking(comparison):
            return page_address(comparison, "robustness", "table_robustness")
        return "" if comparison.pairs and comparison.has_runs else None

    def export(self, comparison: Comparison) -> dict[str, Rows]:
        return {"robustness": list_companion_rows(comparison)}


class Methods(Panel[Comparison]):
    """The paragraphs on methods, to be copied into a paper."""

    name = "methods"
    heading = "Methods"

    def compute(self, comparison: Comparison, request: OpenRequest) -> list[str]:
        return describe_methods(comparison)

    def latex(self, comparison: Comparison) -> list[str]:
        return latex.paragraphs(self.heading, describe_methods(comparison))


class TableText(TablePanel):
    """The published table as it was given."""

    name = "table_text"
    heading = "The table as it was given"

    def compute(self, comparison: TableComparison, request: OpenRequest) -> Sheet:
        return comparison.sheet


class Export(Panel[Comparison]):
    """The links to all files of this comparison."""

    name = "export"
    heading = "Export"

    def compute(self, comparison: Comparison, request: OpenRequest) -> list[tuple[str, str]]:
        files = TABLE_EXPORTS if isinstance(comparison, TableComparison) else EXPORTS
        return [(label, page_address(comparison, view, view)) for label, view in files]


PANELS: tuple[Panel[Any], ...] = (
    Verdicts(),
    ForestPlot(),
    Bars(),
    Scalings(),
    Configurations(),
    TrainingEquivalence(),
    Accuracy(),
    StepSpread(),
    Anatomy(),
    FullResults(),
    Exclusions(),
    WarmUp(),
    Robustness(),
    Methods(),
    TableText(),
    Export(),
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


def has_folds(comparison: Comparison) -> bool:
    """Return whether there are so many groups that long panels begin closed."""
    return len(comparison.groups) > MOST_OPEN


def page_address(comparison: Comparison, of_experiment: str, of_table: str) -> str:
    """Return the address of a view of the comparison, by the view's name for each kind."""
    match comparison:
        case TableComparison():
            return reverse(of_table, args=[comparison.row.pk])
        case ExperimentComparison():
            return reverse(of_experiment, args=[comparison.experiment.pk])
    raise TypeError(f"{type(comparison).__name__} has no page.")
