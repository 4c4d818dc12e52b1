"""How often the intervals over studies hold the truth, where it is known.

The true log-ratios of studies are normal around 0. Each study knows its own with an error of which
it has only an estimate, from some blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.statistics.calibration.bands import Band, Effort, compute_slack
from experiments.statistics.pooling import FEWEST_FOR_PREDICTION, estimate_random_effects

STUDIES, BLOCKS = (3, 5, 8, 20), 8
APART = (0.0, 0.01, 0.03)
"""How much the true log-ratios of studies differ."""
LIKE_ERRORS = 0.01
"""As much as the standard errors of studies: too often none of it is seen then."""


@dataclass(frozen=True)
class Coverage:
    """Shares of simulated sets of studies in which an interval held what it promises to hold."""

    mean: float
    """The interval of the mean: the mean of all such studies."""
    prediction: float
    """The prediction interval: the true ratio of one more study."""
    known_errors: float
    """What takes studies for equal and their errors for known: not used, and shown beside."""


def measure_coverage(
    studies: int,
    blocks: int,
    apart: float,
    *,
    sets: int,
    seed: int | Sequence[int],
    level: float = 0.95,
) -> Coverage:
    """Return the coverage over `sets` simulated sets of studies with so many blocks each.

    `apart` is the standard deviation of the true log-ratios. Standard errors of studies lie between
    half and twice 1 % evenly, and are estimated with `blocks` - 1 degrees of freedom.
    """
    from experiments.statistics.special_functions import ndtri  # lazily, as in estimates

    rng = np.random.default_rng(seed)
    errors = rng.uniform(0.005, 0.02, (sets, studies))
    effects = apart * rng.standard_normal((sets, studies))
    effects += errors * rng.standard_normal((sets, studies))
    estimated = errors * np.sqrt(rng.chisquare(blocks - 1, (sets, studies)) / (blocks - 1))
    new_ones = apart * rng.standard_normal(sets)
    held = np.zeros(3)
    for values, known, new in zip(effects.tolist(), estimated.tolist(), new_ones, strict=True):
        pooled = estimate_random_effects(values, known)
        low, high = pooled.interval(level)
        least, most = pooled.predict(level)
        weights = 1 / np.square(known)
        fixed, reach = weights @ values / weights.sum(), 1 / np.sqrt(weights.sum())
        reach *= ndtri((1 + level) / 2)
        held += (low <= 0 <= high, least <= new <= most, abs(fixed) <= reach)
    return Coverage(*(held / sets))


def list_bands(seed: int, effort: Effort) -> Iterator[Band]:
    """Yield bands of the coverage of both intervals, and of one that takes studies for equal."""
    mean: dict[str, float] = {}
    prediction: dict[str, float] = {}
    weak: dict[str, float] = {}
    equal: dict[str, float] = {}
    for studies in STUDIES:
        for apart in APART:
            case = f"{studies} studies, {100 * apart:g} % between them"
            own_seed = [seed, studies, round(1e4 * apart)]
            coverage = measure_coverage(studies, BLOCKS, apart, sets=effort.runs, seed=own_seed)
            mean[case] = coverage.mean
            if studies >= FEWEST_FOR_PREDICTION:
                (weak if apart == LIKE_ERRORS else prediction)[case] = coverage.prediction
            if apart > LIKE_ERRORS:
                equal[case] = coverage.known_errors
    for promise, shares, low in (
        ("coverage of the 95 % interval of the mean over studies", mean, 0.92),
        ("coverage of the 95 % prediction interval of studies", prediction, 0.92),
        ("the same where studies differ as much as their errors (known weakness)", weak, 0.86),
    ):
        yield Band(promise, shares, low=low, slack=compute_slack(low, effort, effort.runs))
    yield Band("coverage of the mean, studies taken for equal", equal, low=0.82, control=True)
