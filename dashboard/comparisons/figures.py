"""The figures of a comparison with their captions, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dashboard.charts import (
    MOST_POINTS,
    Figure,
    Marks,
    Row,
    draw_bars,
    draw_efficiency,
    draw_equivalence,
    draw_forest,
    draw_run_order,
    draw_scaling,
    draw_slopes,
    strip,
)
from dashboard.charts.equivalence import list_levels
from dashboard.comparisons.metric_words import say_words
from dashboard.comparisons.scaling_table import ScalingTable, make_scaling_table
from experiments.comparisons import Comparison, Group
from experiments.comparisons.kept_rows import read_column
from experiments.comparisons.scales import Scaling
from experiments.statistics import numbers
from experiments.statistics.claims import name_goal

FOREST = (
    "Thin line: {} interval. Thick line: {} interval. Shaded: the margin; {} where the "
    "thick line lies inside it."
)
STRIP = "Every run; the tick is the median."
CLICK = " In the interactive chart a click on a point opens its run."
SLOPES = (
    "Each line is a block, from the baseline to the environment: parallel lines are one effect."
)
ORDER = "The same runs in the order in which they began: drift would show here."
EQUIVALENCE = (
    "What another margin would have said: each curve crosses {} at the smallest margin that "
    "these runs prove, which stands beside its name."
)

BARS = (
    "The same ratios as bars. Whiskers are {} intervals: of the ratio, which holds the "
    "baseline’s own uncertainty, and on the baseline’s bar of its mean alone."
)
SCALING = {
    "strong": "Strong scaling: the work of the whole job stays the same.",
    "weak": "Weak scaling: the work of each GPU stays the same.",
    "": "Nobody said whether the batch is that of the whole job (strong scaling) or of each GPU "
    "(weak): a time has no ideal then.",
}
IDEAL = (
    " Dashed: the ideal from each environment’s smallest scale. Points are geometric means with "
    "95 % intervals; nothing was measured between them."
)
EFFICIENCY = (
    "The speed-up over the smallest scale as a share of the ideal one, with 95 % intervals that "
    "hold the uncertainty of that base too."
)


@dataclass(frozen=True)
class Plot:
    """A figure with its caption; `id` names its element and its files."""

    id: str
    figure: Figure
    caption: str
    title: str = ""
    """The heading of a plot that has a panel of its own."""
    wide: bool = False
    """Whether it may scroll inside its box rather than shrink."""
    is_drawn_otherwise: bool = False
    """Whether the picture above shows the same in another way: then this caption is not its own."""
    source: str = ""
    """The address from which the figure is fetched when it is opened; "" if the page holds it."""


@dataclass(frozen=True)
class Section:
    """The plots of one group."""

    group: Group
    plots: list[Plot]


DrawGroup = Callable[[Comparison, Group, int], Iterator[Plot]]
"""A function that yields plots of one group; the index of the group keeps their names apart."""


@dataclass(frozen=True)
class Panel:
    """Plots of one subject, shown beside each other."""

    title: str
    plots: list[Plot]
    asks: bool = False
    """Whether the reader has to say whose batch it is: strong or weak scaling."""
    table: ScalingTable | None = None
    """The same numbers as a table, as papers print it."""


def draw_sections(
    comparison: Comparison, draw: DrawGroup, configuration: int | None = None
) -> list[Section]:
    """Return the plots of each group that has any; of a configuration (from 1) those of its own."""
    return [
        Section(group, plots)
        for index, group in enumerate(comparison.groups)
        if configuration in (None, index + 1)
        if (plots := list(draw(comparison, group, index)))
    ]


def forest_plot(comparison: Comparison) -> Plot | None:
    """Return the ratios of all groups with their intervals, or None where nothing is compared."""
    rows = _rows(comparison)
    if not rows:
        return None
    metrics = {group.metric.name for group in comparison.groups}
    heading = " · ".join(
        [f"Ratio to {comparison.baseline}", *(metrics if len(metrics) == 1 else ())]
    )
    figure = draw_forest(
        rows, margin=comparison.margins, marks=comparison.marks, pooled=comparison.pooled
    )
    return Plot(
        "forest",
        figure,
        FOREST.format(*comparison.levels, name_goal(comparison.margins.goal, comparison.wording)),
        heading,
        wide=True,
    )


def bars_plot(comparison: Comparison) -> Plot | None:
    """Return the same ratios as bars, or None where there is no ratio."""
    rows = [row for row in _rows(comparison) if row.pair.ratio is not None]
    if not rows:
        return None
    directions = {group.metric.better for group in comparison.groups if group.pairs}
    agreed = directions.pop() if len(directions) == 1 else None
    figure = draw_bars(rows, marks=comparison.marks, better=agreed)
    return Plot("bars", figure, BARS.format(comparison.levels[0]), wide=True)


def _rows(comparison: Comparison) -> list[Row]:
    """Return each pair with the heading of its group, which names the metric if there are more."""
    metrics = {group.metric.name for group in comparison.groups}
    return [
        Row(group.title if len(metrics) > 1 else group.name or group.title, pair)
        for group in comparison.groups
        for pair in group.pairs
    ]


def draw_scaling_panels(scalings: list[Scaling], marks: Marks) -> list[Panel]:
    """Return a panel for each workload: its value against GPUs, and beside it the efficiency."""
    return [
        Panel(
            " · ".join(
                filter(
                    None,
                    (
                        _kind_of_scaling(workload_scaling),
                        workload_scaling.name,
                        say_words(workload_scaling.metric.label or workload_scaling.metric.name),
                    ),
                )
            ),
            list(_scaling_plots(workload_scaling, index, marks)),
            asks=not workload_scaling.kind,
            table=make_scaling_table(workload_scaling, marks),
        )
        for index, workload_scaling in enumerate(scalings)
    ]


def _kind_of_scaling(workload_scaling: Scaling) -> str:
    return f"{workload_scaling.kind.capitalize()} scaling" if workload_scaling.kind else "Scaling"


def _scaling_plots(workload_scaling: Scaling, index: int, marks: Marks) -> Iterator[Plot]:
    metric = workload_scaling.metric
    figure = draw_scaling(
        workload_scaling.levels,
        unit=metric.unit,
        metric=metric.label.lower(),
        better=metric.better or "lower",
        batch=workload_scaling.batch,
        marks=marks,
    )
    has_ideal = workload_scaling.kind != "" or metric.better == "higher"
    yield Plot(f"scaling-{index}", figure, SCALING[workload_scaling.kind] + IDEAL * has_ideal)
    if any(gain.efficiency is not None for gain in workload_scaling.gains):
        left_out = sorted({gain.flaw for gain in workload_scaling.gains if gain.efficiency is None})
        caption = EFFICIENCY + "".join(f" Left out: {flaw}." for flaw in left_out)
        yield Plot(
            f"efficiency-{index}", draw_efficiency(workload_scaling.gains, marks=marks), caption
        )


def draw_runs(comparison: Comparison, group: Group, index: int) -> Iterator[Plot]:
    """Yield every run by environment."""
    if has_runs(comparison, group):
        caption = STRIP + CLICK * comparison.runs_have_pages + _describe_thinned(group)
        yield Plot(f"strip-{index}", strip(group.samples, **_options(comparison, group)), caption)


def draw_blocks(comparison: Comparison, group: Group, index: int) -> Iterator[Plot]:
    """Yield each block as a line, where runs were compared in blocks."""
    if has_blocks(group):
        figure = draw_slopes(group.samples, **_options(comparison, group))
        yield Plot(f"slopes-{index}", figure, SLOPES + _describe_thinned(group))


def draw_order(comparison: Comparison, group: Group, index: int) -> Iterator[Plot]:
    """Yield the runs in the order in which they began, where that is known."""
    if has_order(group):
        figure = draw_run_order(group.samples, **_options(comparison, group))
        yield Plot(f"order-{index}", figure, ORDER + _describe_thinned(group))


def draw_equivalence_curve(comparison: Comparison, group: Group, index: int) -> Iterator[Plot]:
    """Yield p of equivalence by margin, where anything is inferred."""
    if has_curve(group):
        alphas = list_levels([pair for pair in group.pairs if pair.smallest_margin is not None])
        level = " or ".join(numbers.level(alpha) for alpha in alphas)
        curve = draw_equivalence(group.pairs, margin=comparison.margin, marks=comparison.marks)
        yield Plot(f"equivalence-{index}", curve, EQUIVALENCE.format(level))


def _describe_thinned(group: Group) -> str:
    """Return a sentence where a chart does not draw all runs."""
    if len(group.samples) <= MOST_POINTS:
        return ""
    return (
        f" Of {len(group.samples):,} runs about {MOST_POINTS} are drawn; the file of runs has all."
    )


def has_runs(comparison: Comparison, group: Group) -> bool:
    """Return whether there are single runs to draw.

    One published number for each environment is no distribution; runs have pages to open.
    """
    several = len(group.samples) > len(set(read_column(group.samples, "environment")))
    return several or bool(group.samples and comparison.runs_have_pages)


def has_blocks(group: Group) -> bool:
    """Return whether the group was compared in blocks."""
    return any(pair.n_blocks for pair in group.pairs)


def has_order(group: Group) -> bool:
    """Return whether it is known when any of the runs began."""
    return any(started is not None for started in read_column(group.samples, "started"))


def has_curve(group: Group) -> bool:
    """Return whether any pair of the group has an inference, of one margin in both directions."""
    return any(
        pair.smallest_margin is not None and pair.margins.is_symmetric for pair in group.pairs
    )


def _options(comparison: Comparison, group: Group) -> dict[str, Any]:
    metric = group.metric
    return {"unit": metric.unit, "metric": metric.label.lower(), "marks": comparison.marks}
