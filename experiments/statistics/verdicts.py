"""Verdicts: the decision from an estimate, and how many more runs an "inconclusive" one needs."""

import math
from collections.abc import Callable
from typing import Any

from experiments.statistics.estimates import Estimate
from experiments.statistics.margins import Goal, Margin
from experiments.statistics.values import ALPHA, Better, Interval, Verdict

POWER = 0.8
TAIL = 0.1
"""What the interval of the spread leaves out at each end."""
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
DETECTED_FASTER = "faster"
PROVED = {Goal.EQUIVALENCE: Verdict.EQUIVALENT, Goal.NOT_SLOWER: Verdict.NOT_SLOWER}
"""The verdict where what was to be shown is shown."""


def list_rules(
    narrow: tuple[Any, Any], wide: tuple[Any, Any], margin: Margin
) -> list[tuple[Any, Verdict]]:
    """Return whether each verdict applies, in order: the first one counts, else INCONCLUSIVE.

    Both intervals are of ln(cost), where more is slower: numbers, or arrays for many at once.
    """
    (low, high), (low_wide, high_wide) = narrow, wide
    lowest, highest = margin.log_cost_bounds
    return [
        ((lowest < low) & (high < highest), PROVED[margin.goal]),
        (low_wide > 0, Verdict.SLOWER),
        (high_wide < 0, Verdict.FASTER),
    ]


def decide(
    estimate: Estimate, margin: float | Margin, better: Better | None, alpha: float = ALPHA
) -> tuple[Verdict, str]:
    """Return the verdict and its sub-type.

    The interval of 1 - alpha decides about a difference, that of 1 - 2 alpha about equivalence
    (95 % and 90 %, unless several analyses were planned). Of "not slower" one end of it decides.

    Symmetric on the log scale, so that swapping the arms mirrors the verdict.
    """
    if estimate.flaw:
        return Verdict.NO_INFERENCE, estimate.flaw
    margin = Margin.of(margin)
    narrow, wide = estimate.log_interval(1 - 2 * alpha), estimate.log_interval(1 - alpha)
    if better == "higher":
        narrow, wide = _mirror(narrow), _mirror(wide)
    rules = list_rules(narrow, wide, margin)
    verdict = next((verdict for applies, verdict in rules if applies), Verdict.INCONCLUSIVE)
    lowest, highest = margin.log_cost_bounds
    if verdict is Verdict.SLOWER:
        return verdict, BEYOND if wide[0] > highest else UNRESOLVED
    if verdict is Verdict.FASTER:
        return verdict, BEYOND if wide[1] < lowest else UNRESOLVED
    if verdict is Verdict.INCONCLUSIVE:
        return verdict, NOT_SLOWER if narrow[1] < highest else ""
    if verdict is Verdict.NOT_SLOWER and wide[1] < 0:
        return verdict, DETECTED_FASTER
    return verdict, DETECTABLE if wide[0] > 0 or wide[1] < 0 else ""


def _mirror(interval: Interval) -> Interval:
    low, high = interval
    return -high, -low


Range = Callable[[Any, Any], tuple[Any, Any]]
"""Both ends of a range for each standard error and number of degrees of freedom seen."""


def compute_chance_within(
    truth: Estimate, within: Range, quantiles: int, *, but_not: Range | None = None
) -> float:
    """Return P(the log-ratio seen lies `within` a range, and not within another one).

    The ranges depend on the standard error and df that are seen. Given those the estimate is
    normal. They are integrated out: with one arm over so many `quantiles` of a chi-square
    distribution, with two over a grid of two (Welch's test takes its degrees of freedom from the
    spreads that it sees). It agrees with simulations within 0.002.
    """
    import numpy as np

    from experiments.statistics.special_functions import ndtr  # lazily, as in estimates

    mean, se = truth.log_ratio, truth.se
    seen, df, weights = _seen(truth, quantiles)

    def probability(low: Any, high: Any) -> Any:
        return np.maximum(ndtr((high - mean) / se) - ndtr((low - mean) / se), 0)

    low, high = within(seen, df)
    share = probability(low, high)
    if but_not is not None:
        start, end = but_not(seen, df)
        share = share - probability(np.maximum(low, start), np.minimum(high, end))
    return float((share * weights).sum())


def find_proving_range(bounds: Interval, alpha: float) -> Range:
    """Return where a log-ratio has to be for its interval of 1 - 2 alpha to lie in `bounds`."""
    low, high = bounds

    def find(seen: Any, df: Any) -> tuple[Any, Any]:
        half = compute_quantiles(df, 1 - alpha) * seen
        return low + half, high - half

    return find


def find_undetected_range(alpha: float) -> Range:
    """Return where a log-ratio has to be for a two-sided test not to see a difference."""

    def find(seen: Any, df: Any) -> tuple[Any, Any]:
        half = compute_quantiles(df, 1 - alpha / 2) * seen
        return -half, half

    return find


def _seen(truth: Estimate, quantiles: int) -> tuple[Any, Any, Any]:
    """Return standard errors that may be seen, with their df and probabilities."""
    import numpy as np

    from experiments.statistics.special_functions import chdtri

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


def compute_chance_of_decision(
    estimate: Estimate,
    margin: float | Margin,
    alpha: float = ALPHA,
    better: Better | None = None,
) -> float:
    """Return the chance that an experiment like this one ends with any verdict but INCONCLUSIVE.

    The estimated ratio and spread are taken as true.
    """
    bounds = Margin.of(margin).find_log_bounds(better)
    return 1 - compute_chance_within(
        estimate,
        find_undetected_range(alpha),
        QUANTILES,
        but_not=find_proving_range(bounds, alpha),
    )


def compute_quantiles(df: Any, share: float) -> Any:
    """Return the quantile of Student's t for each of many degrees of freedom.

    For a grid it is interpolated in 1 / df, to four digits, because computing it takes too long.
    """
    import numpy as np

    from experiments.statistics.special_functions import stdtrit

    if df.ndim == 1:  # they are all the same
        return stdtrit(df[0], share)
    inverse = np.linspace(1 / df.max(), 1 / df.min(), TABLE)
    return np.interp(1 / df, inverse, stdtrit(1 / inverse, share))


def count_more_needed(
    estimate: Estimate,
    margin: float | Margin,
    alpha: float = ALPHA,
    better: Better | None = None,
) -> int | None:
    """Return how many more values per arm give a decision in 80 %; None if over a thousand.

    A rough number: it rests on the ratio and spread so far, which few runs estimate badly.
    """
    return find_fewest(
        lambda extra: (
            compute_chance_of_decision(estimate.more(extra), margin, alpha, better) >= POWER
        ),
        first=max(1, math.ceil(FEWEST - min(arm.n for arm in estimate.arms))),
    )


def find_likely_range(estimate: Estimate, more: int) -> tuple[int, int]:
    """Return between what `count_more_needed` lies, by the 80 % interval of the spread.

    How many values are needed in all grows with their variance, which is that of a chi-square
    distribution, of two environments with Satterthwaite's degrees of freedom. The ratio is taken as
    it is. Within a few per cent of counting anew with the variance of each end.
    """
    from experiments.statistics.special_functions import chdtri

    n = min(arm.n for arm in estimate.arms)
    ends = [estimate.df / float(chdtri(estimate.df, tail)) for tail in (TAIL, 1 - TAIL)]
    low, high = (max(math.ceil(factor * (n + more) - n), 1) for factor in ends)
    return low, high


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
