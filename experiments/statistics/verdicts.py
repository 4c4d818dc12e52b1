"""Verdicts: the decision from an estimate, and how many more runs an "inconclusive" one needs."""

import math
from collections.abc import Callable
from typing import Any

from experiments.statistics.estimates import Estimate
from experiments.statistics.values import ALPHA, Better, Verdict

POWER = 0.8
FEWEST = 5
"""Below this many values per arm every verdict is provisional."""
MOST = 1000
"""The most repeats that are suggested."""
QUANTILES = 400
NODES = 48
"""Points of the grid for two arms, in each direction."""
TABLE = 160

DETECTABLE = "difference detectable"
BEYOND = "beyond margin"
UNRESOLVED = "size against the margin unresolved"
NOT_SLOWER = "not slower than the margin"


def decide(
    estimate: Estimate, margin: float, better: Better | None, alpha: float = ALPHA
) -> tuple[Verdict, str]:
    """Return the verdict and its sub-type.

    The interval of 1 - alpha decides about a difference, that of 1 - 2 alpha about equivalence
    (95 % and 90 %, unless several analyses were planned).

    Symmetric on the log scale, so that swapping the arms mirrors the verdict.
    """
    if estimate.flaw:
        return Verdict.NO_INFERENCE, estimate.flaw
    limit = math.log1p(margin)
    low, high = estimate.log_interval(1 - 2 * alpha)
    low_wide, high_wide = estimate.log_interval(1 - alpha)
    if -limit < low and high < limit:
        return Verdict.EQUIVALENT, DETECTABLE if low_wide > 0 or high_wide < 0 else ""
    if better == "higher":
        (low, high), (low_wide, high_wide) = (-high, -low), (-high_wide, -low_wide)
    if low_wide > 0:
        return Verdict.SLOWER, BEYOND if low_wide > limit else UNRESOLVED
    if high_wide < 0:
        return Verdict.FASTER, BEYOND if high_wide < -limit else UNRESOLVED
    return Verdict.INCONCLUSIVE, NOT_SLOWER if high < limit else ""


Bound = Callable[[Any, Any], Any]
"""A distance from 0 for each standard error and number of degrees of freedom that may be seen."""


def compute_chance_between(truth: Estimate, lower: Bound, upper: Bound, quantiles: int) -> float:
    """Return P(lower <= |log-ratio seen| < upper); standard error and df are those seen.

    Given those the estimate is normal. They are integrated out: with one arm over so many
    `quantiles` of a chi-square distribution, with two over a grid of two (Welch's test takes its
    degrees of freedom from the spreads that it sees). It agrees with simulations within 0.002.
    """
    import numpy as np
    from scipy.special import ndtr  # lazily, as in estimates

    mean, se = truth.log_ratio, truth.se
    seen, df, weights = _seen(truth, quantiles)

    def within(distance: Any) -> Any:
        return ndtr((distance - mean) / se) - ndtr((-distance - mean) / se)

    start = np.maximum(lower(seen, df), 0)
    share = within(np.maximum(upper(seen, df), start)) - within(start)
    return float((share * weights).sum())


def _seen(truth: Estimate, quantiles: int) -> tuple[Any, Any, Any]:
    """Return standard errors that may be seen, with their df and probabilities."""
    import numpy as np
    from scipy.special import chdtri

    arms = [arm for arm in truth.arms if arm.variance > 0]
    if len(arms) != 2:
        shares = (np.arange(quantiles) + 0.5) / quantiles
        seen = truth.se * np.sqrt(chdtri(truth.df, shares) / truth.df)
        return seen, np.full(quantiles, truth.df), np.full(quantiles, 1 / quantiles)
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    # Denser towards both ends: the spread of a few runs may be far too small or too large.
    shares = (1 - np.cos(np.pi * (nodes + 1) / 2)) / 2
    weights = weights * np.sin(np.pi * (nodes + 1) / 2) * np.pi / 4
    first, second = (arm.variance / arm.n * chdtri(arm.n - 1, shares) / (arm.n - 1) for arm in arms)
    total = first[:, None] + second[None, :]
    squares = first[:, None] ** 2 / (arms[0].n - 1) + second[None, :] ** 2 / (arms[1].n - 1)
    return np.sqrt(total), total**2 / squares, np.outer(weights, weights)


def compute_chance_of_decision(estimate: Estimate, margin: float, alpha: float = ALPHA) -> float:
    """Return the chance that an experiment like this one ends with any verdict but INCONCLUSIVE.

    The estimated ratio and spread are taken as true.
    """
    limit = math.log1p(margin)
    return 1 - compute_chance_between(
        estimate,
        lambda seen, df: limit - compute_quantiles(df, 1 - alpha) * seen,
        lambda seen, df: compute_quantiles(df, 1 - alpha / 2) * seen,
        QUANTILES,
    )


def compute_quantiles(df: Any, share: float) -> Any:
    """Return the quantile of Student's t for each of many degrees of freedom.

    For a grid it is interpolated in 1 / df, to four digits, because computing it takes too long.
    """
    import numpy as np
    from scipy.special import stdtrit

    if df.ndim == 1:  # they are all the same
        return stdtrit(df[0], share)
    inverse = np.linspace(1 / df.max(), 1 / df.min(), TABLE)
    return np.interp(1 / df, inverse, stdtrit(1 / inverse, share))


def count_more_needed(estimate: Estimate, margin: float, alpha: float = ALPHA) -> int | None:
    """Return how many more values per arm give a decision in 80 %; None if over a thousand.

    A rough number: it rests on the ratio and spread so far, which few runs estimate badly.
    """
    return find_fewest(
        lambda extra: compute_chance_of_decision(estimate.more(extra), margin, alpha) >= POWER,
        first=max(1, math.ceil(FEWEST - min(arm.n for arm in estimate.arms))),
    )


def find_fewest(enough: Callable[[int], bool], *, first: int) -> int | None:
    """Return the smallest sufficient number from `first` on; None if `MOST` is not sufficient.

    `enough` has to hold for all larger numbers, too.
    """
    low, high = first - 1, first
    while not enough(high):
        if high >= MOST:
            return None
        low, high = high, min(2 * high, MOST)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
