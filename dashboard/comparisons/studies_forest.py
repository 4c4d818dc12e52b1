"""The forest plot of several studies: each with its own verdict and margin, and their summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dashboard.comparisons.metric_words import say_words
from dashboard.comparisons.studies import Studies, StudyRow
from dashboard.drawings.forest import ComparedPair, Forest, describe_forest
from dashboard.drawings.forest_pages import list_page_heights
from experiments.statistics import numbers
from experiments.statistics.margins import Margin

CONTAINER = 1
"""The index of the symbol and colour that the chosen environment has in all studies."""
CAPTION = (
    "Each experiment against its own baseline: ratio of geometric means, thick and thin lines the "
    "{thick} and {thin} confidence intervals. Shaded: {margin}. Verdicts are each one’s own."
)


@dataclass(frozen=True)
class StudiesFigure:
    """The forest plot as the page shows it."""

    described: Forest
    pages: list[tuple[int, int, int]]
    """The number of each page, and about how tall it is in two columns and in one."""

    themes = (("light", "for-light"), ("dark", "for-dark"))

    @property
    def caption(self) -> str:
        forest = self.described
        margin = "the margin" if forest.has_band else "the margin of each experiment"
        text = CAPTION.format(thick=forest.thick_level, thin=forest.thin_level, margin=margin)
        return text.replace(" %", "\N{NO-BREAK SPACE}%")


def make_figure(studies: Studies) -> StudiesFigure | None:
    """Return the forest plot for the page; None where no study shows anything."""
    described = describe_studies(studies)
    if described is None:
        return None
    return StudiesFigure(described, list_page_heights(described))


def describe_studies(studies: Studies) -> Forest | None:
    """Return the forest plot with a row for each study and configuration.

    Intervals are of one level in all rows, also where a study was decided at another one.
    """
    compared = [
        ComparedPair(
            _make_heading(row),
            replace(
                each.pair,
                environment=each.name,
                interim_analysis=None,
                baseline=row.baseline_label or row.baseline,
            ),
            each.pair.n_nodes,
        )
        for row in studies.shown
        for each in row.chosen
    ]
    if not compared:
        return None
    margins = {row.margins for row in studies.shown if row.margins}
    widest = max(margins, key=lambda margin: (margin.largest, margin.slower))
    baselines = dict.fromkeys(each.pair.baseline for each in compared)
    summary = studies.summary
    forest = describe_forest(
        compared,
        baseline=next(iter(baselines)) if len(baselines) == 1 else "each experiment’s baseline",
        metric=say_words(studies.metric_names.only),
        margin=widest,
        marks={studies.name: CONTAINER} | {each.pair.environment: CONTAINER for each in compared},
        pooled=[summary] if summary.ratio is not None else [],
    )
    forest = replace(forest, title=f"{studies.name} across experiments: {forest.title}")
    if len(margins) == 1:
        return forest
    return give_own_margins(
        forest, [(row.margins, each.pair.better) for row in studies.shown for each in row.chosen]
    )


def give_own_margins(forest: Forest, margins: Sequence[tuple[Margin | None, str | None]]) -> Forest:
    """Return the plot with the margin of each row behind it, in place of a common one.

    `margins` has those of the first rows, each with the better direction of its metric; later rows
    have none.
    """
    rows = [
        replace(row, margin=_cut_margin(margin, forest, better))
        for row, (margin, better) in zip(forest.rows, margins, strict=False)
    ]
    return replace(
        forest,
        band=(1.0, 1.0),
        margin_text="of each experiment",
        rows=(*rows, *forest.rows[len(rows) :]),
    )


def _cut_margin(
    margin: Margin | None, forest: Forest, better: str | None
) -> tuple[float, float] | None:
    """Return the ends of a margin as far as the axis goes."""
    if margin is None:
        return None
    low, high = margin.find_bounds("higher" if better == "higher" else "lower")
    return max(low, forest.low), min(high, forest.high)


def _make_heading(row: StudyRow) -> str:
    margin = f", margin {row.margin_text}" if row.margins else ""
    against = f"{row.environment} / {row.baseline}"
    return f"{row.number} · {row.name} · {against}{margin}"


def describe_alpha(studies: Studies) -> str:
    """Return a sentence on studies whose verdicts were decided at other levels than are drawn."""
    others = [
        f"experiment {row.number} at {numbers.level(1 - pair.alpha)}"
        for row in studies.shown
        for pair in [row.chosen[0].pair]
        if pair.interim_analysis
    ]
    if not others:
        return ""
    return f"Decided at another level than is drawn: {numbers.listed(others)}."
