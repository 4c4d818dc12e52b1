"""Fieller's interval of a ratio of two means: exact for normal values, however much they vary.

The verdict rests on logs (the delta method, where only means are published), which is right while
the values of an environment vary by a few percent. Where they vary by tens of percent the interval
of the ratio of arithmetic means is lopsided, and has no end at all where the baseline's mean cannot
be told from 0. E. C. Fieller, Some problems in interval estimation, J. R. Stat. Soc. B 16 (1954);
degrees of freedom by Satterthwaite with the ratio that was seen put in.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.statistics.values import Interval


@dataclass(frozen=True, kw_only=True)
class MeansWithErrors:
    """Two means, the squared standard error of each and their covariance; `df` of these."""

    baseline: float
    environment: float
    baseline_variance: float
    environment_variance: float
    covariance: float = 0.0
    df: float

    @property
    def ratio(self) -> float:
        return self.environment / self.baseline

    def find_interval(self, level: float) -> Interval | None:
        """Return the two-sided interval of the ratio; None where it has no end.

        It holds each ratio r for which environment - r x baseline does not differ from 0.
        """
        squared = self._quantile(level) ** 2
        leading = self.baseline**2 - squared * self.baseline_variance
        if leading <= 0:
            return None
        half = self.baseline * self.environment - squared * self.covariance
        last = self.environment**2 - squared * self.environment_variance
        # Below 0 by rounding alone: with `leading` above 0 there are two roots, or one.
        root = math.sqrt(max(half**2 - leading * last, 0.0))
        return (half - root) / leading, (half + root) / leading

    def sees_a_difference(self, level: float) -> bool:
        """Return whether the interval leaves out 1, also where it has no end."""
        variance = self.baseline_variance + self.environment_variance - 2 * self.covariance
        distance = (self.environment - self.baseline) ** 2
        return distance > self._quantile(level) ** 2 * max(variance, 0.0)

    def _quantile(self, level: float) -> float:
        from experiments.statistics.special_functions import stdtrit  # lazily, as in estimates

        return float(stdtrit(self.df, (1 + level) / 2))


def summarise_blocks(
    baseline: Sequence[float], environment: Sequence[float]
) -> MeansWithErrors | None:
    """Return the means of one value per block and arm, blocks in the same order; from 2 on.

    None where nothing varies.
    """
    n = len(baseline)
    variances = [statistics.variance(values) / n for values in (baseline, environment)]
    return _if_it_varies(
        MeansWithErrors(
            baseline=statistics.fmean(baseline),
            environment=statistics.fmean(environment),
            baseline_variance=variances[0],
            environment_variance=variances[1],
            covariance=statistics.covariance(baseline, environment) / n,
            df=n - 1,
        )
    )


def summarise_runs(
    baseline: Sequence[float], environment: Sequence[float]
) -> MeansWithErrors | None:
    """Return the means of independent runs, at least 2 of each; None where nothing varies."""
    (mean_b, sd_b), (mean_e, sd_e) = (
        (statistics.fmean(values), statistics.stdev(values)) for values in (baseline, environment)
    )
    return summarise_published(
        (mean_b, sd_b, len(baseline)),
        (mean_e, sd_e, len(environment)),
    )


def summarise_published(
    baseline: tuple[float, float, int], environment: tuple[float, float, int]
) -> MeansWithErrors | None:
    """Return the means of independent runs from mean, standard deviation and n (2 or more) of each.

    None where nothing varies.
    """
    (mean_b, sd_b, n_b), (mean_e, sd_e, n_e) = baseline, environment
    variance_b, variance_e = sd_b**2 / n_b, sd_e**2 / n_e
    # Both parts of the variance of environment - ratio x baseline, relative to their sum.
    part_b, part_e = variance_b * (mean_e / mean_b) ** 2, variance_e
    total = part_b + part_e
    if total <= 0:
        return None
    df = 1 / ((part_b / total) ** 2 / (n_b - 1) + (part_e / total) ** 2 / (n_e - 1))
    return MeansWithErrors(
        baseline=mean_b,
        environment=mean_e,
        baseline_variance=variance_b,
        environment_variance=variance_e,
        df=df,
    )


def _if_it_varies(means: MeansWithErrors) -> MeansWithErrors | None:
    return means if means.baseline_variance + means.environment_variance > 0 else None
