"""Calibration of A/A tests: how often an environment that is compared with itself raises an alarm.

The same rules as everywhere; a test of many configurations is what could raise too many.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from experiments.statistics import vectorised
from experiments.statistics.calibration import truths
from experiments.statistics.calibration.bands import Band, Effort, compute_share, compute_slack
from experiments.statistics.values import ALPHA, Verdict
from experiments.statistics.vectorised import Array

MARGIN = 0.02
BLOCKS = (5, 6, 10, 30)
CONFIGURATIONS = 10
OF_MANY = 0.05
"""The standard deviation of runs where many configurations are tested: no verdict hides a
difference by being EQUIVALENT."""


def list_bands(rng: Any, effort: Effort) -> Iterator[Band]:
    """Yield bands of alarms in tests of one configuration and of many."""
    shares = {}
    for name, draw in truths.SHAPES.items():
        for blocks in BLOCKS:
            differ, _ = _simulate(rng, draw, effort, blocks)
            shares[f"{name}, {blocks} blocks"] = compute_share(differ)
    yield Band(
        "A/A tests that end SLOWER or FASTER",
        shares,
        high=0.055,
        slack=compute_slack(0.055, effort),
    )
    alarms, uncorrected = {}, {}
    for blocks in BLOCKS:
        tests = [
            _simulate(rng, truths.normal(OF_MANY), effort, blocks) for _ in range(CONFIGURATIONS)
        ]
        # By Holm's correction the smallest p alone decides whether any survives.
        survive = [differ & (p * CONFIGURATIONS <= ALPHA) for differ, p in tests]
        case = f"{CONFIGURATIONS} configurations, {blocks} blocks"
        alarms[case] = compute_share(np.any(survive, axis=0))
        uncorrected[case] = compute_share(np.any([differ for differ, _ in tests], axis=0))
    yield Band(
        "A/A tests of many configurations with an alarm",
        alarms,
        high=0.055,
        slack=compute_slack(0.055, effort),
    )
    yield Band("the same, each configuration for itself", uncorrected, high=0.2, control=True)


def _simulate(rng: Any, draw: truths.Draw, effort: Effort, blocks: int) -> tuple[Array, Array]:
    """Return whether each test ends SLOWER or FASTER, and its p of a difference."""
    arms = (draw(rng, (effort.data_sets, blocks)) for _ in range(2))
    estimates = vectorised.estimate_paired(*arms)
    verdicts = estimates.verdicts(MARGIN)
    differ = (verdicts == Verdict.SLOWER) | (verdicts == Verdict.FASTER)
    return differ, estimates.p_difference
