"""The printed figures of two experiments side by side: ratios, and the steps inside the runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from dashboard.charts.paired_axes import share_axes
from dashboard.comparisons.figures import Plot
from dashboard.comparisons.forest_figure import say_metric
from dashboard.comparisons.printed_figures import describe_inside
from dashboard.comparisons.step_charts import draw_steps
from dashboard.comparisons.studies_forest import give_own_margins
from dashboard.comparisons.two_experiments import ExperimentSide, TwoExperiments
from dashboard.drawings.axes_figure import AxesFigure, finish
from dashboard.drawings.forest import ComparedPair, Forest, describe_forest
from dashboard.drawings.paired_panels import pair_figures
from dashboard.drawings.typeface import clean
from dashboard.environment_symbols import assign_symbols
from experiments.comparisons import Group
from experiments.comparisons.series import read_series

SIDES = ("Left", "Right")
LONGEST_NAME = 50
OWN_BASELINES = "each experiment’s baseline"
Hide = Callable[[str], str]


@dataclass(frozen=True)
class PairedPlots:
    """The plots of one kind, with equal axes; None where a side has recorded nothing."""

    title: str
    left: Plot | None
    right: Plot | None


@dataclass(frozen=True)
class PairedSteps:
    """The steps inside the runs of a configuration of both experiments."""

    plots: list[PairedPlots]
    described: AxesFigure | None
    """Its printed figure; None where neither has recorded anything."""


def describe_ratios(two: TwoExperiments, hide: Hide = str) -> Forest | None:
    """Return the forest plot of both, a configuration's left and right ratios under each other.

    None where neither has a verdict. Each ratio is to the baseline of its own experiment, and
    margins that differ stand behind their rows.
    """
    rows = list(_list_pairs(two))
    if not rows:
        return None
    margins = {side.comparison.margins for side in two.both if side.comparison.has_numbers}
    metrics = {say_metric(group) for _, group, _ in rows}
    baselines = {compared.pair.baseline for _, _, compared in rows}
    forest = describe_forest(
        [compared for _, _, compared in rows],
        baseline=baselines.pop() if len(baselines) == 1 else OWN_BASELINES,
        metric=metrics.pop() if len(metrics) == 1 else "",
        margin=max(margins, key=lambda margin: (margin.largest, margin.slower)),
        marks={**two.right.comparison.marks, **two.left.comparison.marks},
        hide=hide,
    )
    forest = replace(
        forest,
        title=f"{forest.title}, {clean(hide(_name_both(two)))}",
        rows=tuple(
            replace(row, letters=",".join(filter(None, (row.letters, word[0]))))
            for row, (word, _, _) in zip(forest.rows, rows, strict=True)
        ),
        notes=(*forest.notes, *_describe_sides(two, hide, has_margins=len(margins) > 1)),
    )
    if len(margins) == 1:
        return forest
    sides = dict(zip(SIDES, two.both, strict=True))
    return give_own_margins(
        forest,
        [(sides[word].comparison.margins, compared.pair.better) for word, _, compared in rows],
    )


def _list_pairs(two: TwoExperiments) -> Iterator[tuple[str, Group, ComparedPair]]:
    """Yield the side of what is compared in each configuration, first left and then right."""
    for groups in two.pairs:
        for side, word, group in zip(two.both, SIDES, groups, strict=True):
            if group is None or not side.comparison.has_numbers:
                continue
            heading = " · ".join(filter(None, (group.name, word.lower())))
            for pair in group.pairs:
                yield word, group, ComparedPair(heading, pair, pair.n_nodes)


def _describe_sides(
    two: TwoExperiments, hide: Hide, *, has_margins: bool
) -> Iterator[tuple[str, str]]:
    """Yield the letter of each side with the experiment that it is, as notes have them."""
    for word, side in zip(SIDES, two.both, strict=True):
        margin = f", margin {side.comparison.margins.text}" if has_margins else ""
        yield word[0], clean(hide(f"{word.lower()}: {_name(side)}{margin}"))


def _name(side: ExperimentSide) -> str:
    name = side.experiment.question
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"


def _name_both(two: TwoExperiments) -> str:
    return f"left: {_name(two.left)}, right: {_name(two.right)}"


def draw_paired_steps(two: TwoExperiments, number: int, hide: Hide = str) -> PairedSteps:
    """Return the steps inside the runs of a configuration (from 1): a figure, and charts."""
    plots: list[dict[str, Plot]] = []
    figures: list[AxesFigure | None] = []
    for name, side, group in zip(("left", "right"), two.both, two.pairs[number - 1], strict=True):
        plots.append({})
        figures.append(None)
        if group is None:
            continue
        row = side.experiment
        workload = row.workloads.filter(name=group.configuration["workload"]).first()
        if workload:
            series = read_series(row, workload, group.configuration["scale"])
            marks = assign_symbols(row)
            plots[-1] = {plot.title: plot for plot in draw_steps(series, marks, name).values()}
            figures[-1] = describe_inside(group.name, series, marks, hide)
    titles = [*plots[0], *(title for title in plots[1] if title not in plots[0])]
    paired = [PairedPlots(title, plots[0].get(title), plots[1].get(title)) for title in titles]
    for each in paired:
        if each.left and each.right:
            share_axes(each.left.figure, each.right.figure)
    names = tuple(f"{word}, {_name(side)}" for word, side in zip(SIDES, two.both, strict=True))
    described = pair_figures(
        (figures[0], figures[1]),
        (names[0], names[1]),
        f"Inside the runs: {two.configurations[number - 1].name}, {_name_both(two)}",
    )
    return PairedSteps(paired, finish(described, hide) if described else None)
