"""Estimates of many data sets at once, one data set a row; their verdicts are by the same rules.

For calibration only, which decides forty thousand simulated experiments. Tests compare its verdicts
with those of `compare`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from experiments.statistics.estimates import IDENTICAL
from experiments.statistics.margins import Margin
from experiments.statistics.special_functions import stdtr, stdtrit
from experiments.statistics.values import ALPHA, Better, Verdict
from experiments.statistics.verdicts import list_rules

Array = Any  # mypy does not follow numpy's types here


@dataclass(frozen=True)
class Estimates:
    """As `Estimate`, with an array in place of every number; `flawed` where nothing is inferred."""

    log_ratio: Array
    se: Array
    df: Array
    flawed: Array

    def times(self, ratio: float) -> "Estimates":
        """Return the estimates if the environment's runs took `ratio` times as long."""
        return replace(self, log_ratio=self.log_ratio + np.log(ratio))

    def log_interval(self, level: float) -> tuple[Array, Array]:
        half = stdtrit(self.df, (1 + level) / 2) * self.se
        return self.log_ratio - half, self.log_ratio + half

    def covers(self, ratio: float) -> Array:
        """Return whether the 95 % interval holds `ratio`."""
        low, high = self.log_interval(0.95)
        return (low <= np.log(ratio)) & (np.log(ratio) <= high)

    @property
    def p_difference(self) -> Array:
        return self._p(np.abs(self.log_ratio), sides=2)

    def p_equivalence(self, margin: float | Margin) -> Array:
        """Return the p of what is to be shown within the margin, where lower is better."""
        low, high = Margin.of(margin).log_cost_bounds
        return self._p(np.minimum(self.log_ratio - low, high - self.log_ratio), sides=1)

    def verdicts(
        self, margin: float | Margin, better: Better = "lower", alpha: float = ALPHA
    ) -> Array:
        """Return the text of the `Verdict` for each data set, at the two-sided level `alpha`."""
        narrow, wide = self.log_interval(1 - 2 * alpha), self.log_interval(1 - alpha)
        if better == "higher":
            narrow, wide = (-narrow[1], -narrow[0]), (-wide[1], -wide[0])
        rules = [
            (self.flawed, Verdict.NO_INFERENCE),
            *list_rules(narrow, wide, Margin.of(margin)),
        ]
        return np.select(
            [applies for applies, _ in rules],
            [np.str_(verdict) for _, verdict in rules],
            np.str_(Verdict.INCONCLUSIVE),
        )

    def _p(self, distance: Array, *, sides: int) -> Array:
        """Return the p values; 1 where nothing is inferred."""
        return np.where(self.flawed, 1.0, sides * stdtr(self.df, -distance / self.se))


def estimate_paired(baseline: Array, environment: Array) -> Estimates:
    """Return estimates from logs, one row a data set and one column a block."""
    return _estimates((environment - baseline).mean(axis=1), environment - baseline)


def estimate_unpaired(baseline: Array, environment: Array) -> Estimates:
    """Return estimates from logs of independent runs, one row a data set; n may differ."""
    return _estimates(environment.mean(axis=1) - baseline.mean(axis=1), baseline, environment)


def estimate_by_node(
    baseline: Array, environment: Array, blocks_by_node: Sequence[int]
) -> Estimates:
    """Return estimates for the partition: columns are blocks, those of one node side by side."""
    starts = np.cumsum([0, *blocks_by_node[:-1]])
    means = np.add.reduceat(environment - baseline, starts, axis=1) / np.array(blocks_by_node)
    if len(blocks_by_node) > 1:
        return _estimates(means.mean(axis=1), means)
    nothing = np.ones(len(means))
    return Estimates(means[:, 0], nothing, nothing, nothing > 0)


def estimate_from_moments(log_ratio: Array, arms: Sequence[tuple[Array, int]]) -> Estimates:
    """Return estimates from each arm's sample variances and its n, at least 2."""
    shares = [variance / n for variance, n in arms]
    flawed = np.logical_and.reduce([variance <= IDENTICAL**2 for variance, _ in arms])
    squared = np.where(flawed, 1.0, sum(shares))
    parts = [(share / squared) ** 2 / (n - 1) for share, (_, n) in zip(shares, arms, strict=True)]
    return Estimates(log_ratio, np.sqrt(squared), 1 / np.where(flawed, 1.0, sum(parts)), flawed)


def _estimates(log_ratio: Array, *arms: Array) -> Estimates:
    return estimate_from_moments(
        log_ratio, [(arm.var(axis=1, ddof=1), arm.shape[1]) for arm in arms]
    )
