"""Runs whose start-up is known: seconds per step around 1, for calibration only.

Noise of 2 % from step to step, AR(1) with 0.6, under a start-up that fades away exponentially.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.signal import lfilter

from experiments.statistics.change_points import BLOCK, Shape, find
from experiments.statistics.vectorised import Array

Generator = Any
NOISE, CORRELATION = 0.02, 0.6
STEPS = 1000
FIXED = 10
"""The burn-in of which the bias is shown."""


def level(rng: Generator, count: int, steps: int = STEPS) -> Array:
    """One row a run."""
    innovations = rng.normal(0, NOISE * np.sqrt(1 - CORRELATION**2), (count, steps))
    innovations[:, 0] = rng.normal(0, NOISE, count)
    return 1 + lfilter([1], [1, -CORRELATION], innovations, axis=1)


def fading(height: float, tau: float) -> Callable[[Generator, int], Array]:
    """The first step takes 1 + `height` times as long; after `tau` steps 37 % of that are left."""
    excess = height * np.exp(-np.arange(STEPS) / tau)
    return lambda rng, count: (1 + excess) * level(rng, count)


def compiled(rng: Generator, count: int) -> Array:
    """The first step compiles the program and takes a hundred times as long."""
    runs = level(rng, count)
    runs[:, 0] *= 100
    return runs


def straggling(rng: Generator, count: int) -> Array:
    """One step in a hundred takes twice as long on average: a cost of 1 %, and no start-up."""
    late = rng.random((count, STEPS)) < 0.01
    return level(rng, count) * (1 + late * rng.exponential(1, late.shape))


START_UPS: Mapping[str, tuple[Callable[[Generator, int], Array], float]] = {
    "level": (level, 1.0),
    "slow first step": (compiled, 1.0),
    "+300 %, tau 5": (fading(3, 5), 1.0),
    "+50 %, tau 40": (fading(0.5, 40), 1.0),
    "+10 %, tau 150": (fading(0.1, 150), 1.0),
    "level, 1 % stragglers": (straggling, 1.01),
}
"""Runs that settle, and the mean of their steady state."""
NEVER = fading(0.1, 600)
"""After 1,000 steps a fifth of the start-up is still there."""


@dataclass(frozen=True)
class Biases:
    """The bias of the mean of a run, as a fraction, by what is cut; and how the runs are called."""

    none: float
    fixed: float
    found: float
    shapes: Mapping[Shape, float]
    """The share of runs of each shape that occurred."""


def biases(runs: Array, truth: float = 1.0) -> Biases:
    """What each way to cut leaves, on average over the runs; one that never settles loses BLOCK."""
    found = [find(run) for run in runs]
    kept = [run[each.warm_up or BLOCK :].mean() for run, each in zip(runs, found, strict=True)]
    shapes = [each.shape for each in found]
    return Biases(
        none=float(runs.mean() / truth - 1),
        fixed=float(runs[:, FIXED:].mean() / truth - 1),
        found=float(np.mean(kept) / truth - 1),
        shapes={shape: shapes.count(shape) / len(shapes) for shape in sorted(set(shapes))},
    )
