"""What other tests say about the same runs: beside a verdict, never in its place.

Student's t on logs gives the verdict. Tests by ranks, by rearranging, of trimmed means and by the
bootstrap rest on less; where they disagree, a few unusual runs weigh heavily and the points are to
be looked at. From `FEWEST` values of each on: below that ranks and arrangements cannot tell much.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from experiments.statistics import numbers, ranks
from experiments.statistics.arms import Arms
from experiments.statistics.estimates import Arm, Estimate
from experiments.statistics.normality import FEWEST, Normality, normality
from experiments.statistics.values import Interval, Pair, Sample

TRIMMED = 0.2
FEWEST_FOR_BCA = 20
"""At n = 3 its 95 % interval holds the truth in 80 of 100 cases, at n = 10 in 92."""
FEWEST_RESAMPLES, MOST_RESAMPLES = 9_999, 199_999
DRAWS = 4_000_000
"""Values drawn for one interval: the fewer runs there are, the more resamples."""
STABLE = 2
"""Standard errors by which a bound may lie off, at most half a unit of the last digit shown."""


@dataclass(frozen=True, kw_only=True)
class Companion:
    """One other test of the same data. What it does not give is None.

    `interval` is of the ratio and has the level of the verdict: 95 % unless looks were planned.
    """

    name: str
    p: float | None = None
    ratio: float | None = None
    interval: Interval | None = None
    how: str = ""
    decimals: int | None = None
    """Of the interval, where its random error allows no more; else as of any interval."""
    sees_a_difference: bool


@dataclass(frozen=True, kw_only=True)
class Robustness:
    """All companions of one pair; none where `too_few` says so."""

    baseline: str
    environment: str
    alpha: float
    p_difference: float | None
    companions: tuple[Companion, ...] = ()
    normality: tuple[Normality, ...] = ()
    too_few: str = ""

    @property
    def against(self) -> tuple[Companion, ...]:
        """Those that see a difference where Student's t does not, or the reverse."""
        return tuple(one for one in self.companions if one.sees_a_difference != self._seen)

    @property
    def sentence(self) -> str:
        """Whether they agree with the test that decides, in plain words."""
        if self.too_few:
            return self.too_few
        if not self.against:
            return "All agree with Student’s t about whether there is a difference."
        names = numbers.listed([one.name for one in self.against])
        several = len(self.against) > 1
        if self._seen:
            told = f"Student’s t sees a difference that {names} do{'es' * (not several)} not see"
        else:
            told = f"{names} see{'s' * (not several)} a difference that Student’s t does not see"
        return (
            f"They disagree: {told}. A few unusual runs may weigh heavily: look at the points "
            "before you rely on the verdict."
        )

    @property
    def _seen(self) -> bool:
        return self.p_difference is not None and self.p_difference < self.alpha


def robustness(pair: Pair, samples: Sequence[Sample]) -> Robustness:
    """The companions of a pair, from the samples that its verdict rests on."""
    arms = Arms.of(
        [sample for sample in samples if sample.environment == pair.baseline],
        [sample for sample in samples if sample.environment == pair.environment],
        paired=pair.paired,
    )
    baseline, environment = arms.values()
    about: dict[str, Any] = {
        "baseline": pair.baseline,
        "environment": pair.environment,
        "alpha": pair.alpha,
        "p_difference": pair.p_difference,
    }
    fewest = min(len(baseline), len(environment))
    if pair.ci95 is None:
        return Robustness(**about, too_few="There is no inference to check.")
    if fewest < FEWEST:
        unit = "blocks" if pair.paired else "runs of each"
        return Robustness(**about, too_few=f"Too few runs to check: from {FEWEST} {unit} on.")
    if pair.paired:
        differences = [e - b for b, e in zip(baseline, environment, strict=True)]
        groups, whose = [differences], [f"{pair.environment} / {pair.baseline}"]
        tests = [
            ("Wilcoxon’s signed ranks", ranks.signed_rank(differences)),
            ("a permutation of signs", ranks.sign_flips(differences)),
        ]
    else:
        groups, whose = [baseline, environment], [pair.baseline, pair.environment]
        tests = [
            ("Mann-Whitney", ranks.mann_whitney(baseline, environment)),
            ("a permutation of labels", ranks.permutation(baseline, environment)),
        ]
    companions = [
        Companion(name=name, p=p, how=how, sees_a_difference=p < pair.alpha)
        for name, (p, how) in tests
    ]
    companions.append(_trimmed(groups, pair.alpha))
    if fewest >= FEWEST_FOR_BCA:
        companions.append(_bca(groups, pair.alpha))
    checked = (normality(name, values) for name, values in zip(whose, groups, strict=True))
    return Robustness(**about, companions=tuple(companions), normality=tuple(filter(None, checked)))


