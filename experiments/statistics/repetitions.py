"""Where more measuring pays: longer runs, more blocks or more nodes, by the components of variance.

Kalibera and Jones (ISMM'13): each level is repeated as often as its cost and its variance, against
those of the level above, make worth while.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from experiments.statistics import numbers
from experiments.statistics.values import Interval

BATCHES = 10
"""Parts of a run whose means are taken as independent: long ones, as steps resemble their
neighbours."""
ALIKE = 0.02
"""Intervals whose widths differ by less are called alike."""


def estimate_variance_of_mean(
    tail_means: Sequence[float], block_steps: int, steps: int, cut: int
) -> float | None:
    """Return the variance that its steps give the log of a run's mean, by batch means.

    `tail_means` has the mean of all steps from each block of `block_steps` on; the steps before
    `cut` do not count. Single steps taken as independent would make it too small: batches of a
    tenth of the run hold most of what makes steps alike. None where there are too few blocks.
    """
    first = -(-cut // block_steps)
    left = [steps - place * block_steps for place in range(first, len(tail_means))]
    sums = [mean * count for mean, count in zip(tail_means[first:], left, strict=True)]
    blocks = [(here - after) / block_steps for here, after in pairwise(sums)]
    size = len(blocks) // BATCHES
    if not size or min(blocks) <= 0:
        return None
    counted = blocks[len(blocks) - BATCHES * size :]
    batches = [math.fsum(counted[i * size : (i + 1) * size]) / size for i in range(BATCHES)]
    mean = math.fsum(batches) / BATCHES
    squares = math.fsum((batch / mean - 1) ** 2 for batch in batches)
    # The batches leave some steps out, which the run's mean has.
    part = len(counted) * block_steps / left[0]
    return part * squares / (BATCHES - 1) / BATCHES


@dataclass(frozen=True)
class Steps:
    """What the steps inside runs add to the spread of the runs' values, averaged over runs."""

    variance: float
    ci95: Interval | None
    """By Student's t over runs, which differ; None for a single run."""
    runs: int

    @property
    def sd(self) -> float:
        return math.sqrt(self.variance)

    @property
    def sd_ci95(self) -> Interval | None:
        return (math.sqrt(self.ci95[0]), math.sqrt(self.ci95[1])) if self.ci95 else None


def average_steps(variances: Sequence[float]) -> Steps | None:
    """Return the mean of the runs' own variances; None without any."""
    from experiments.statistics.special_functions import stdtrit  # lazily, as in estimates

    if not variances:
        return None
    n = len(variances)
    mean = math.fsum(variances) / n
    if n == 1:
        return Steps(mean, None, 1)
    se = math.sqrt(math.fsum((own - mean) ** 2 for own in variances) / (n - 1) / n)
    half = float(stdtrit(n - 1, 0.975)) * se
    return Steps(mean, (max(mean - half, 0.0), mean + half), n)


def find_best_counts(variances: Sequence[float], costs: Sequence[float]) -> list[float]:
    """Return how often each level but the first is best repeated within the one above.

    From the coarsest level to the finest: the variance that each adds, and what one more of it
    costs beside what it contains. Infinite where the level above adds nothing: then one of these,
    as long as can be, does as well. Kalibera and Jones's r_i = sqrt(c_above / c * T² / T²_above).
    """
    levels = list(zip(variances, costs, strict=True))
    return [
        math.sqrt(cost_above / cost * variance / above) if above else math.inf
        for (above, cost_above), (variance, cost) in pairwise(levels)
    ]


