"""Two workloads in the same environments: how they differ, and whether containers cost the same.

The two ran in other jobs, so their runs are independent of each other: Welch's interval on logs.
What an environment costs with one workload over what it costs with the other is a ratio of ratios:
in the paired design of two means of blocks, else of four means of runs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.statistics.arms import Arms
from experiments.statistics.estimates import Arm, Estimate
from experiments.statistics.step_spread import Ratio
from experiments.statistics.values import Sample

LEVEL = 0.95


@dataclass(frozen=True)
class BetweenWorkloads:
    """One environment with two workloads, without a verdict: no margin was fixed for it."""

    environment: str
    runs_reference: int
    runs_other: int
    mean_reference: float
    """The mean over runs, in the metric's unit."""
    mean_other: float
    ratio: Ratio | None
    """The other workload over the reference, in this environment."""
    cost_change: Ratio | None = None
    """The ratio to the baseline with the other workload, over that with the reference."""


def compare_workloads(
    reference: Sequence[Sample],
    other: Sequence[Sample],
    *,
    environments: Sequence[str],
    paired: bool,
) -> list[BetweenWorkloads]:
    """Return a comparison of each environment that has runs of both, the baseline first.

    Values are above zero. Environments are compared with the first one, within blocks if paired.
    """
    rows = []
    for place, name in enumerate(environments):
        before, after = (_take(samples, name) for samples in (reference, other))
        if not before or not after:
            continue
        rows.append(
            BetweenWorkloads(
                environment=name,
                runs_reference=len(before),
                runs_other=len(after),
                mean_reference=statistics.fmean(sample.value for sample in before),
                mean_other=statistics.fmean(sample.value for sample in after),
                ratio=_combine((_read_logs(after), 1), (_read_logs(before), -1)),
                cost_change=_compare_costs(reference, other, environments[0], name, paired)
                if place
                else None,
            )
        )
    return rows


def _compare_costs(
    reference: Sequence[Sample],
    other: Sequence[Sample],
    baseline: str,
    environment: str,
    paired: bool,
) -> Ratio | None:
    parts: list[tuple[list[float], int]] = []
    for samples, sign in ((other, 1), (reference, -1)):
        arms = Arms.of(_take(samples, baseline), _take(samples, environment), paired=paired)
        before, after = arms.values()
        if paired:
            parts.append(([b - a for a, b in zip(before, after, strict=True)], sign))
        else:
            parts += [(after, sign), (before, -sign)]
    return _combine(*parts)


def _take(samples: Sequence[Sample], environment: str) -> list[Sample]:
    return [sample for sample in samples if sample.environment == environment]


def _read_logs(samples: Sequence[Sample]) -> list[float]:
    return [math.log(sample.value) for sample in samples]


def _combine(*parts: tuple[list[float], int]) -> Ratio | None:
    """Return the sum of means of logs, each with its sign, as a ratio; None if any is empty."""
    if not all(logs for logs, _ in parts):
        return None
    arms = tuple(
        Arm(statistics.variance(logs) if len(logs) > 1 else 0.0, len(logs)) for logs, _ in parts
    )
    estimate = Estimate(sum(sign * statistics.fmean(logs) for logs, sign in parts), arms)
    interval = None if estimate.flaw else estimate.interval(LEVEL)
    return Ratio(estimate.ratio, interval, estimate.flaw)
