"""Planning: the number of repeats that an experiment needs, and the power of a planned number.

An experiment that is still to come is an `Estimate` too: the true log-ratio, and arms with the
variance that is expected. `sd` is of logs: paired, of the log-ratios of blocks; unpaired, of the
runs of one environment. Up to 10 % it is what everybody calls the coefficient of variation (CV):
exactly, sd² = ln(1 + CV²).
"""

import math
from functools import lru_cache

from experiments.statistics.estimates import LARGEST_LOG, Arm, Estimate
from experiments.statistics.margins import Goal, Margin
from experiments.statistics.values import ALPHA, Interval
from experiments.statistics.verdicts import (
    POWER,
    compute_chance_within,
    find_fewest,
    find_proving_range,
    find_undetected_range,
)

FEWEST_TO_INFER = 2
QUANTILES = 2000


def expect_estimate(sd: float, repeats: int, *, paired: bool, ratio: float = 1.0) -> Estimate:
    """Return the estimate expected of `repeats` blocks, or runs of each of two environments."""
    if not 0 < sd < math.inf:
        raise ValueError(f"A plan needs a positive standard deviation, not {sd}.")
    if repeats < FEWEST_TO_INFER:
        raise ValueError(f"{repeats} repeat shows no spread.")
    return Estimate(math.log(ratio), (Arm(sd**2, repeats),) * (1 if paired else 2))


def compute_equivalence_power(
    truth: Estimate, margin: float | Margin, *, alpha: float = ALPHA
) -> float:
    """Return the chance that TOST proves equivalence within `margin` (1 - alpha, one-sided).

    Where the goal is "not slower", the chance that this is shown. More than 1 is slower.
    """
    return _chance_to_prove(truth, Margin.of(margin).log_cost_bounds, alpha)


def compute_difference_power(truth: Estimate) -> float:
    """Return the chance that a two-sided test at 5 % sees the difference that is there.

    Paired that is the noncentral t distribution, whose own function in scipy.special gives nan far
    out; unpaired it is the power of Welch's test.
    """
    return 1 - compute_chance_within(truth, find_undetected_range(ALPHA), QUANTILES)


def _chance_to_prove(truth: Estimate, bounds: Interval, alpha: float) -> float:
    """Return the chance that the 1 - 2 alpha interval is within the bounds."""
    return compute_chance_within(truth, find_proving_range(bounds, alpha), QUANTILES)


@lru_cache(maxsize=4096)  # a form asks again with every key that is typed
def count_repeats_needed(
    sd: float, margin: float | Margin, *, paired: bool, alpha: float = ALPHA
) -> int | None:
    """Return the fewest repeats that prove equivalence, or "not slower", if the ratio is 1.

    With probability `POWER`; None if a thousand are too few. This is arithmetic: fewer than
    `verdicts.FEWEST` leave a verdict provisional, whatever they prove.
    """
    return find_fewest(
        lambda n: (
            compute_equivalence_power(expect_estimate(sd, n, paired=paired), margin, alpha=alpha)
            >= POWER
        ),
        first=FEWEST_TO_INFER,
    )


@lru_cache(maxsize=4096)
def count_repeats_for_all(
    parts: tuple[tuple[float, Margin], ...], *, paired: bool, alpha: float = ALPHA
) -> int | None:
    """Return the fewest repeats that prove all metrics at once, if all ratios are 1.

    `parts` are the standard deviation and the margin of each. With probability `POWER` at least,
    however they are correlated: the chance that any is missed is at most the sum of the chances of
    each (Boole's inequality). None if a thousand are too few.
    """

    def is_enough(n: int) -> bool:
        misses = (
            1
            - compute_equivalence_power(expect_estimate(sd, n, paired=paired), margin, alpha=alpha)
            for sd, margin in parts
        )
        return math.fsum(misses) <= 1 - POWER

    return find_fewest(is_enough, first=FEWEST_TO_INFER)


@lru_cache(maxsize=4096)
def count_repeats_to_detect(sd: float, difference: float, *, paired: bool) -> int | None:
    """Return the fewest repeats that find a ratio of 1 + `difference`; None if over a thousand."""
    return find_fewest(
        lambda n: (
            compute_difference_power(expect_estimate(sd, n, paired=paired, ratio=1 + difference))
            >= POWER
        ),
        first=FEWEST_TO_INFER,
    )


@lru_cache(maxsize=4096)
def compute_smallest_margin(
    sd: float, repeats: int, *, paired: bool, goal: Goal = Goal.EQUIVALENCE
) -> float:
    """Return the smallest margin that `repeats` prove if the ratio is truly 1."""
    truth = expect_estimate(sd, repeats, paired=paired)

    def enough(limit: float) -> bool:
        low = -math.inf if goal is Goal.NOT_SLOWER else -limit
        return _chance_to_prove(truth, (low, limit), ALPHA) >= POWER

    low, high = 0.0, truth.se
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return math.expm1(min(high, LARGEST_LOG))


def compute_upper_bound_factor(df: float) -> float:
    """Return the factor from an SD to its 80 % upper bound: 2.12 after 3 runs."""
    from experiments.statistics.special_functions import chdtri

    return math.sqrt(df / float(chdtri(df, 0.8)))