@dataclass(frozen=True, kw_only=True)
class Design:
    """What an estimate of ln(ratio) rests on, and what it costs.

    `blocks` is the number of blocks (or runs of each environment) on each node. Variances are of
    the log-ratio: `between_nodes` is None where it cannot be seen or does not count, as the nodes
    are those that the verdict speaks of.
    """

    blocks: Sequence[int]
    between_nodes: float | None
    between_blocks: float
    by_node: bool = False
    """Whether the means of nodes are what is compared."""
    has_own_nodes: bool = False
    """Whether each block has a node to itself: then `between_blocks` has what nodes add too."""
    unit: str = "block"
    """What is repeated: "block" or "run"."""
    steps_add: float | None = None
    """The part of `between_blocks` that longer runs would reduce; None where not known."""
    steps: float = 0
    """Steps of a run that count."""
    run_seconds: float = 0
    """Of a run, beside the steps that count: start, warm-up, end."""
    step_seconds: float = 0

    @property
    def width(self) -> float:
        """Return the half width of the 95 % interval, to a factor that designs share."""
        from experiments.statistics.special_functions import stdtrit  # lazily, as in estimates

        total = sum(self.blocks)
        count = len(self.blocks)
        weights = [1 / count if self.by_node else own / total for own in self.blocks]
        variance = sum(
            weight**2 * ((self.between_nodes or 0) + self.between_blocks / own)
            for weight, own in zip(weights, self.blocks, strict=True)
        )
        df = max((count if self.by_node else total) - 1, 1)
        return float(stdtrit(df, 0.975)) * math.sqrt(variance)

    @property
    def from_steps(self) -> float:
        """Return what the steps add, at most all: both parts are estimates."""
        return min(self.steps_add or 0.0, self.between_blocks)

    @property
    def knows_steps(self) -> bool:
        """Return whether longer runs can be held against more of them."""
        return self.steps_add is not None and self.steps * self.step_seconds > 0

    @property
    def times_longer(self) -> float:
        """Return how many times as many steps a run has where all takes twice the time."""
        return 2 + self.run_seconds / (self.steps * self.step_seconds)

    @property
    def best_steps(self) -> float | None:
        """Return the number of steps a run that is best for the time; None where not known.

        The level above the steps is what runs differ by beside them.
        """
        if not self.knows_steps or not self.run_seconds:
            return None
        (best,) = find_best_counts(
            (self.between_blocks - self.from_steps, self.from_steps * self.steps),
            (self.run_seconds, self.step_seconds),
        )
        return best


@dataclass(frozen=True)
class Choice:
    """One way to spend as much machine time again."""

    name: str
    how: str
    width: float
    """Of the interval, as a share of today's."""


def list_choices(design: Design) -> list[Choice]:
    """Return the ways to spend as much machine time again, the one that narrows most first."""
    today = design.width
    if not today:
        return []
    unit = design.unit
    again = replace(design, blocks=[2 * own for own in design.blocks])
    nodes = replace(design, blocks=[*design.blocks, *design.blocks])
    if design.has_own_nodes:
        choices = [Choice("more nodes", "as many nodes again, a block on each", nodes.width)]
    elif design.between_nodes is None:
        choices = [Choice(f"more {unit}s", f"as many {unit}s again", again.width)]
    else:
        choices = [
            Choice(f"more {unit}s", f"as many {unit}s again on these nodes", again.width),
            Choice("more nodes", "as many nodes again", nodes.width),
        ]
    if design.knows_steps:
        less = design.from_steps * (1 - 1 / design.times_longer)
        longer = replace(design, between_blocks=design.between_blocks - less)
        times = design.times_longer
        how = f"runs of {f'{times:.1f}' if times < 10 else f'{times:,.0f}'} times as many steps"
        choices.append(Choice("longer runs", how, longer.width))
    return sorted(
        (replace(choice, width=choice.width / today) for choice in choices),
        key=lambda choice: choice.width,
    )


def advise(design: Design) -> str:
    """Return a sentence on what narrows the ratio's interval most for as much machine time again.

    "" where the ratio shows no spread.
    """
    choices = list_choices(design)
    if not choices:
        return ""
    alike = [choice.name for choice in choices if choice.width < choices[0].width + ALIKE]
    names = numbers.listed(alike)
    widths = [f"{numbers.percent(c.width, decimals=0)} ({c.how})" for c in choices]
    return (
        f"{names[0].upper()}{names[1:]} would narrow the interval of the ratio "
        f"{'most' if len(alike) == 1 else 'alike'}: twice the machine time leaves "
        f"{' or '.join(widths)} of its width.{_steps_in_words(design)}"
    )


def _steps_in_words(design: Design) -> str:
    best = design.best_steps
    if best is None:
        return ""
    if math.isinf(best):
        return " Runs differ by no more than their steps explain: longer runs do as well as more."
    return (
        f" For a given time about {numbers.count(max(round(best), 1), 'step')} a run would be best "
        f"(Kalibera and Jones); now {design.steps:,.0f} count."
    )
