"""Every figure of a comparison, in the order of the page: what is drawn for which numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dashboard.charts import Figure, Row, equivalence, forest, run_order, slopes, strip
from experiments.comparisons import Comparison, Group
from experiments.statistics import numbers

FOREST = (
    "Thin line: {} interval. Thick line: {} interval. Shaded: the margin; equivalent where the "
    "thick line lies inside it."
)
STRIP = "Every run; the tick is the median."
CLICK = " A click on a point opens its run."
SLOPES = (
    "Each line is a block, from the baseline to the environment: parallel lines are one effect."
)
ORDER = "The same runs in the order in which they began: drift would show here."
EQUIVALENCE = (
    "What another margin would have said: each curve crosses {} at the smallest margin that "
    "these runs prove, which stands beside its name."
)


@dataclass(frozen=True)
class Plot:
    """A figure with what it says; `id` names its element and its files."""

    id: str
    figure: Figure
    words: str
    title: str = ""
    """The heading of a plot that has a panel of its own."""
    wide: bool = False
    """Whether it may scroll inside its box rather than shrink."""


@dataclass(frozen=True)
class Section:
    """The plots of one group."""

    group: Group
    plots: list[Plot]


def overall(comparison: Comparison) -> list[Plot]:
    """Return the plots that look at all groups together, each for a panel of its own."""
    return list(_overall(comparison))


def sections(comparison: Comparison) -> list[Section]:
    """Return the plots of each group."""
    return [
        Section(group, list(_of_group(comparison, group, index)))
        for index, group in enumerate(comparison.groups)
    ]


def _overall(comparison: Comparison) -> Iterator[Plot]:
    rows = [Row(group.title, pair) for group in comparison.groups for pair in group.pairs]
    if rows:
        figure = forest(rows, margin=comparison.margin, marks=comparison.marks)
        words = FOREST.format(*comparison.levels)
        yield Plot("forest", figure, words, f"Ratio to {comparison.baseline}", wide=True)


def _of_group(comparison: Comparison, group: Group, index: int) -> Iterator[Plot]:
    marks = comparison.marks
    words: dict[str, Any] = {
        "unit": group.metric.unit,
        "metric": group.metric.label.lower(),
        "marks": marks,
    }
    # A published figure for each environment is no distribution; a run has a page to be opened.
    several = len(group.samples) > len({sample.environment for sample in group.samples})
    if several or (group.samples and comparison.runs_have_pages):
        said = STRIP + CLICK * comparison.runs_have_pages
        yield Plot(f"strip-{index}", strip(group.samples, **words), said)
    if any(pair.n_blocks for pair in group.pairs):
        yield Plot(f"slopes-{index}", slopes(group.samples, **words), SLOPES)
    if any(sample.started is not None for sample in group.samples):
        yield Plot(f"order-{index}", run_order(group.samples, **words), ORDER)
    if any(pair.smallest_margin is not None for pair in group.pairs):
        level = numbers.level(comparison.alpha)
        curve = equivalence(group.pairs, margin=comparison.margin, marks=marks)
        yield Plot(f"equivalence-{index}", curve, EQUIVALENCE.format(level))