def trimmed(groups: Sequence[Sequence[float]]) -> Estimate:
    """The mean (one group) or difference of means (two) without 20 % of the values at either end.

    Winsorised variances, degrees of freedom of what is left: Tukey and McLaughlin, Sankhya 25
    (1963), as `scipy.stats.mstats.trimmed_mean_ci`; and Yuen, Biometrika 61 (1974), as
    `scipy.stats.ttest_ind(trim=0.2, equal_var=False)`.
    """
    means, arms = zip(
        *(_trimmed_arm(values, alone=not groups[1:]) for values in groups), strict=True
    )
    return Estimate(means[-1] - (means[0] if means[1:] else 0), arms)


def _trimmed_arm(values: Sequence[float], *, alone: bool) -> tuple[float, Arm]:
    """As an arm whose variance / n is the squared standard error of the trimmed mean."""
    ordered, n = sorted(values), len(values)
    cut = int(TRIMMED * n)
    left = ordered[cut : n - cut]
    winsorised = [left[0]] * cut + left + [left[-1]] * cut
    mean = math.fsum(winsorised) / n
    squares = math.fsum((value - mean) ** 2 for value in winsorised)
    share = n / ((n - 1) * len(left)) if alone else 1 / (len(left) - 1)
    return math.fsum(left) / len(left), Arm(squares * share, len(left))


def _trimmed(groups: Sequence[Sequence[float]], alpha: float) -> Companion:
    estimate, name = trimmed(groups), "the 20 % trimmed mean"
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


def _bca(groups: Sequence[Sequence[float]], alpha: float) -> Companion:
    interval, error = bca(groups, 1 - alpha)
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


def bca(
    groups: Sequence[Sequence[float]],
    level: float,
    *,
    resamples: int | None = None,
    seed: int = ranks.SEED,
) -> tuple[Interval, float]:
    """Efron's bias-corrected and accelerated interval of the mean or the difference of means.

    With it the larger standard error of its ends that comes from drawing at random. The same seed
    each time, whatever the order of the runs. Like `scipy.stats.bootstrap(method="BCa")`.
    """
    import numpy as np  # lazily, as in estimates
    from scipy.special import ndtr, ndtri

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
            for size in ranks.chunks(resamples)
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
    # The share below an end is known to so much; what lies there tells how far the end can move.
    # The bias, too, is a share of the resamples, and moves both ends.
    doubt = np.sqrt(shares * (1 - shares) / resamples) + _from_bias(shares, resamples)
    ends = np.quantile(drawn, np.clip([shares - doubt, shares + doubt], 0, 1))
    return (float(low), float(high)), float((ends[1] - ends[0]).max() / 2)


def _from_bias(shares: Any, resamples: int) -> Any:
    """How much the random error of the bias adds to that of the share below an end."""
    import numpy as np
    from scipy.special import ndtri

    density = np.exp(-(ndtri(shares) ** 2) / 2) / math.sqrt(2 * math.pi)
    of_bias = math.sqrt(math.pi / 2 / resamples)
    return 2 * of_bias * density
