"""The panels of a comparison's page in their order: what each one computes, shows and exports.

The list of sections, the print and the exports follow PANELS. A new panel is one class here, one
template in `templates/comparisons/panels/`, and one name in PANELS.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from dashboard.comparisons import anatomy, latex
from dashboard.comparisons.facts_panel import FactsCompared
from dashboard.comparisons.figures import Panel as ScalingPanel
from dashboard.comparisons.figures import (
    Plot,
    Section,
    bars_plot,
    draw_blocks,
    draw_equivalence_curve,
    draw_order,
    draw_runs,
    draw_scaling_panels,
    draw_sections,
    forest_plot,
    has_blocks,
    has_curve,
    has_order,
    has_runs,
)
from dashboard.comparisons.forest_figure import ENDINGS, PrintedForest, describe_for
from dashboard.comparisons.methods import describe_methods
from dashboard.comparisons.panel_base import ExperimentPanel, Panel, Rows, TablePanel
from dashboard.comparisons.sides import SideBySide
from dashboard.comparisons.training_panel import TrainingEquivalence
from dashboard.typed_requests import OpenRequest
from experiments.comparisons import (
    Comparison,
    Exclusion,
    ExperimentComparison,
    Group,
    Rejections,
    list_comparison_rows,
    list_everywhere_rows,
    list_pooled_rows,
)
from experiments.comparisons.accuracies import Accuracies, has_accuracies, tabulate_accuracies
from experiments.comparisons.anatomy import collect_anatomies, has_anatomies
from experiments.comparisons.companions import is_worth_asking, list_companion_rows
from experiments.comparisons.published_tables import TableComparison
from experiments.comparisons.scales import compute_scalings, has_scalings
from experiments.comparisons.step_spreads import (
    Steadiness,
    compare_steadiness,
    has_spreads,
    list_steadiness_rows,
)
from experiments.comparisons.variance import (
    GroupVariance,
    has_variance,
    list_variance_rows,
    split_groups,
)
from experiments.statistics.published.sheets import Sheet
from experiments.statistics.scaling import Batch

MOST_OPEN = 4
"""Groups whose plots and tables are seen at once; where there are more, each is opened by who wants
it, and on paper all are."""
BATCHES: dict[str, Batch] = {"strong": "total", "weak": "per GPU"}


class ForestPlot(Panel[Comparison]):
    """The forest plot; its heading names the baseline, and the metric where there is one only."""

    name = "forest"
    is_section = False

    def compute(self, comparison: Comparison, request: OpenRequest) -> PrintedForest | None:
        plot, described = forest_plot(comparison), describe_for(comparison, request)
        if plot is None or described is None:
            return None
        files = {
            ending: page_address(comparison, f"forest_{ending}", f"table_forest_{ending}")
            for ending in ENDINGS
        }
        not_pooled = tuple(pooled.sentence for pooled in comparison.pooled if pooled.why_not)
        return PrintedForest(plot, described, files, not_pooled)

    def export(self, comparison: Comparison) -> dict[str, Rows]:
        return {"pooled": list_pooled_rows(comparison)}


class Runs(Panel[Comparison]):
    """Every run by environment."""

    name = "runs"
    heading = "Runs"
    at_once = 1

    def compute(self, comparison: Comparison, request: OpenRequest) -> list[Section] | None:
        number = self.read_configuration(comparison, request)
        return draw_sections(comparison, draw_runs, number) or None

    def is_offered(self, comparison: Comparison) -> bool:
        return any(has_runs(comparison, group) for group in comparison.groups)

    def count(self, comparison: Comparison) -> int:
        return sum(len(group.samples) for group in comparison.groups)


class Verdicts(Panel[Comparison]):
    """The verdict of each pair as a sentence; in files, every number of it."""

    name = "verdicts"
    heading = "Verdicts in words"
    in_csv = True
    at_once = MOST_OPEN

    def compute(self, comparison: Comparison, request: OpenRequest) -> Comparison:
        return self.narrow(comparison, request)

    def count(self, comparison: Comparison) -> int | None:
        return len(comparison.pairs) or None

    def export(self, comparison: Comparison) -> dict[str, Rows]:
        return {
            "comparison": list_comparison_rows(comparison),
            "all_cells": list_everywhere_rows(comparison),
        }


class Blocks(Panel[Comparison]):
    """Each block as a line from the baseline to the environment."""

    name = "blocks"
    heading = "Blocks"
    at_once = 1

    def compute(self, comparison: Comparison, request: OpenRequest) -> list[Section] | None:
        number = self.read_configuration(comparison, request)
        return draw_sections(comparison, draw_blocks, number) or None

    def is_offered(self, comparison: Comparison) -> bool:
        return any(has_blocks(group) for group in comparison.groups)


class RunOrder(Panel[Comparison]):
    """The runs in the order in which they began."""

    name = "run_order"
    heading = "Run order"
    at_once = 1

    def compute(self, comparison: Comparison, request: OpenRequest) -> list[Section] | None:
        number = self.read_configuration(comparison, request)
        return draw_sections(comparison, draw_order, number) or None

    def is_offered(self, comparison: Comparison) -> bool:
        return any(has_order(group) for group in comparison.groups)


class EquivalenceCurve(Panel[Comparison]):
    """What other margins would have said."""

    name = "equivalence"
    heading = "Equivalence curve"
    at_once = 1

    def compute(self, comparison: Comparison, request: OpenRequest) -> list[Section] | None:
        number = self.read_configuration(comparison, request)
        return draw_sections(comparison, draw_equivalence_curve, number) or None

    def is_offered(self, comparison: Comparison) -> bool:
        return any(has_curve(group) for group in comparison.groups)


class Steps(ExperimentPanel):
    """Step times, losses and accuracies inside the runs, fetched when they are seen."""

    name = "steps"
    heading = "Inside the runs"
    at_once = 1

    def compute(self, comparison: ExperimentComparison, request: OpenRequest) -> list[Group] | None:
        if not self.is_offered(comparison):
            return None
        return self.narrow(comparison, request).groups or None

    def is_offered(self, comparison: ExperimentComparison) -> bool:
        return comparison.run_details.has_steps


class Bars(Panel[Comparison]):
    """The ratios of the forest plot once more, as papers often draw them."""

    name = "bars"
    heading = "Ratios as bars"

    def compute(self, comparison: Comparison, request: OpenRequest) -> Plot | None:
        return bars_plot(comparison)

    def is_offered(self, comparison: Comparison) -> bool:
        return any(pair.ratio is not None for pair in comparison.pairs)


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
    label = "Scaling"

    def compute(self, comparison: Comparison, request: OpenRequest) -> ScalingContent | None:
        batch = BATCHES.get(request.GET.get("scaling", ""), "")
        panels = draw_scaling_panels(compute_scalings(comparison, batch=batch), comparison.marks)
        is_folded = has_folds(comparison) and len(panels) > MOST_OPEN
        return ScalingContent(panels, is_folded, bool(batch)) if panels else None

    def is_offered(self, comparison: Comparison) -> bool:
        return has_scalings(comparison)


class Accuracy(ExperimentPanel):
    """The accuracies that runs have reached, and the time that it took."""

    name = "accuracy"
    label = "Accuracy"
    heading = "Accuracy, and the time it took"

    def compute(
        self, comparison: ExperimentComparison, request: OpenRequest
    ) -> list[Accuracies] | None:
        return tabulate_accuracies(comparison) or None

    def is_offered(self, comparison: ExperimentComparison) -> bool:
        return has_accuracies(comparison)


class StepSpread(ExperimentPanel):
    """The spread of the steps inside runs, with its ratios to the baseline."""

    name = "steadiness"
    heading = "Steadiness"
    in_csv = True

    def compute(self, comparison: ExperimentComparison, request: OpenRequest) -> Steadiness | None:
        steadiness = compare_steadiness(comparison)
        return steadiness if steadiness.groups else None

    def is_offered(self, comparison: ExperimentComparison) -> bool:
        return has_spreads(comparison)

    def export(self, comparison: ExperimentComparison) -> dict[str, Rows]:
        return {"steadiness": list_steadiness_rows(comparison)}


class Variance(ExperimentPanel):
    """What nodes, blocks, runs and steps add to the spread, and which to have more of."""

    name = "variance"
    heading = "Components of variance"
    at_once = 1

    def compute(
        self, comparison: ExperimentComparison, request: OpenRequest
    ) -> list[GroupVariance] | None:
        return split_groups(self.narrow(comparison, request)) or None

    def is_offered(self, comparison: ExperimentComparison) -> bool:
        return has_variance(comparison)

    def export(self, comparison: ExperimentComparison) -> dict[str, Rows]:
        return {"variance": list_variance_rows(comparison)}


class Anatomy(ExperimentPanel):
    """The phases of the runs, by environment."""

    name = "anatomy"
    heading = "Phases"
    at_once = 1

    def compute(
        self, comparison: ExperimentComparison, request: OpenRequest
    ) -> list[anatomy.Panel] | None:
        anatomies = collect_anatomies(comparison)
        if self.read_configuration(comparison, request) is not None:
            (group,) = self.narrow(comparison, request).groups
            place = tuple(group.configuration.values())
            anatomies = [body for body in anatomies if (body.workload, body.scale) == place]
        return anatomy.prepare_panels(anatomies) or None

    def is_offered(self, comparison: ExperimentComparison) -> bool:
        return has_anatomies(comparison)


class FullResults(Panel[Comparison]):
    """The table with every estimate, interval and p value."""

    name = "full_results"
    heading = "Full results"

    def compute(self, comparison: Comparison, request: OpenRequest) -> list[Group] | None:
        return comparison.groups if comparison.pairs else None

    def is_offered(self, comparison: Comparison) -> bool:
        return bool(comparison.pairs)

    def count(self, comparison: Comparison) -> int:
        return len(comparison.pairs)

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

    def is_offered(self, comparison: ExperimentComparison) -> bool:
        return bool(comparison.exclusions)

    def count(self, comparison: ExperimentComparison) -> int:
        return len(comparison.exclusions)

    def export(self, comparison: ExperimentComparison) -> dict[str, Rows]:
        rows = [
            {"run": excluded.run, **excluded.columns, "excluded_when": excluded.moment}
            for excluded in comparison.exclusions
        ]
        return {"exclusions": rows}


class RejectedRuns(ExperimentPanel):
    """How many runs the rules of the plan have rejected, by configuration and environment."""

    name = "rejections"
    heading = "Rejected runs"
    in_csv = True

    def compute(
        self, comparison: ExperimentComparison, request: OpenRequest
    ) -> list[Rejections] | None:
        places = {(row.workload, row.scale) for row in comparison.rejections if row.rejected}
        rows = [row for row in comparison.rejections if (row.workload, row.scale) in places]
        return rows or None

    def is_offered(self, comparison: ExperimentComparison) -> bool:
        return bool(comparison.rejections)

    def count(self, comparison: ExperimentComparison) -> int:
        return comparison.rejected

    def export(self, comparison: ExperimentComparison) -> dict[str, Rows]:
        rows = [{**comparison.about, **row.columns} for row in comparison.rejections]
        return {"rejections": rows}


class WarmUp(ExperimentPanel):
    """The shapes and warm-ups that were detected in the runs."""

    name = "warm_up"
    heading = "Warm-up"

    def compute(self, comparison: ExperimentComparison, request: OpenRequest) -> list[str] | None:
        return comparison.warm_up_rules or None

    def is_offered(self, comparison: ExperimentComparison) -> bool:
        return bool(comparison.warm_up_rules)


class Robustness(Panel[Comparison]):
    """A link that fetches other tests, or the sentence that there are too few runs for any."""

    name = "robustness"
    heading = "Robustness"

    def compute(self, comparison: Comparison, request: OpenRequest) -> str | None:
        if is_worth_asking(comparison):
            return page_address(comparison, "robustness", "table_robustness")
        return "" if self.is_offered(comparison) else None

    def is_offered(self, comparison: Comparison) -> bool:
        return bool(comparison.pairs) and (comparison.has_runs or is_worth_asking(comparison))

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


PANELS: tuple[Panel[Any], ...] = (
    ForestPlot(),
    Runs(),
    Verdicts(),
    Blocks(),
    RunOrder(),
    EquivalenceCurve(),
    Scalings(),
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


def has_folds(comparison: Comparison) -> bool:
    """Return whether there are so many groups that long panels begin closed."""
    return len(comparison.groups) > MOST_OPEN


def page_address(comparison: Comparison, of_experiment: str, of_table: str, *names: str) -> str:
    """Return the address of a view of the comparison, by the view's name for each kind."""
    match comparison:
        case TableComparison():
            return reverse(of_table, args=[comparison.row.pk, *names])
        case ExperimentComparison():
            return reverse(of_experiment, args=[comparison.experiment.pk, *names])
    raise TypeError(f"{type(comparison).__name__} has no page.")
