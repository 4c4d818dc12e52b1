"""Ratio estimates on the log scale, all built from one mean and its arms.

An arm is a set of independent values of which the estimate is a mean or a difference of means: the
log-ratios of the blocks (paired), or the logs of the runs of two environments (unpaired, Welch).
One arm gives Student's t with n - 1 degrees of freedom, two give Welch's with Satterthwaite's, so
every number below is that of `scipy.stats.ttest_rel`, `ttest_ind(equal_var=False)` and
statsmodels' `ttost_paired`, `ttost_ind(usevar="unequal")` on logs; the tests hold it to 1e-10.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from experiments.statistics.values import ALPHA, Better, Interval

LARGEST_LOG = 700.0
"""Ends of absurdly wide intervals stop here: finite, so that JSON can carry them."""

IDENTICAL = 1e-12
"""A standard deviation of logs below this is rounding, not spread."""

TOO_FEW = "n = 1"
"""The flaw of an estimate from a single value."""

LOST = 1e-6
"""A sum of squares that shrinks to less than this share has lost its digits."""


@dataclass(frozen=True)
class Arm:
    """The sample variance of n independent logs; n = 1 has none, written as 0.

    An arm that stands for a whole estimate has its degrees of freedom and one more, no count.
    """

    variance: float
    n: float


@dataclass(frozen=True)
class Estimate:
    """ln(environment / baseline) and the arms that its uncertainty comes from."""

    log_ratio: float
    arms: tuple[Arm, ...]

    @property
    def ratio(self) -> float:
        return _exp(self.log_ratio)

    @property
    def flaw(self) -> str:
        """Return why nothing can be inferred, or ""."""
        if min(arm.n for arm in self.arms) < 2:
            return TOO_FEW
        if all(arm.variance <= IDENTICAL**2 for arm in self.arms):
            return "identical values"
        return ""

    @property
    def se(self) -> float:
        """Return the standard error of `log_ratio`."""
        return math.sqrt(sum(arm.variance / arm.n for arm in self.arms))

    @property
    def df(self) -> float:
        """Return the Welch-Satterthwaite degrees of freedom; n - 1 for a single arm."""
        # Relative to their sum, so that tiny variances do not underflow when squared.
        squares = sum((arm.variance / arm.n / self.se**2) ** 2 / (arm.n - 1) for arm in self.arms)
        return 1 / squares

    def log_interval(self, level: float) -> Interval:
        """Return the two-sided interval of `log_ratio`; TOST looks at that of 0.90."""
        # Lazily: half a second that few pages need.
        from experiments.statistics.special_functions import stdtrit

        half = float(stdtrit(self.df, (1 + level) / 2)) * self.se
        return self.log_ratio - half, self.log_ratio + half

    def interval(self, level: float) -> Interval:
        """Return the two-sided interval of the ratio."""
        low, high = self.log_interval(level)
        return _exp(low), _exp(high)

    @property
    def p_difference(self) -> float:
        """Return the two-sided p of "the ratio is 1"."""
        return 2 * self._upper_tail(abs(self.log_ratio))

    def p_equivalence(self, margin: float) -> float:
        """Return TOST's p: the larger of "≤ 1/(1+margin)" and "≥ 1+margin"."""
        limit = math.log1p(margin)
        return max(self.compute_p_of_bounds((-limit, limit)))

    def compute_p_of_bounds(self, bounds: Interval) -> Interval:
        """Return the one-sided p of "not above the lower bound" and "not below the upper one".

        The bounds are of `log_ratio`. Both p below 5 % show that it lies between them.
        """
        low, high = bounds
        return self._upper_tail(self.log_ratio - low), self._upper_tail(high - self.log_ratio)

    @property
    def smallest_margin(self) -> float:
        """Return the smallest margin that is proved at 5 %: max(1/low, high) - 1 of the 90 % CI."""
        return self.provable_margin(ALPHA)

    def provable_margin(self, alpha: float, better: Better | None = None) -> float:
        """Return the smallest margin at which TOST has a p below `alpha`.

        With `better`, the direction of the metric, the smallest one at which "not slower" has: 0
        where even that is shown.
        """
        low, high = self.log_interval(1 - 2 * alpha)
        if better is not None:
            return max(_exp(high if better == "lower" else -low) - 1, 0.0)
        return _exp(max(-low, high)) - 1

    def more(self, extra: int) -> "Estimate":
        """Return an estimate with `extra` more values in each arm, same mean and spread."""
        return replace(self, arms=tuple(Arm(arm.variance, arm.n + extra) for arm in self.arms))

    def _upper_tail(self, distance: float) -> float:
        from experiments.statistics.special_functions import stdtr

        return float(stdtr(self.df, -distance / self.se))


