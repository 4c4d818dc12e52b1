"""Robustness of a verdict: other tests of the same runs, shown beside it, never in its place.

Student's t on logs gives the verdict. Tests by ranks, by rearranging, of trimmed means and by the
bootstrap assume less; where they disagree, a few unusual runs weigh heavily, and a person should
look at the points. They need `FEWEST` values of each: ranks and arrangements of fewer say little.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from experiments.statistics import numbers, ranks
from experiments.statistics.arms import Arms
from experiments.statistics.estimates import Arm, Estimate
from experiments.statistics.fieller import (
    MeansWithErrors,
    summarise_blocks,
    summarise_published,
    summarise_runs,
)
from experiments.statistics.normality import FEWEST, Normality, check_normality
from experiments.statistics.values import Interval, Pair, Sample

TRIMMED = 0.2
FEWEST_FOR_BCA = 20
"""At n = 3 the 95 % interval of BCa holds the truth in 80 of 100 cases, at n = 10 in 92."""
FEWEST_RESAMPLES, MOST_RESAMPLES = 9_999, 199_999
DRAWS = 4_000_000
"""Values drawn for one interval: with fewer runs there are more resamples."""
STABLE = 2
"""So many standard errors of a bound are at most half a unit of the last digit shown."""


@dataclass(frozen=True, kw_only=True)
class Companion:
    """One other test of the same data; numbers that it does not give are None.

    `interval` is of the ratio and has the level of the verdict: 95 % unless there are
    interim analyses.
    """

    name: str
    p: float | None = None
    ratio: float | None = None
    interval: Interval | None = None
    how: str = ""
    decimals: int | None = None
    """Decimals of the interval if its random error limits them; else None."""
    sees_a_difference: bool


@dataclass(frozen=True, kw_only=True)
class Robustness:
    """All other tests of one pair; none if `too_few` gives a reason."""

    baseline: str
    environment: str
    alpha: float
    p_difference: float | None
    companions: tuple[Companion, ...] = ()
    normality: tuple[Normality, ...] = ()
    too_few: str = ""

    @property
    def against(self) -> tuple[Companion, ...]:
        """Return the tests that see a difference where Student's t does not, or the reverse."""
        return tuple(
            companion for companion in self.companions if companion.sees_a_difference != self._seen
        )

    @property
    def sentence(self) -> str:
        """Return a sentence on whether they agree with Student's t, which decides."""
        if self.too_few:
            return self.too_few
        if not self.against:
            return "All agree with Student’s t about whether there is a difference."
        names = numbers.listed([companion.name for companion in self.against])
        several = len(self.against) > 1
        if self._seen:
            disagreement = (
                f"Student’s t sees a difference that {names} do{'es' * (not several)} not see"
            )
        else:
            disagreement = (
                f"{names} see{'s' * (not several)} a difference that Student’s t does not see"
            )
        return (
            f"They disagree: {disagreement}. A few unusual runs may weigh heavily: look at the "
            "points before you rely on the verdict."
        )

    @property
    def _seen(self) -> bool:
        return self.p_difference is not None and self.p_difference < self.alpha


