"""The figures of a comparison that are printed: which there are, and what describes each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dashboard.comparisons.figure_kinds import BATCHES, Hide, PrintedFigure
from dashboard.comparisons.forest_figure import say_metric
from dashboard.comparisons.metric_words import say_words
from dashboard.drawings.axes_figure import AxesFigure
from dashboard.drawings.bars import describe_bars
from dashboard.drawings.equivalence import describe_equivalence
from dashboard.drawings.phases import Phases, describe_phases
from dashboard.drawings.quantiles import describe_quantiles
from dashboard.drawings.runs import Runs, describe_run_order, describe_runs
from dashboard.drawings.scaling import Scaled, describe_scaling
from dashboard.drawings.slopes import describe_slopes
from dashboard.drawings.steps import Series, Steps, describe_steps
from dashboard.drawings.training import describe_training
from dashboard.drawings.variance import Spread, describe_variance
from experiments.comparisons import Comparison, ExperimentComparison, Group
from experiments.comparisons.anatomy import collect_anatomies
from experiments.comparisons.companions import (
    Companions,
    compute_companions,
    has_normal_quantiles,
)
from experiments.comparisons.scales import Scaling, compute_scalings
from experiments.comparisons.series import Inside, read_series
from experiments.comparisons.variance import GroupVariance, split_groups
from experiments.comparisons.whole_curves import WholeCurves, compare_curves_of_groups
from experiments.statistics import Pair
from experiments.statistics.scaling import Batch


def describe_kind(
    kind: PrintedFigure,
    comparison: Comparison,
    groups: Sequence[Group],
    hide: Hide,
    scaling: str = "",
) -> AxesFigure | None:
    """Return a figure of these configurations; `scaling` is what an address says of the batch."""
    if kind.name == "scaling":
        return describe_scalings(comparison, hide, BATCHES.get(scaling, ""))
    return kind.describe(comparison, groups, hide)


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


def _describe_blocks(
    comparison: Comparison, groups: Sequence[Group], hide: Hide
) -> AxesFigure | None:
    paired = [group for group in groups if any(pair.n_blocks for pair in group.pairs)]
    return describe_slopes(_take_runs(comparison, paired), marks=comparison.marks, hide=hide)


def _describe_equivalence(
    comparison: Comparison, groups: Sequence[Group], hide: Hide
) -> AxesFigure | None:
    return describe_equivalence(
        _take_pairs(groups), margin=comparison.margin, marks=comparison.marks, hide=hide
    )


def _describe_bars(
    comparison: Comparison, groups: Sequence[Group], hide: Hide
) -> AxesFigure | None:
    return describe_bars(_take_pairs(groups), marks=comparison.marks, hide=hide)


def _take_pairs(groups: Sequence[Group]) -> list[tuple[str, Sequence[Pair]]]:
    return [(group.name or group.title, group.pairs) for group in groups]


def _describe_phases(
    comparison: ExperimentComparison, groups: Sequence[Group], hide: Hide
) -> AxesFigure | None:
    shown = {tuple(group.configuration.values()): group.name for group in groups}
    return describe_phases(
        [
            Phases(
                shown[anatomy.workload, anatomy.scale],
                [(body.environment, body.runs, body.phases) for body in anatomy.bodies],
            )
            for anatomy in collect_anatomies(comparison)
            if (anatomy.workload, anatomy.scale) in shown
        ],
        hide=hide,
    )


def _describe_scaling(
    comparison: Comparison, groups: Sequence[Group], hide: Hide
) -> AxesFigure | None:
    return describe_scalings(comparison, hide)


def describe_scalings(comparison: Comparison, hide: Hide, batch: Batch = "") -> AxesFigure | None:
    """Return the scaling of all workloads; `batch` says whose it is where nothing else does."""
    return describe_scaling(
        [
            Scaled(
                _name_scaling(scaling),
                say_words(scaling.metric.label or scaling.metric.name),
                scaling.metric.unit,
                scaling.metric.better or "lower",
                scaling.batch,
                scaling.levels,
                scaling.gains,
            )
            for scaling in compute_scalings(comparison, batch=batch)
        ],
        marks=comparison.marks,
        hide=hide,
    )


def _name_scaling(scaling: Scaling) -> str:
    kind = f"{scaling.kind.capitalize()} scaling" if scaling.kind else "Scaling"
    return f"{kind}, {scaling.name}" if scaling.name else kind


def _describe_steps(
    comparison: ExperimentComparison, groups: Sequence[Group], hide: Hide
) -> AxesFigure | None:
    if not groups:
        return None
    group, experiment = groups[0], comparison.experiment
    name, scale = group.configuration["workload"], group.configuration["scale"]
    workload = experiment.workloads.filter(name=name).first()
    if workload is None:
        return None
    inside = read_series(experiment, workload, scale)
    return describe_inside(group.name, inside, comparison.marks, hide)


def describe_inside(
    title: str, inside: Inside, marks: Mapping[str, int], hide: Hide
) -> AxesFigure | None:
    """Return the figure of the steps inside the runs of one configuration, which were read."""
    read = inside.losses
    losses = Series("Loss", "1", read.curves, read.medians, is_log=True, bands=read.bands)
    others = [
        Series(
            say_words(other.metric),
            other.unit,
            other.drawn.curves,
            other.drawn.medians,
            bands=other.drawn.bands,
        )
        for other in inside.others
    ]
    steps = Steps(
        title, inside.tails, [losses, *others], inside.accuracies, inside.target, inside.traces
    )
    return describe_steps(steps, marks=marks, hide=hide)


def _describe_training(
    comparison: ExperimentComparison, groups: Sequence[Group], hide: Hide
) -> AxesFigure | None:
    names = {group.name for group in groups}
    shown = [group for group in comparison.trained if group.name in names]
    return describe_training_curves(comparison, compare_curves_of_groups(comparison, shown), hide)


def _has_judged_trainings(comparison: Comparison) -> bool:
    """Return whether curves are compared: not before all planned runs have ended."""
    return isinstance(comparison, ExperimentComparison) and not comparison.stage.waits


def describe_training_curves(
    comparison: ExperimentComparison, curves: Sequence[WholeCurves], hide: Hide
) -> AxesFigure | None:
    """Return the figure of whole curves that were read and compared."""
    return describe_training(
        [(each.group.name, each.pairs) for each in curves], marks=comparison.marks, hide=hide
    )


def _describe_variance(
    comparison: ExperimentComparison, groups: Sequence[Group], hide: Hide
) -> AxesFigure | None:
    narrowed = replace(comparison, groups=list(groups))
    return describe_spreads(comparison, split_groups(narrowed), hide)


def describe_spreads(
    comparison: ExperimentComparison, splits: Sequence[GroupVariance], hide: Hide
) -> AxesFigure | None:
    """Return the figure of components of variance that were computed."""
    return describe_variance(
        [
            Spread(
                split.group.name or split.group.title,
                split.components,
                split.steps,
                [(ratio.environment, ratio.components) for ratio in split.ratios],
            )
            for split in splits
        ],
        marks=comparison.marks,
        hide=hide,
    )


def _describe_quantiles(
    comparison: Comparison, groups: Sequence[Group], hide: Hide
) -> AxesFigure | None:
    narrowed = replace(comparison, groups=list(groups))
    return describe_companions(compute_companions(narrowed), comparison.marks, hide)


def describe_companions(
    companions: Sequence[Companions], marks: Mapping[str, int], hide: Hide
) -> AxesFigure | None:
    """Return the figure of other tests that were computed: whether values look normal."""
    return describe_quantiles(
        [
            (f"{each.pair.environment}: {each.group.name}", each.robustness.normality)
            for each in companions
        ],
        marks=marks,
        hide=hide,
    )


FIGURES = {
    kind.name: kind
    for kind in (
        PrintedFigure("runs", "All runs", _describe_runs),
        PrintedFigure("blocks", "Blocks", _describe_blocks),
        PrintedFigure("run_order", "Run order", _describe_run_order),
        PrintedFigure("equivalence", "Equivalence curves", _describe_equivalence),
        PrintedFigure("scaling", "Scaling", _describe_scaling, is_by_configuration=False),
        PrintedFigure(
            "training",
            "Differences of loss curves",
            _describe_training,
            ExperimentComparison,
            is_of_content=True,
            is_offered=_has_judged_trainings,
        ),
        PrintedFigure(
            "steps",
            "Inside the runs",
            _describe_steps,
            ExperimentComparison,
            is_of_one=True,
            is_fetched=True,
        ),
        PrintedFigure(
            "variance",
            "Components of variance",
            _describe_variance,
            ExperimentComparison,
            is_of_content=True,
        ),
        PrintedFigure("anatomy", "Phases", _describe_phases, ExperimentComparison),
        PrintedFigure("bars", "Ratios as bars", _describe_bars, is_by_configuration=False),
        PrintedFigure(
            "robustness",
            "Normal quantiles",
            _describe_quantiles,
            is_fetched=True,
            is_offered=has_normal_quantiles,
        ),
    )
}
