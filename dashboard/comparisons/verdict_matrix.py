"""The verdict matrix: configurations in rows, environments in columns, intervals on one scale."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.comparisons.mean_texts import describe_mean
from experiments.comparisons import Comparison, Group
from experiments.statistics import Pair, Verdict, numbers
from experiments.statistics.margins import Margin
from experiments.statistics.several_metrics import Overall
from experiments.statistics.values import Interval

WIDEST = 2.0
"""Beyond this ratio (or its inverse) an interval leaves the scale; its numbers stand beside."""
ROOM = 1.5
"""How much of the scale there is at least on each side of 1, in margins."""


@dataclass(frozen=True)
class Scale:
    """The logarithmic scale of ratios that all cells share. Places are per cent of its width."""

    low: float
    high: float
    bounds: Interval
    """The ends of the margin as ratios: 0 or infinite where there is none."""

    def place(self, ratio: float) -> float:
        """Return the place of a ratio; one beyond an end is at that end."""
        log_low, log_high = math.log(self.low), math.log(self.high)
        inside = min(max(ratio, self.low), self.high)
        return round(100 * (math.log(inside) - log_low) / (log_high - log_low), 2)

    @property
    def one(self) -> float:
        """Return the place of the ratio 1."""
        return self.place(1.0)

    @property
    def has_band(self) -> bool:
        """Return whether one margin holds for all: not where an uneven one has two directions."""
        return self.bounds[0] < self.bounds[1]

    @property
    def band(self) -> float:
        """Return where the margin begins."""
        return self.place(self.bounds[0])

    @property
    def band_width(self) -> float:
        """Return how wide the margin is."""
        return round(self.place(self.bounds[1]) - self.band, 2)

    @property
    def text(self) -> str:
        """Return both ends of the scale as text: "0.97 to 1.08"."""
        return f"{numbers.fixed(self.low, 3)} to {numbers.fixed(self.high, 3)}"


@dataclass(frozen=True)
class Bar:
    """An interval on the scale of its matrix, in per cent of the width."""

    ratio: float
    thin: Interval | None
    """The interval that decides about a difference; None where nothing is inferred."""
    thick: Interval | None
    """The interval that decides about equivalence."""
    continues_left: bool = False
    continues_right: bool = False
    """Whether the thin interval leaves the scale."""


@dataclass(frozen=True)
class Cell:
    """One environment in one configuration."""

    environment: str
    mark: int
    pair: Pair | None
    bar: Bar | None = None
    size: str = ""
    """How much data there are, where that differs from most cells: "n = 6, 2 nodes"."""
    text: str = ""
    """What stands there instead of a verdict: how far it is, or why there is none."""
    overall: Overall | None = None
    """What several decisive metrics show together; `pair` is the main one's."""

    @property
    def verdict(self) -> Verdict | None:
        """Return the verdict that tints the cell: on all metrics, where several decide."""
        judged = self.overall or self.pair
        return judged.verdict if judged else None


@dataclass(frozen=True)
class Row:
    """One configuration: the baseline's value, and a cell for each other environment."""

    number: int
    """Its place among the configurations, from 1: addresses name it by this."""
    name: str
    metric: str
    """The metric, where the configurations do not share one."""
    baseline: str
    """Mean and standard deviation of the baseline, with the unit."""
    problem: str
    cells: list[Cell]

    @property
    def name_start(self) -> str:
        """Return the name up to what tells rows of one workload apart: its last part."""
        return self.name.rpartition(", ")[0] or self.name

    @property
    def name_end(self) -> str:
        """Return the rest of the name: ", 2x4"; "" where it has one part."""
        return self.name.removeprefix(self.name_start)


@dataclass(frozen=True)
class VerdictMatrix:
    """The verdicts of a comparison, ready to be shown."""

    baseline: str
    metric: str
    """The metric that all configurations share; empty where they differ."""
    environments: list[tuple[str, int]]
    """The columns beside the baseline: names, with the indices of their symbols."""
    rows: list[Row]
    scale: Scale
    size: str
    """How much data most cells have: "8 blocks on 3 nodes"."""

    @property
    def has_verdicts(self) -> bool:
        return any(cell.pair for row in self.rows for cell in row.cells)