def compute_robustness(pair: Pair, samples: Sequence[Sample]) -> Robustness:
    """Return the other tests of a pair, from the samples that its verdict rests on."""
    arms = Arms.of(
        [sample for sample in samples if sample.environment == pair.baseline],
        [sample for sample in samples if sample.environment == pair.environment],
        paired=pair.paired,
        estimand=pair.estimand,
    )
    baseline, environment = arms.values()
    shared_fields: dict[str, Any] = {
        "baseline": pair.baseline,
        "environment": pair.environment,
        "alpha": pair.alpha,
        "p_difference": pair.p_difference,
    }
    fewest = min(len(baseline), len(environment))
    if pair.ci95 is None:
        return Robustness(**shared_fields, too_few="There is no inference to check.")
    if fewest < FEWEST:
        unit = "blocks" if pair.paired else "runs of each"
        unit = "nodes" if pair.by_node else unit
        return Robustness(
            **shared_fields, too_few=f"Too few runs to check: from {FEWEST} {unit} on."
        )
    if pair.paired or pair.by_node:
        differences = [e - b for b, e in zip(baseline, environment, strict=True)]
        groups, whose = [differences], [f"{pair.environment} / {pair.baseline}"]
        tests = [
            ("Wilcoxon’s signed ranks", ranks.compute_signed_rank(differences)),
            ("a permutation of signs", ranks.sign_flips(differences)),
        ]
    else:
        groups, whose = [baseline, environment], [pair.baseline, pair.environment]
        tests = [
            ("Mann-Whitney", ranks.compute_mann_whitney(baseline, environment)),
            ("a permutation of labels", ranks.compute_permutation(baseline, environment)),
        ]
    companions = [
        Companion(name=name, p=p, how=how, sees_a_difference=p < pair.alpha)
        for name, (p, how) in tests
    ]
    companions.append(_trimmed(groups, pair.alpha))
    summarise = summarise_blocks if pair.paired or pair.by_node else summarise_runs
    companions += _fieller(summarise(*arms.values(float)), pair.alpha)
    if fewest >= FEWEST_FOR_BCA:
        companions.append(_bca(groups, pair.alpha))
    checked = (check_normality(name, values) for name, values in zip(whose, groups, strict=True))
    return Robustness(
        **shared_fields, companions=tuple(companions), normality=tuple(filter(None, checked))
    )


def compute_robustness_of_means(pair: Pair) -> Robustness:
    """Return the other test of published means: of their runs nothing else is known."""
    known = (pair.baseline_mean, pair.baseline_sd, pair.environment_mean, pair.environment_sd)
    shared_fields: dict[str, Any] = {
        "baseline": pair.baseline,
        "environment": pair.environment,
        "alpha": pair.alpha,
        "p_difference": pair.p_difference,
    }
    if pair.ci95 is None or None in known or min(pair.n_baseline, pair.n_environment) < 2:
        return Robustness(**shared_fields, too_few="There is no inference to check.")
    mean_b, sd_b, mean_e, sd_e = (value or 0.0 for value in known)
    means = summarise_published((mean_b, sd_b, pair.n_baseline), (mean_e, sd_e, pair.n_environment))
    return Robustness(**shared_fields, companions=tuple(_fieller(means, pair.alpha)))


def compare_trimmed_means(groups: Sequence[Sequence[float]]) -> Estimate:
    """Return the mean (one group) or difference of means (two) without 20 % at either end.

    Winsorised variances, degrees of freedom of what is left: Tukey and McLaughlin, Sankhya 25
    (1963), as `scipy.stats.mstats.trimmed_mean_ci`; and Yuen, Biometrika 61 (1974), as
    `scipy.stats.ttest_ind(trim=0.2, equal_var=False)`.
    """
    means, arms = zip(
        *(_trimmed_arm(values, alone=not groups[1:]) for values in groups), strict=True
    )
    return Estimate(means[-1] - (means[0] if means[1:] else 0), arms)


def _trimmed_arm(values: Sequence[float], *, alone: bool) -> tuple[float, Arm]:
    """Return the trimmed mean, and an arm whose variance / n is its squared standard error."""
    ordered, n = sorted(values), len(values)
    cut = int(TRIMMED * n)
    remaining = ordered[cut : n - cut]
    winsorised = [remaining[0]] * cut + remaining + [remaining[-1]] * cut
    mean = math.fsum(winsorised) / n
    squares = math.fsum((value - mean) ** 2 for value in winsorised)
    share = n / ((n - 1) * len(remaining)) if alone else 1 / (len(remaining) - 1)
    return math.fsum(remaining) / len(remaining), Arm(squares * share, len(remaining))


def _trimmed(groups: Sequence[Sequence[float]], alpha: float) -> Companion:
    estimate, name = compare_trimmed_means(groups), "the 20 % trimmed mean"
    if estimate.flaw:  # all that varied was cut off
        return Companion(
            name=name,
            ratio=estimate.ratio,
            sees_a_difference=estimate.log_ratio != 0,
            how="what is left does not vary",
        )
    return Companion(
        name=name,
        p=estimate.p_difference,
        ratio=estimate.ratio,
        interval=estimate.interval(1 - alpha),
        sees_a_difference=estimate.p_difference < alpha,
        how="winsorised variances",
    )


