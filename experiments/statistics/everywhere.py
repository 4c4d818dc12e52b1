"""What all cells together say about one environment: an intersection, and a geometric mean."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from experiments.statistics import numbers
from experiments.statistics.estimates import Arm, Estimate
from experiments.statistics.values import Better, Interval, Pair, Verdict

EXCLUDED = " Runs were excluded after verdicts could be read; each comparison says what it was."


@dataclass(frozen=True, kw_only=True)
class Everywhere:
    """One environment against the baseline in all cells of a question.

    "Equivalent in all cells" holds if it holds in each: an intersection-union test, whose p is the
    largest and needs no correction. The geometric mean of the ratios takes the cells as
    independent; its standard error and degrees of freedom are Satterthwaite's.
    """

    baseline: str
    environment: str
    margin: float
    cells: int
    better: Better
    """Of `geometric_mean_ratio`: cells of the other direction enter it by their inverse."""
    equivalent_in_all: bool
    largest_p_equivalence: float
    geometric_mean_ratio: float
    log_ratio: float
    log_se: float
    df: float
    ci95: Interval
    ci90: Interval
    alpha: float
    """The level at which the cells were decided; its intervals, as of a `Pair`:"""
    ci_difference: Interval
    ci_equivalence: Interval
    p_difference: float
    p_equivalence: float
    excluded_after_verdict: bool = False
    """Whether any of the pairs lacks runs that were excluded when its verdict could be read."""

    @property
    def ratio(self) -> float:
        return self.geometric_mean_ratio

    @property
    def cost(self) -> float:
        """How much longer the jobs take on the mean, as a fraction."""
        return (self.ratio if self.better == "lower" else 1 / self.ratio) - 1

    @property
    def claim(self) -> str:
        """Whether equivalence is shown in all cells, in words that a page may print bold."""
        verb = "is" if self.equivalent_in_all else "is not shown to be"
        return (
            f"{self.environment} {verb} equivalent to {self.baseline} within "
            f"{numbers.margin(self.margin)} in all {self.cells} cells compared"
        )

    @property
    def evidence(self) -> str:
        """What the claim rests on, and the size of the mean difference."""
        return (
            f" (largest p of equivalence {numbers.p_value(self.largest_p_equivalence)}). Geometric "
            f"mean of the ratios {numbers.ratio(self.geometric_mean_ratio, self.ci_difference)} "
            f"({numbers.level(1 - self.alpha)} CI; p of equivalence "
            f"{numbers.p_value(self.p_equivalence)})."
            + (EXCLUDED if self.excluded_after_verdict else "")
        )

    @property
    def sentence(self) -> str:
        return self.claim + self.evidence


def everywhere(pairs: Sequence[Pair]) -> list[Everywhere]:
    """Return one for each environment with two cells or more, an inference in every one of them."""
    return list(_everywhere(pairs))


def _everywhere(pairs: Sequence[Pair]) -> Iterator[Everywhere]:
    for name in dict.fromkeys(pair.environment for pair in pairs):
        cells = [pair for pair in pairs if pair.environment == name]
        estimates = [estimate for pair in cells if (estimate := _estimate(pair))]
        if len(cells) < 2 or len(estimates) < len(cells):
            continue
        better: Better = "higher" if {pair.better for pair in cells} == {"higher"} else "lower"
        signs = [1 if pair.better == better else -1 for pair in cells]
        mean, alpha = _geometric_mean(estimates, signs), cells[0].alpha
        yield Everywhere(
            baseline=cells[0].baseline,
            environment=name,
            margin=cells[0].margin,
            cells=len(cells),
            better=better,
            equivalent_in_all=all(pair.verdict is Verdict.EQUIVALENT for pair in cells),
            largest_p_equivalence=max(pair.p_equivalence or 0.0 for pair in cells),
            geometric_mean_ratio=mean.ratio,
            log_ratio=mean.log_ratio,
            log_se=mean.se,
            df=mean.df,
            ci95=mean.interval(0.95),
            ci90=mean.interval(0.90),
            alpha=alpha,
            ci_difference=mean.interval(1 - alpha),
            ci_equivalence=mean.interval(1 - 2 * alpha),
            p_difference=mean.p_difference,
            p_equivalence=mean.p_equivalence(cells[0].margin),
            excluded_after_verdict=any(pair.before for pair in cells),
        )


def _estimate(pair: Pair) -> Estimate | None:
    """A pair as a single arm with its own degrees of freedom; None without an inference.

    Over such arms Satterthwaite's formula gives what it gives over the arms of all pairs.
    """
    if pair.ratio is None or pair.log_se is None or pair.df is None:
        return None
    return Estimate(math.log(pair.ratio), (Arm(pair.log_se**2 * (pair.df + 1), pair.df + 1),))


def _geometric_mean(estimates: Sequence[Estimate], signs: Sequence[int]) -> Estimate:
    """Of the ratios of independent cells; a sign of -1 takes a ratio's inverse."""
    cells = len(estimates)
    logs = (sign * one.log_ratio for sign, one in zip(signs, estimates, strict=True))
    return Estimate(
        math.fsum(logs) / cells,
        tuple(Arm(arm.variance / cells**2, arm.n) for one in estimates for arm in one.arms),
    )
