"""Interim analyses: when the data are judged, at which level, and what that saves.

Whoever judges after every run and stops when the verdict pleases is wrong far more often than 5 in
100 times. Analyses that were planned before the data, each at a stricter level, keep that promise.
"""

from dataclasses import dataclass
from typing import Any

from experiments.statistics.estimates import Estimate
from experiments.statistics.margins import Margin
from experiments.statistics.verdicts import FEWEST

POCOCK = (0.05, 0.0294, 0.0221, 0.0182, 0.0158)
"""The two-sided level of each of 1 to 5 equally spaced analyses (Pocock, Biometrika 64, 1977)."""
MOST_ANALYSES = len(POCOCK)
EXPERIMENTS = 4000
SEED = 19770201


def get_level(analyses: int) -> float:
    """Return the two-sided level of each of 1 to 5 `analyses`: all together err in 5 %."""
    return POCOCK[analyses - 1]


def schedule(repeats: int, analyses: int) -> tuple[int, ...]:
    """Return the repeats after which each analysis comes: equally spaced, the last after all."""
    return tuple(repeats * number // analyses for number in range(1, analyses + 1))


def count_most_analyses(repeats: int) -> int:
    """Return how many analyses so many repeats allow: the first one needs enough for a verdict."""
    return min(max(repeats // FEWEST, 1), MOST_ANALYSES)


@dataclass(frozen=True)
class Course:
    """The end of such experiments: after `repeats` on average, a share `equivalent`.

    Where the goal is "not slower", that is the share that has shown it.
    """

    repeats: float
    equivalent: float


def simulate_course(
    truth: Estimate, margin: float | Margin, *, repeats: int, analyses: int
) -> Course:
    """Simulate experiments that stop at the first analysis with a verdict.

    `truth` is what all `repeats` are expected to give (`planner.planned`). The same numbers each
    time: a page that is read twice says the same.
    """
    import numpy as np  # lazily, as in estimates

    from experiments.statistics import vectorised

    rng, alpha = np.random.default_rng(SEED), get_level(analyses)
    arms = [Gathered(rng, arm.variance) for arm in truth.arms]
    ended: Any = np.zeros(EXPERIMENTS)
    equivalent: Any = np.zeros(EXPERIMENTS, dtype=bool)
    going_on: Any = np.ones(EXPERIMENTS, dtype=bool)
    for after in schedule(repeats, analyses):
        for arm in arms:
            arm.gather(after)
        seen = vectorised.estimate_from_moments(
            truth.log_ratio + arms[-1].mean - (arms[0].mean if arms[1:] else 0),
            [(arm.squares / (after - 1), after) for arm in arms],
        )
        proved = seen.p_equivalence(margin) < alpha
        equivalent |= going_on & proved
        ended[going_on] = after
        going_on &= ~(proved | (seen.p_difference < alpha))
    return Course(float(ended.mean()), float(equivalent.mean()))


class Gathered:
    """The mean and the sum of squares of normal values that come in over time, many arms at once.

    Only what an analysis needs is drawn: a thousand repeats cost no more than ten.
    """

    def __init__(self, rng: Any, variance: float) -> None:
        self.rng, self.variance, self.n = rng, variance, 0
        self.mean, self.squares = 0.0, 0.0

    def gather(self, n: int) -> None:
        """Draw more, until there are `n` of each."""
        more = n - self.n
        news = self.rng.normal(0, (self.variance / more) ** 0.5, EXPERIMENTS)
        within = self.variance * self.rng.chisquare(more - 1, EXPERIMENTS) if more > 1 else 0.0
        apart = news - self.mean
        self.mean = self.mean + apart * more / n
        self.squares = self.squares + within + apart**2 * self.n * more / n
        self.n = n
