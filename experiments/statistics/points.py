"""Accuracies: compared by their difference in percentage points, not by a ratio.

A ratio of accuracies says something else than a ratio of error rates of the same runs; their
difference says the same. The unit is the run, here one training from one seed.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from experiments.statistics import numbers
from experiments.statistics.arms import Arms
from experiments.statistics.values import Interval, Sample

LARGEST = {"1": 1.0, "%": 100.0}
"""What "all right" is in the units in which accuracies are reported."""


@dataclass(frozen=True, kw_only=True)
class PointsPair:
    """One environment and the baseline; means, SDs and all that follows in percentage points.

    `difference` is environment - baseline. Whatever cannot be computed is None, and `flaw` says
    why: a single run ("n = 1") or no spread at all ("identical values").
    """

    baseline: str
    environment: str
    paired: bool
    n_blocks: int = 0
    n_baseline: int = 0
    n_environment: int = 0
    baseline_mean: float | None = None
    baseline_sd: float | None = None
    environment_mean: float | None = None
    environment_sd: float | None = None
    difference: float | None = None
    se: float | None = None
    df: float | None = None
    ci95: Interval | None = None
    ci90: Interval | None = None
    p_difference: float | None = None
    smallest_margin: float | None = None
    """The smallest margin in points that these runs prove at 5 %: the farther end of `ci90`."""
    flaw: str = ""
    dropped_blocks: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Return the result as a sentence."""
        if self.difference is None:
            return f"There is no run of {self.environment} to compare with one of {self.baseline}."
        differs = f"{self.environment} differs by {numbers.signed(self.difference)} points"
        if self.ci95 is None or self.smallest_margin is None:
            what = "a single run" if self.flaw == "n = 1" else "runs with identical values"
            return f"{differs}; no inference: {what} cannot show how much runs vary."
        low, high = map(numbers.signed, self.ci95)
        proved = numbers.fixed(math.ceil(self.smallest_margin * 100) / 100, 2)
        return (
            f"{differs} (95 % CI {low} to {high}); "
            f"the smallest margin that these runs prove is {proved} points."
        )


def compare_points(
    samples: Sequence[Sample],
    *,
    baseline: str,
    environments: Sequence[str],
    paired: bool,
    unit: str,
) -> list[PointsPair]:
    """Compare accuracies in `unit`: "1" (0 to 1) or "%" (0 to 100).

    Paired: Student's t of the differences within blocks; else Welch's, both on the scale of the
    values themselves. The baseline is skipped where `environments` holds it. ValueError names the
    run whose value is no accuracy.
    """
    largest = LARGEST.get(unit)
    if largest is None:
        raise ValueError(f"An accuracy is a share or in per cent, not in {unit!r}.")
    for sample in samples:
        if not 0 <= sample.value <= largest:
            raise ValueError(
                f"Run {sample.run} ({sample.environment}, block {sample.block}) has the accuracy "
                f"{sample.value}; it is to be between 0 and {largest:g}."
            )
    scale = 100 / largest
    return [
        _pair(
            Arms.of(
                [sample for sample in samples if sample.environment == baseline],
                [sample for sample in samples if sample.environment == environment],
                paired=paired,
            ),
            baseline,
            environment,
            scale,
        )
        for environment in environments
        if environment != baseline
    ]


def _pair(arms: Arms, baseline: str, environment: str, scale: float) -> PointsPair:
    estimate = arms.estimate(lambda value: scale * value)
    points_b, points_e = (
        [scale * sample.value for sample in arm] for arm in (arms.baseline, arms.environment)
    )
    known: dict[str, Any] = {
        "baseline": baseline,
        "environment": environment,
        "paired": arms.paired,
        "n_blocks": len(arms.blocks),
        "n_baseline": len(points_b),
        "n_environment": len(points_e),
        "baseline_mean": statistics.fmean(points_b) if points_b else None,
        "baseline_sd": statistics.stdev(points_b) if points_b[1:] else None,
        "environment_mean": statistics.fmean(points_e) if points_e else None,
        "environment_sd": statistics.stdev(points_e) if points_e[1:] else None,
        "dropped_blocks": arms.dropped,
    }
    if estimate is None:
        return PointsPair(**known)
    # An estimate's arithmetic is that of any mean: here `log_ratio` is a difference in points.
    known["difference"] = estimate.log_ratio
    if estimate.flaw:
        return PointsPair(**known, flaw=estimate.flaw)
    low, high = estimate.log_interval(0.90)
    return PointsPair(
        **known,
        se=estimate.se,
        df=estimate.df,
        ci95=estimate.log_interval(0.95),
        ci90=(low, high),
        p_difference=estimate.p_difference,
        smallest_margin=max(-low, high),
    )