def _fieller(means: MeansWithErrors | None, alpha: float) -> list[Companion]:
    """Return Fieller's interval of the ratio of arithmetic means; nothing where none varies."""
    if means is None:
        return []
    interval = means.find_interval(1 - alpha)
    how = f"arithmetic means, {numbers.fixed(means.df, 1)} degrees of freedom"
    no_end = "no bounded interval: the baseline’s mean is not told from 0"
    return [
        Companion(
            name="Fieller’s interval",
            ratio=means.ratio,
            interval=interval,
            how=how if interval else no_end,
            sees_a_difference=means.sees_a_difference(1 - alpha),
        )
    ]


def _bca(groups: Sequence[Sequence[float]], alpha: float) -> Companion:
    interval, error = compute_bca(groups, 1 - alpha)
    low, high = (math.exp(end) for end in interval)
    # Twice this is the unit of the last digit that another seed would leave alone.
    unit = 2 * STABLE * error * high
    stable = math.floor(-math.log10(unit)) if unit > 0 else 6
    return Companion(
        name="the BCa bootstrap",
        interval=(low, high),
        decimals=max(min(stable, numbers.ratio_decimals((low, high))), 0),
        sees_a_difference=not low <= 1 <= high,
        how=f"{_resamples(groups):,} resamples",
    )


def _resamples(groups: Sequence[Sequence[float]]) -> int:
    affordable = DRAWS // sum(map(len, groups)) // 1000 * 1000 - 1
    return min(max(affordable, FEWEST_RESAMPLES), MOST_RESAMPLES)


def compute_bca(
    groups: Sequence[Sequence[float]],
    level: float,
    *,
    resamples: int | None = None,
    seed: int = ranks.SEED,
) -> tuple[Interval, float]:
    """Return Efron's BCa interval of the mean or the difference of means, and its random error.

    The error is the larger standard error of the two ends that comes from drawing at random. The
    result does not depend on the order of the runs. Like `scipy.stats.bootstrap(method="BCa")`.
    """
    import numpy as np  # lazily, as in estimates

    from experiments.statistics.special_functions import ndtr, ndtri

    signs = [-1, 1] if len(groups) > 1 else [1]
    arms = [np.sort(np.asarray(values, dtype=float)) for values in groups]
    resamples = resamples or _resamples(groups)
    seen = sum(sign * arm.mean() for sign, arm in zip(signs, arms, strict=True))
    rng = np.random.default_rng(seed)
    drawn = np.concatenate(
        [
            sum(
                sign * arm[rng.integers(0, len(arm), (size, len(arm)))].mean(axis=1)
                for sign, arm in zip(signs, arms, strict=True)
            )
            for size in ranks.split_into_chunks(resamples)
        ]
    )
    bias = ndtri(((drawn < seen).mean() + (drawn <= seen).mean()) / 2)
    cubes = sum(
        sign * ((arm - arm.mean()) ** 3).sum() / len(arm) ** 3
        for sign, arm in zip(signs, arms, strict=True)
    )
    squares = sum(((arm - arm.mean()) ** 2).sum() / len(arm) ** 2 for arm in arms)
    skew = cubes / (6 * squares**1.5)
    z = bias + ndtri([(1 - level) / 2, (1 + level) / 2])
    shares = ndtr(bias + z / (1 - skew * z))
    low, high = np.quantile(drawn, shares)
    # `doubt`: error of the share below an end; the values around that share show how far it moves.
    # The bias, too, is a share of the resamples, and moves both ends.
    doubt = np.sqrt(shares * (1 - shares) / resamples) + _from_bias(shares, resamples)
    ends = np.quantile(drawn, np.clip([shares - doubt, shares + doubt], 0, 1))
    return (float(low), float(high)), float((ends[1] - ends[0]).max() / 2)


def _from_bias(shares: Any, resamples: int) -> Any:
    """Return how much the random error of the bias adds to that of the share below an end."""
    import numpy as np

    from experiments.statistics.special_functions import ndtri

    density = np.exp(-(ndtri(shares) ** 2) / 2) / math.sqrt(2 * math.pi)
    of_bias = math.sqrt(math.pi / 2 / resamples)
    return 2 * of_bias * density
