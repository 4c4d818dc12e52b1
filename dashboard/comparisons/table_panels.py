"""The panels of a comparison's page that are sentences and tables."""

from __future__ import annotations

from collections.abc import Callable

from dashboard.comparisons import latex
from dashboard.comparisons.comparison_addresses import make_page_address
from dashboard.comparisons.methods import describe_methods
from dashboard.comparisons.panel_base import (
    MOST_OPEN,
    ExperimentPanel,
    Panel,
    Rows,
    TablePanel,
)
from dashboard.comparisons.printed_figures import describe_spreads
from dashboard.drawings.axes_figure import AxesFigure
from dashboard.typed_requests import OpenRequest
from experiments.comparisons import (
    Comparison,
    Exclusion,
    ExperimentComparison,
    Group,
    Rejections,
    list_comparison_rows,
    list_everywhere_rows,
)
from experiments.comparisons.accuracies import Accuracies, has_accuracies, tabulate_accuracies
from experiments.comparisons.companions import is_worth_asking, list_companion_rows
from experiments.comparisons.published_tables import TableComparison
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
from experiments.comparisons.workload_pairs import (
    WorkloadPair,
    compare_between_workloads,
    list_between_rows,
    may_compare_workloads,
)
from experiments.statistics.published.sheets import Sheet


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


class BetweenWorkloads(ExperimentPanel):
    """Workloads that differ in one parameter, in each environment: synthetic and real data."""

    name = "between_workloads"
    heading = "Between workloads"

    def compute(
        self, comparison: ExperimentComparison, request: OpenRequest
    ) -> list[WorkloadPair] | None:
        return compare_between_workloads(comparison) or None

    def is_offered(self, comparison: ExperimentComparison) -> bool:
        return may_compare_workloads(comparison)

    def export(self, comparison: ExperimentComparison) -> dict[str, Rows]:
        return {"between_workloads": list_between_rows(comparison)}


class Variance(ExperimentPanel):
    """What nodes, blocks, runs and steps add to the spread, and which to have more of."""

    name = "variance"
    heading = "Components of variance"
    at_once = 1

    def compute(
        self, comparison: ExperimentComparison, request: OpenRequest
    ) -> list[GroupVariance] | None:
        return split_groups(self.narrow(comparison, request)) or None

    def describe(
        self,
        comparison: ExperimentComparison,
        content: list[GroupVariance],
        hide: Callable[[str], str],
    ) -> AxesFigure | None:
        return describe_spreads(comparison, content, hide)

    def is_offered(self, comparison: ExperimentComparison) -> bool:
        return has_variance(comparison)

    def export(self, comparison: ExperimentComparison) -> dict[str, Rows]:
        return {"variance": list_variance_rows(comparison)}


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
            return make_page_address(comparison, "robustness", "table_robustness")
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
