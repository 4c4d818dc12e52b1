"""Whether rules that reject runs took more of one side of a comparison than of the other.

Rejections are not random: an environment that heats its node more is rejected more often, and what
is left of it are the runs of better conditions.
"""

import math
from dataclasses import dataclass

from experiments.statistics import numbers
from experiments.statistics.values import ALPHA

TIES = 1e-7
"""Tables whose probabilities differ by less than this part are equally likely."""


@dataclass(frozen=True)
class Judged:
    """How many runs rules have judged, and how many of those they rejected."""

    rejected: int
    total: int

    @property
    def kept(self) -> int:
        return self.total - self.rejected

    def __add__(self, other: "Judged") -> "Judged":
        return Judged(self.rejected + other.rejected, self.total + other.total)

    @property
    def text(self) -> str:
        """Return the numbers as part of a sentence: "3 of 10 runs", "none of 10 runs"."""
        rejected = f"{self.rejected:,}" if self.rejected else "none"
        return f"{rejected} of {numbers.count(self.total, 'run')}"


def compute_fisher_p(first: Judged, second: Judged) -> float:
    """Return the two-sided p of "both are rejected equally often", by Fisher's exact test (1922).

    It is the sum over all tables with the same margins that are not more likely than this one, as
    in R's `fisher.test` and `scipy.stats.fisher_exact`, which would be slow to import here.
    """
    rejected = first.rejected + second.rejected
    low, high = max(0, rejected - second.total), min(rejected, first.total)
    logs = [
        _log_choose(first.total, count) + _log_choose(second.total, rejected - count)
        for count in range(low, high + 1)
    ]
    most = max(logs)
    weights = [math.exp(log - most) for log in logs]
    seen = weights[first.rejected - low]
    return min(math.fsum(w for w in weights if w <= seen * (1 + TIES)) / math.fsum(weights), 1.0)


def _log_choose(total: int, chosen: int) -> float:
    return math.lgamma(total + 1) - math.lgamma(chosen + 1) - math.lgamma(total - chosen + 1)


def is_unequal(first: Judged, second: Judged) -> bool:
    """Return whether rejections differ at 5 %, or have left nothing of one of both sides."""
    if not (first.total and second.total):
        return False
    if (first.kept == 0) != (second.kept == 0):
        return True
    return compute_fisher_p(first, second) < ALPHA


def _find_excess(baseline: Judged, environment: Judged) -> int:
    """Return a number above 0 where the environment's share is the larger one, below it if not."""
    return environment.rejected * baseline.total - baseline.rejected * environment.total


def explain_unequal(
    baseline: Judged,
    environment: Judged,
    *,
    baseline_everywhere: Judged,
    environment_everywhere: Judged,
    names: tuple[str, str],
) -> str:
    """Return why a verdict is to be read with care for its rejections; "" where it is not.

    `names` are those of baseline and environment. Few rejections in each of many configurations
    add up: they count where both sides differ over all of them, and here in the same direction.
    """
    is_here = is_unequal(baseline, environment)
    is_everywhere = is_unequal(baseline_everywhere, environment_everywhere) and (
        _find_excess(baseline, environment)
        * _find_excess(baseline_everywhere, environment_everywhere)
        > 0
    )
    if not (is_here or is_everywhere):
        return ""
    p = numbers.p_value(compute_fisher_p(baseline, environment))
    everywhere = ""
    if (baseline, environment) != (baseline_everywhere, environment_everywhere):
        p_everywhere = compute_fisher_p(baseline_everywhere, environment_everywhere)
        everywhere = (
            f" In all configurations together: {environment_everywhere.text} and "
            f"{baseline_everywhere.text} (p {numbers.p_value(p_everywhere)})."
        )
    left = names[1] if _find_excess(baseline, environment) > 0 else names[0]
    return (
        f"Rules of the plan rejected {environment.text} of {names[1]} and {baseline.text} of "
        f"{names[0]} (Fisher’s exact test: p {p}).{everywhere} What is left of {left} ran under "
        "better conditions than its other runs, so the ratio may flatter it."
    )
