"""The forest plot of a comparison as a figure that a journal takes: its data, files and table."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from dashboard.access.hidden_names import find_hiding
from dashboard.comparisons.figures import Plot
from dashboard.comparisons.metric_words import say_words
from dashboard.drawings.forest import ComparedPair, Forest, describe_forest
from dashboard.drawings.forest_pages import estimate_heights, list_page_heights
from dashboard.typed_requests import OpenRequest
from experiments.comparisons import Comparison, Group
from experiments.comparisons.kept_rows import read_column
from experiments.statistics import Pair
from experiments.statistics.arms import Arms

ENDINGS = ("pdf", "svg", "png")
WIDTHS = {180: "Two columns, 180 mm", 88: "One column, 88 mm"}
TALL = 150
"""Millimetres: about a screen where a page is as wide as it gets."""
THEMES = {"light": "", "grey": ", grey", "dark": ", dark"}
CAPTION = (
    "Symbols: ratio of geometric means. Thick and thin lines: {thick} and {thin} confidence "
    "intervals."
)
SHADED = " Shaded: margin {margin}."
NOT_SHADED = " Margin: {margin}, since it ends at other ratios where higher is better."
BLOCKS = " Small symbols: each block, the first one highest."
NODES = " Small symbols: the mean of each node, in the order of their names."
SETS = (
    " Small symbols: the mean of each set of nodes that jobs shared, in the order of their names."
)
DECIDED = (
    " {proved}: the {thick} interval lies inside the margin. {detected}: the {thin} interval is "
    "clear of 1."
)


@dataclass(frozen=True)
class PrintedForest:
    """The forest plot as it is printed, with the chart that can be zoomed beside it."""

    plot: Plot
    described: Forest
    files: dict[str, str]
    """The address of each kind of file."""
    not_pooled: tuple[str, ...] = ()
    """Sentences on environments without a diamond: why a mean would not be honest."""

    themes = (("light", "for-light"), ("dark", "for-dark"))
    """For the page, with their classes: of the two pictures the one that is shown is fetched."""

    @cached_property
    def pages(self) -> list[tuple[int, int, int]]:
        """Return the number of each page, and about how tall it is in two columns and in one.

        Browsers keep that much room for a picture until they have it. 0: a width has no such page.
        """
        return list_page_heights(self.described)

    @property
    def wide_pages(self) -> int:
        """Return how many pages it has in two columns."""
        return sum(wide > 0 for _, wide, _ in self.pages)

    @property
    def narrow_pages(self) -> int:
        """Return how many pages it has in one column."""
        return sum(narrow > 0 for _, _, narrow in self.pages)

    @property
    def is_tall(self) -> bool:
        """Return whether it is taller than a screen, so that pages fold it."""
        return sum(wide for _, wide, _ in self.pages) > TALL

    @property
    def picture(self) -> str:
        """Return the address of its pictures, up to their width, theme and page."""
        return f"{self.files['svg']}?"

    @property
    def caption(self) -> str:
        """Return what the lines stand for."""
        return write_caption(self.described)

    @property
    def exports(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """Return each width and theme with the addresses of its files.

        A figure of several pages is whole in a PDF only; each page has links of its own.
        """
        counts = {180: self.wide_pages, 88: self.narrow_pages}
        return [
            (
                f"{width_label}{theme_label}",
                [
                    (ending.upper(), f"{address}?width={width}&theme={theme}&download")
                    for ending, address in self.files.items()
                    if ending == "pdf" or counts[width] == 1
                ],
            )
            for theme, theme_label in THEMES.items()
            for width, width_label in WIDTHS.items()
        ]


def write_caption(forest: Forest) -> str:
    """Return what the lines of a forest plot stand for."""
    has_intervals = any(row.thin for row in forest.rows)
    points = ""
    if any(row.block_ratios for row in forest.rows):
        of_nodes = SETS if any(row.has_ratios_of_sets for row in forest.rows) else NODES
        points = of_nodes if any(row.has_ratios_of_nodes for row in forest.rows) else BLOCKS
    shading = SHADED if forest.has_band else NOT_SHADED
    text = (CAPTION + shading + points + DECIDED * has_intervals).format(
        thick=forest.thick_level,
        thin=forest.thin_level,
        margin=forest.margin_text,
        proved=forest.proved.capitalize(),
        detected=", ".join(forest.detected).capitalize(),
    )
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def describe_comparison(comparison: Comparison, hide: Callable[[str], str] = str) -> Forest | None:
    """Return the forest plot of all pairs, or None where nothing is compared.

    `hide` returns a text without the names that this reader may not see.
    """
    metrics = {say_metric(group) for group in comparison.groups if group.pairs}
    # Blocks are drawn of a pair that is alone in its figure, and take long to list of many runs.
    is_alone = len(comparison.pairs) == 1
    compared = [
        ComparedPair(
            _make_heading(group, len(metrics) > 1),
            pair,
            len(nodes[pair.baseline] | nodes[pair.environment]),
            list_block_ratios(group, pair) if is_alone else (),
        )
        for group in comparison.groups
        for nodes in [_list_nodes(group)]
        for pair in group.pairs
    ]
    if not compared:
        return None
    return describe_forest(
        compared,
        baseline=comparison.baseline,
        metric=metrics.pop() if len(metrics) == 1 else "",
        margin=comparison.margins,
        marks=comparison.marks,
        pooled=comparison.pooled,
        hide=hide,
    )


def list_block_ratios(group: Group, pair: Pair) -> tuple[float, ...]:
    """Return the ratio of each block of a pair, in the order in which blocks began.

    Of a verdict on a partition that of each node. Empty unless they are the very values of which
    the pair's ratio is the mean: not where an interim analysis has judged fewer, for example.
    """
    if pair.by_node:
        return _list_node_ratios(group, pair)
    logs: dict[str, dict[str, list[float]]] = {}
    starts: dict[str, float] = {}
    for sample in group.samples:
        if sample.block and sample.value > 0:
            arms = logs.setdefault(sample.block, {})
            arms.setdefault(sample.environment, []).append(math.log(sample.value))
            started = sample.started if sample.started is not None else math.inf
            starts[sample.block] = min(starts.get(sample.block, math.inf), started)
    whole = [
        block for block, arms in logs.items() if {pair.baseline, pair.environment} <= set(arms)
    ]
    if not pair.paired or len(whole) != pair.n_blocks:
        return ()
    effects = {
        block: fmean(logs[block][pair.environment]) - fmean(logs[block][pair.baseline])
        for block in whole
    }
    return tuple(math.exp(effects[block]) for block in sorted(whole, key=lambda b: (starts[b], b)))


def _list_node_ratios(group: Group, pair: Pair) -> tuple[float, ...]:
    """Return the mean ratio of each node, in the order of their names."""
    samples = [sample for sample in group.samples if sample.value > 0]
    arms = Arms.of(
        [sample for sample in samples if sample.environment == pair.baseline],
        [sample for sample in samples if sample.environment == pair.environment],
        paired=pair.paired,
        estimand=pair.estimand,
    )
    if arms.nodes != list(pair.nodes) or (pair.paired and len(arms.blocks) != pair.n_blocks):
        return ()
    both = zip(*arms.values(), strict=True)
    return tuple(math.exp(environment - baseline) for baseline, environment in both)


def describe_for(comparison: Comparison, request: OpenRequest) -> Forest | None:
    """Return the forest plot as it is drawn for this reader, so that both have the same pages."""
    return describe_comparison(comparison, find_hiding(request.user))


def count_pages(comparison: Comparison, request: OpenRequest) -> int:
    """Return how many pages the forest plot has in two columns; 0 where nothing is compared."""
    forest = describe_for(comparison, request)
    return len(estimate_heights(forest, 180)) if forest else 0


def say_metric(group: Group) -> str:
    """Return the name of the group's metric in words, with its unit where it has one."""
    return say_words(group.metric.label or group.metric.name)


def _make_heading(group: Group, has_other_metrics: bool) -> str:
    parts = [group.name, say_metric(group) if has_other_metrics else ""]
    return " · ".join(filter(None, parts)) or group.title


def _list_nodes(group: Group) -> defaultdict[str, set[str]]:
    """Return the nodes on which the runs of each environment were."""
    nodes: defaultdict[str, set[str]] = defaultdict(set)
    if group.pairs:
        environments = read_column(group.samples, "environment")
        nodes_of_runs = read_column(group.samples, "node")
        for environment, node in {*zip(environments, nodes_of_runs, strict=True)}:
            if node:
                nodes[environment].add(node)
        sets = read_column(group.samples, "nodes")
        for environment, names in {*zip(environments, map(tuple, sets), strict=True)}:
            nodes[environment].update(names)
    return nodes