def make_verdict_matrix(comparison: Comparison, *, planned_blocks: int = 0) -> VerdictMatrix:
    """Return the matrix of all configurations.

    Where there is no verdict yet, a cell says how many of `planned_blocks` have ended.
    """
    scale = choose_scale(comparison.pairs, comparison.margins)
    sizes = Counter(pair.size_on_nodes for pair in comparison.pairs)
    usual_size = sizes.most_common(1)[0][0] if sizes else ""
    metrics = {group.metric.label for group in comparison.groups}
    columns = [(name, comparison.marks[name]) for name in comparison.environments[1:]]

    def cell(number: int, group: Group, name: str, mark: int) -> Cell:
        overall = comparison.decisive.get((number, name))
        pair = next((pair for pair in group.pairs if pair.environment == name), None)
        if pair is None:
            progress = _describe_progress(group, name, planned_blocks)
            return Cell(name, mark, None, text=progress, overall=overall)
        size = "" if pair.size_on_nodes == usual_size else _describe_size(pair)
        return Cell(name, mark, pair, make_bar(pair, scale), size, overall=overall)

    return VerdictMatrix(
        baseline=comparison.baseline,
        metric=metrics.pop() if len(metrics) == 1 else "",
        environments=columns,
        rows=[
            Row(
                number,
                group.name or group.title,
                group.metric.label if metrics else "",
                _describe_baseline(group, comparison.baseline),
                group.problem,
                [cell(number, group, name, mark) for name, mark in columns],
            )
            for number, group in enumerate(comparison.groups, start=1)
        ],
        scale=scale,
        size=usual_size,
    )


def choose_scale(pairs: Sequence[Pair], margin: float | Margin) -> Scale:
    """Return a scale with all ratios and intervals, up to a limit, and with the margin.

    Of an uneven margin nothing is drawn where pairs have different directions. 0: no margin.
    """
    bounds, largest = None, 0.0
    if margin:
        margin = Margin.of(margin)
        largest = margin.largest
        bounds = margin.find_common_bounds({pair.better for pair in pairs})
    ratios = [ratio for pair in pairs for ratio in (pair.ratio, *(pair.ci_difference or ()))]
    inside = [min(max(ratio, 1 / WIDEST), WIDEST) for ratio in ratios if ratio is not None]
    furthest = (1 + largest) ** ROOM
    values = [value for value in (1 / furthest, furthest, *inside) if math.isfinite(value)]
    low, high = min(values), max(values)
    room = (high / low) ** 0.04
    return Scale(low / room, high * room, bounds or (1.0, 1.0))


def make_bar(pair: Pair, scale: Scale) -> Bar | None:
    """Return the ratio and the intervals of a pair on the scale; None where it has no ratio."""
    if pair.ratio is None or math.isnan(pair.ratio):
        return None
    thin, thick = _place(pair.ci_difference, scale), _place(pair.ci_equivalence, scale)
    low, high = pair.ci_difference or (pair.ratio, pair.ratio)
    return Bar(scale.place(pair.ratio), thin, thick, low < scale.low, high > scale.high)


def _place(interval: Interval | None, scale: Scale) -> Interval | None:
    """Return an interval on the scale; None where an end is not a number."""
    if interval is None or any(map(math.isnan, interval)):
        return None
    low, high = interval
    return scale.place(low), scale.place(high)


def _describe_size(pair: Pair) -> str:
    """Return how much data a pair has, as short as a stamp: "n = 6, 2 nodes"."""
    nodes = f", {pair.nodes_text}" if pair.n_nodes else ""
    if pair.paired:
        return f"n = {pair.n_blocks}{nodes}"
    return f"n = {pair.n_baseline or '–'}, {pair.n_environment or '–'}{nodes}"


def _describe_baseline(group: Group, baseline: str) -> str:
    """Return the baseline's mean and standard deviation; of its runs where nothing is compared."""
    known = [pair for pair in group.pairs if pair.baseline_mean is not None]
    if known:
        unit = "" if group.metric.unit == "1" else group.metric.unit
        pair = max(known, key=lambda pair: pair.n_baseline)
        text = numbers.spread(pair.baseline_mean, pair.baseline_sd, pair.n_baseline, unit)
    else:
        values = [sample.value for sample in group.samples if sample.environment == baseline]
        text = describe_mean(values, group.metric.unit) or numbers.MISSING
    return text.partition(" (")[0]


def _describe_progress(group: Group, environment: str, planned_blocks: int) -> str:
    """Return how many blocks of an environment have ended: "5 of 8 blocks"; "" where none has."""
    blocks = {sample.block for sample in group.samples if sample.environment == environment}
    if not planned_blocks or group.problem or group.pairs:
        return ""
    return f"{len(blocks):,} of {numbers.count(planned_blocks, 'block')}"