def estimate_paired(baseline: Sequence[float], environment: Sequence[float]) -> Estimate:
    """Return the estimate from logs of one value per block and arm, blocks in the same order."""
    mean, arm = _arm([e - b for b, e in zip(baseline, environment, strict=True)])
    return Estimate(mean, (arm,))


def estimate_unpaired(baseline: Sequence[float], environment: Sequence[float]) -> Estimate:
    """Return the estimate from logs of independent runs; n and variances may differ."""
    (mean_b, arm_b), (mean_e, arm_e) = _arm(baseline), _arm(environment)
    return Estimate(mean_e - mean_b, (arm_b, arm_e))


def estimate_paired_without_each(
    baseline: Sequence[float], environment: Sequence[float]
) -> Iterator[Estimate]:
    """Yield `estimate_paired` without each block in turn, in their order; at least 2 blocks."""
    for mean, arm in _without_each([e - b for b, e in zip(baseline, environment, strict=True)]):
        yield Estimate(mean, (arm,))


def estimate_unpaired_without_each(
    baseline: Sequence[float], environment: Sequence[float]
) -> Iterator[Estimate]:
    """Yield `estimate_unpaired` without each run of the baseline in turn, then of the environment.

    An arm of a single run is left as it is.
    """
    (mean_b, arm_b), (mean_e, arm_e) = _arm(baseline), _arm(environment)
    for mean, arm in _without_each(baseline):
        yield Estimate(mean_e - mean, (arm, arm_e))
    for mean, arm in _without_each(environment):
        yield Estimate(mean - mean_b, (arm_b, arm))


@dataclass(frozen=True)
class Summary:
    """A published result: mean and its standard error (not the SD) over n runs."""

    mean: float
    se: float
    n: int


def estimate_from_summary(baseline: Summary, environment: Summary) -> Estimate:
    """Return the estimate by the delta method: the variance of ln(mean) is (SE / mean)²."""
    for summary in (baseline, environment):
        if not (0 < summary.mean < math.inf and 0 <= summary.se < math.inf and summary.n >= 1):
            raise ValueError(f"{summary} needs a positive mean, an SE of at least 0 and n >= 1.")
    arms = tuple(Arm((s.se / s.mean) ** 2 * s.n, s.n) for s in (baseline, environment))
    return Estimate(math.log(environment.mean / baseline.mean), arms)


def _arm(logs: Sequence[float]) -> tuple[float, Arm]:
    # fsum is exact, so the order of the runs cannot change a verdict.
    mean = math.fsum(logs) / len(logs)
    squares = math.fsum((value - mean) ** 2 for value in logs)
    return mean, Arm(squares / max(len(logs) - 1, 1), len(logs))


def _without_each(logs: Sequence[float]) -> Iterator[tuple[float, Arm]]:
    """`_arm` without each value in turn, from the sums of all: linear, not quadratic."""
    mean, whole = _arm(logs)
    rest, squares = whole.n - 1, whole.variance * (whole.n - 1)
    if not rest:
        return
    for i, value in enumerate(logs):
        apart = value - mean
        left = squares - apart**2 * whole.n / rest
        if left < LOST * squares:  # this one made nearly all of the spread
            yield _arm([*logs[:i], *logs[i + 1 :]])
        else:
            yield mean - apart / rest, Arm(left / max(rest - 1, 1), rest)


def _exp(log: float) -> float:
    return math.exp(min(max(log, -LARGEST_LOG), LARGEST_LOG))
