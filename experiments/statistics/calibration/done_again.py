"""Calibration of reproductions: how often studies that are done again end in a wrong verdict.

Both studies are simulated, each with its own verdict; the rules are those that pages use.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from experiments.statistics import vectorised
from experiments.statistics.calibration import truths
from experiments.statistics.calibration.bands import Band, Effort, compute_share, compute_slack
from experiments.statistics.margins import Margin
from experiments.statistics.reproductions import DECIDED, Outcome, list_rules
from experiments.statistics.values import ALPHA
from experiments.statistics.vectorised import Array, Estimates

MARGIN = Margin.of(0.02)
BLOCKS = ((5, 5), (10, 10), (5, 30))
"""Of the first study and of the new one."""
SPREADS = (0.005, 0.02)
EFFECTS = (1.0, 1.02, 1.1)
"""The true ratio in the first study: none, one at the margin, and a plain one."""


def list_bands(rng: Any, effort: Effort) -> Iterator[Band]:
    """Yield bands of both errors, and of one that looks at verdicts alone."""
    wrongly_reproduced, wrongly_not, by_verdicts = {}, {}, {}
    for spread in SPREADS:
        for blocks in BLOCKS:
            first, again = (_simulate(rng, effort, spread, count) for count in blocks)
            for effect in EFFECTS:
                case = f"SD {100 * spread:g} %, {blocks[0]} and {blocks[1]} blocks, ratio {effect}"
                at_margin = (
                    judge(first.times(effect), again.times(effect * other))
                    for other in (1.02, 1 / 1.02)
                )
                wrongly_reproduced[case] = max(
                    compute_share(outcomes == Outcome.REPRODUCED) for outcomes in at_margin
                )
                same = first.times(effect), again.times(effect)
                wrongly_not[case] = compute_share(judge(*same) == Outcome.NOT_REPRODUCED)
                verdicts = [each.verdicts(MARGIN) for each in same]
                decided = np.isin(verdicts[0], DECIDED) & np.isin(verdicts[1], DECIDED)
                by_verdicts[case] = compute_share(decided & (verdicts[0] != verdicts[1]))
    for promise, shares in (
        ("REPRODUCED although the new effect is off by the margin", wrongly_reproduced),
        ("NOT REPRODUCED although both effects are the same", wrongly_not),
    ):
        yield Band(promise, shares, high=0.055, slack=compute_slack(0.055, effort))
    yield Band("the same, by different verdicts alone", by_verdicts, high=0.055, control=True)


def _simulate(rng: Any, effort: Effort, spread: float, blocks: int) -> Estimates:
    draw = truths.normal(spread)
    return vectorised.estimate_paired(*(draw(rng, (effort.data_sets, blocks)) for _ in range(2)))


def judge(first: Estimates, again: Estimates) -> Array:
    """Return the outcome of each simulated pair of studies, as pages would show it."""
    squares = first.se**2 + again.se**2
    parts = (first.se**2 / squares) ** 2 / first.df + (again.se**2 / squares) ** 2 / again.df
    flawed = first.flawed | again.flawed
    difference = Estimates(again.log_ratio - first.log_ratio, np.sqrt(squares), 1 / parts, flawed)
    verdicts = [each.verdicts(MARGIN) for each in (first, again)]
    decided = np.isin(verdicts[0], DECIDED) & np.isin(verdicts[1], DECIDED) & ~flawed
    rules = list_rules(
        difference.log_interval(1 - 2 * ALPHA),
        difference.log_interval(1 - ALPHA),
        MARGIN.find_log_bounds("lower"),
        decided & (verdicts[0] == verdicts[1]),
        decided & (verdicts[0] != verdicts[1]),
    )
    return np.select(
        [applies & ~flawed for applies, _ in rules],
        [np.str_(outcome) for _, outcome in rules],
        np.str_(Outcome.INCONCLUSIVE),
    )
