"""From an estimate to a word, and how much more data would turn "inconclusive" into one."""

import math
from collections.abc import Callable
from typing import Any

from experiments.statistics.estimates import Estimate
from experiments.statistics.values import Better, Verdict

POWER = 0.8
FEWEST = 5
"""Below this many values per arm every verdict is provisional."""
MOST = 1000
"""More repeats than this are not worth a number."""
QUANTILES = 400

DETECTABLE = "difference detectable"
BEYOND = "beyond margin"
UNRESOLVED = "size against the margin unresolved"
NOT_SLOWER = "not slower than the margin"


def decide(estimate: Estimate, margin: float, better: Better) -> tuple[Verdict, str]:
    """The verdict and its sub-type (statistics.md: 95 % CI for difference, 90 % for equivalence).

    Symmetric on the log scale, so that swapping the arms mirrors the verdict.
    """
    if estimate.flaw:
        return Verdict.NO_INFERENCE, estimate.flaw
    limit = math.log1p(margin)
    low90, high90 = estimate.log_interval(0.90)
    low95, high95 = estimate.log_interval(0.95)
    if -limit < low90 and high90 < limit:
        return Verdict.EQUIVALENT, DETECTABLE if low95 > 0 or high95 < 0 else ""
    if better == "higher":
        (low90, high90), (low95, high95) = (-high90, -low90), (-high95, -low95)
    if low95 > 0:
        return Verdict.SLOWER, BEYOND if low95 > limit else UNRESOLVED
    if high95 < 0:
        return Verdict.FASTER, BEYOND if high95 < -limit else UNRESOLVED
    return Verdict.INCONCLUSIVE, NOT_SLOWER if high90 < limit else ""


def foreseen(truth: Estimate, quantiles: int) -> tuple[Any, Callable[[Any], Any]]:
    """The standard errors that may be seen, each as likely, and P(|log-ratio seen| < distance).

    Given the standard error that will be seen, the estimate is normal; that standard error is
    integrated out over the `quantiles` of its chi-square distribution. Exact for one arm.
    """
    import numpy as np
    from scipy.special import chdtri, ndtr  # lazily, as in estimates

    mean, se, df = truth.log_ratio, truth.se, truth.df
    seen = se * np.sqrt(chdtri(df, (np.arange(quantiles) + 0.5) / quantiles) / df)
    return seen, lambda distance: ndtr((distance - mean) / se) - ndtr((-distance - mean) / se)


def chance_of_decision(estimate: Estimate, margin: float) -> float:
    """How likely an experiment like this one is to end with any verdict but INCONCLUSIVE.

    Taken as true: the estimated ratio and spread.
    """
    import numpy as np
    from scipy.special import stdtrit

    df, limit = estimate.df, math.log1p(margin)
    seen, within = foreseen(estimate, QUANTILES)
    equivalent_below = np.maximum(limit - stdtrit(df, 0.95) * seen, 0)
    different_above = stdtrit(df, 0.975) * seen
    undecided = np.maximum(within(different_above) - within(equivalent_below), 0)
    return float(1 - undecided.mean())


def more_needed(estimate: Estimate, margin: float) -> int | None:
    """How many more values per arm give an 80 % chance of a decision; None if over a thousand.

    Rests on the ratio and spread seen so far, which few runs know badly: an "about".
    """
    first = max(1, FEWEST - min(arm.n for arm in estimate.arms))

    def enough(extra: int) -> bool:
        return chance_of_decision(estimate.more(extra), margin) >= POWER

    low, high = first - 1, first
    while not enough(high):
        if high >= MOST:
            return None
        low, high = high, min(2 * high, MOST)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
