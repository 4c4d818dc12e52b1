"""The panels of a comparison's page that are figures, or are mostly one."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.comparisons import anatomy
from dashboard.comparisons.comparison_addresses import make_page_address
from dashboard.comparisons.figure_kinds import BATCHES
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
from dashboard.comparisons.panel_base import (
    MOST_OPEN,
    ExperimentPanel,
    Panel,
    Rows,
    has_folds,
)
from dashboard.typed_requests import OpenRequest
from experiments.comparisons import (
    Comparison,
    ExperimentComparison,
    Group,
    list_pooled_rows,
)
from experiments.comparisons.anatomy import collect_anatomies, has_anatomies
from experiments.comparisons.scales import compute_scalings, has_scalings


class ForestPlot(Panel[Comparison]):
    """The forest plot; its heading names the baseline, and the metric where there is one only."""

    name = "forest"
    is_section = False

    def compute(self, comparison: Comparison, request: OpenRequest) -> PrintedForest | None:
        plot, described = forest_plot(comparison), describe_for(comparison, request)
        if plot is None or described is None:
            return None
        files = {
            ending: make_page_address(comparison, f"forest_{ending}", f"table_forest_{ending}")
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
