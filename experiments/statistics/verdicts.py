"""From an estimate to a word, and how much more data would turn "inconclusive" into one."""

import math
from collections.abc import Callable
from typing import Any

from experiments.statistics.estimates import Estimate
from experiments.statistics.values import ALPHA, Better, Verdict

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


def decide(
    estimate: Estimate, margin: float, better: Better | None, alpha: float = ALPHA
) -> tuple[Verdict, str]:
    """The verdict and its sub-type: the interval of 1 - alpha for a difference, of 1 - 2 alpha for
    equivalence (95 % and 90 %, unless several looks were planned).

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


def chance_between(
    truth: Estimate, lower: Callable[[Any], Any], upper: Callable[[Any], Any], quantiles: int
) -> float:
    """P(lower(seen) <= |log-ratio seen| < upper(seen)), where `seen` is the standard error seen.

    Given that standard error the estimate is normal; it is integrated out over the `quantiles` of
    its chi-square distribution, each as likely. Exact for one arm.
    """
    import numpy as np
    from scipy.special import chdtri, ndtr  # lazily, as in estimates

    mean, se, df = truth.log_ratio, truth.se, truth.df
    seen = se * np.sqrt(chdtri(df, (np.arange(quantiles) + 0.5) / quantiles) / df)

    def within(distance: Any) -> Any:
        return ndtr((distance - mean) / se) - ndtr((-distance - mean) / se)

    start = np.maximum(lower(seen), 0)
    return float((within(np.maximum(upper(seen), start)) - within(start)).mean())


def chance_of_decision(estimate: Estimate, margin: float, alpha: float = ALPHA) -> float:
    """How likely an experiment like this one is to end with any verdict but INCONCLUSIVE.

    Taken as true: the estimated ratio and spread.
    """
    from scipy.special import stdtrit

    one_sided, two_sided = stdtrit(estimate.df, [1 - alpha, 1 - alpha / 2])
    limit = math.log1p(margin)
    return 1 - chance_between(
        estimate, lambda seen: limit - one_sided * seen, lambda seen: two_sided * seen, QUANTILES
    )


def more_needed(estimate: Estimate, margin: float, alpha: float = ALPHA) -> int | None:
    """How many more values per arm give an 80 % chance of a decision; None if over a thousand.

    Rests on the ratio and spread seen so far, which few runs know badly: an "about".
    """
    return fewest(
        lambda extra: chance_of_decision(estimate.more(extra), margin, alpha) >= POWER,
        first=max(1, math.ceil(FEWEST - min(arm.n for arm in estimate.arms))),
    )


def fewest(enough: Callable[[int], bool], *, first: int) -> int | None:
    """The smallest number from `first` on that is enough; None if `MOST` is not.

    Whatever is more than enough is enough too.
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
