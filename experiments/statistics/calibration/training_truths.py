"""Simulated trainings with a known truth: accuracies of seeds, and losses step by step.

The environment trains exactly as the baseline does in all of them.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.signal import lfilter

from experiments.statistics import vectorised
from experiments.statistics.calibration.truths import SHAPES
from experiments.statistics.training.curve_permutations import (
    WholeCurveTest,
    flip_signs,
    permute_labels,
)
from experiments.statistics.training.end_pairs import OF_SPEED, DifferenceMargin, TrainingVerdict
from experiments.statistics.values import ALPHA
from experiments.statistics.vectorised import Array, Estimates

Generator = Any
MARGIN_POINTS = 0.5
POINTS = 25
"""Shapes with 1 % and 2 % become accuracies with 0.25 and 0.5 points between runs."""
REPEATS = (3, 5, 10, 30)
BINS = 200
NOISE = 0.05
"""Standard deviation of ln(loss) at any step."""


def count_wrong_ends(rng: Generator, data_sets: int) -> dict[str, tuple[float, float]]:
    """Return by case how often EQUIVALENT is said at the margin, and DIFFERENT at no difference."""
    wrong = {}
    for name, draw in SHAPES.items():
        for design, estimate in (
            ("by seed", vectorised.estimate_paired),
            ("by run", vectorised.estimate_unpaired),
        ):
            for n in REPEATS:
                arms = (POINTS * draw(rng, (data_sets, n)) for _ in range(2))
                wrong[f"{name.replace(' %', '')}, {design}, n = {n}"] = _count(estimate(*arms))
    return wrong


def _count(estimates: Estimates) -> tuple[float, float]:
    margin = DifferenceMargin.of_size(MARGIN_POINTS)
    # `times` adds a logarithm; here the scale is that of the points themselves.
    at_margin = [estimates.times(np.exp(side * MARGIN_POINTS)).verdicts(margin) for side in (1, -1)]
    equivalent = max(
        float(np.mean(_translate(verdicts, TrainingVerdict.EQUIVALENT))) for verdicts in at_margin
    )
    different = _translate(estimates.verdicts(margin), TrainingVerdict.DIFFERENT)
    return equivalent, float(np.mean(different))


def _translate(verdicts: Array, verdict: TrainingVerdict) -> Array:
    """Return which verdicts by the rules of speed are this one about training."""
    return np.isin(
        verdicts, [str(of_speed) for of_speed, own in OF_SPEED.items() if own is verdict]
    )


def draw_log_losses(
    rng: Generator, shape: tuple[int, int], correlation: float, *, tails: bool = False
) -> Array:
    """Return ln(loss) of runs, one row a run, around the curve that all of them have.

    AR(1) from point to point, with a standard deviation that is the same at all of them. With
    `tails` each run's noise is as large as Student's t with 3 degrees of freedom makes it.
    """
    innovations = rng.normal(0, np.sqrt(1 - correlation**2), shape)
    innovations[:, 0] = rng.normal(0, 1, shape[0])
    noise = NOISE * lfilter([1], [1, -correlation], innovations, axis=1)
    if tails:
        noise *= np.sqrt(3 / rng.chisquare(3, (shape[0], 1)))
    return noise


CURVES: Mapping[str, tuple[int, float, bool, bool]] = {
    "AR(1) 0.9, 6 seeds": (6, 0.9, True, False),
    "AR(1) 0.99, 6 seeds": (6, 0.99, True, False),
    "AR(1) 0.999, 6 seeds": (6, 0.999, True, False),
    "AR(1) 0.99, 10 seeds": (10, 0.99, True, False),
    "AR(1) 0.99, 6 seeds, long tails": (6, 0.99, True, True),
    "AR(1) 0.99, 5 and 5 runs": (5, 0.99, False, False),
}
"""Case -> the number of seeds or runs, the correlation, whether seeds pair, long tails."""


def count_curve_alarms(rng: Generator, data_sets: int) -> dict[str, float]:
    """Return by case how often curves that differ by chance alone are called different."""
    return {
        name: float(
            np.mean(
                [
                    is_called_different(*_draw_arms(rng, n, correlation, tails), by_seed=by_seed)
                    for _ in range(data_sets)
                ]
            )
        )
        for name, (n, correlation, by_seed, tails) in CURVES.items()
    }


def _draw_arms(rng: Generator, n: int, correlation: float, tails: bool) -> tuple[Array, Array]:
    baseline, environment = np.split(
        draw_log_losses(rng, (2 * n, BINS), correlation, tails=tails), 2
    )
    return baseline, environment


def is_called_different(baseline: Array, environment: Array, *, by_seed: bool) -> bool:
    """Return whether the test of whole curves sees a difference, of one row a seed or run."""
    test: WholeCurveTest | None = (
        flip_signs(environment - baseline) if by_seed else permute_labels(baseline, environment)
    )
    return test is not None and test.p <= ALPHA


def count_alarms_at_any_step(rng: Generator, data_sets: int, n: int = 6) -> float:
    """Return how often Student's t of at least one step is below 5 %: what must not be done."""
    alarms = 0
    for _ in range(data_sets):
        baseline, environment = _draw_arms(rng, n, 0.99, tails=False)
        estimates = vectorised.estimate_paired(baseline.T, environment.T)
        alarms += bool((estimates.p_difference < ALPHA).any())
    return alarms / data_sets
