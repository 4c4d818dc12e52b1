"""Simulated runs with a known start-up: seconds per step around 1, for calibration only.

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
"""Steps of the fixed warm-up whose bias is shown."""


def level(rng: Generator, count: int, steps: int = STEPS) -> Array:
    """Return runs that are level from the first step on, one row a run."""
    innovations = rng.normal(0, NOISE * np.sqrt(1 - CORRELATION**2), (count, steps))
    innovations[:, 0] = rng.normal(0, NOISE, count)
    return 1 + lfilter([1], [1, -CORRELATION], innovations, axis=1)


def fading(height: float, tau: float) -> Callable[[Generator, int], Array]:
    """Return a generator of runs whose first step takes 1 + `height` times as long."""
    excess = height * np.exp(-np.arange(STEPS) / tau)
    return lambda rng, count: (1 + excess) * level(rng, count)


def compiled(rng: Generator, count: int) -> Array:
    """Return runs whose first step compiles the program and takes a hundred times as long."""
    runs = level(rng, count)
    runs[:, 0] *= 100
    return runs


def straggling(rng: Generator, count: int) -> Array:
    """Return level runs with 1 % late steps, which take twice as long on average."""
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
"""Runs that never settle: after 1,000 steps a fifth of the start-up is still there."""


@dataclass(frozen=True)
class Biases:
    """The bias of a run's mean, as a fraction, by the warm-up that is cut; and the runs' shapes."""

    none: float
    fixed: float
    detected: float
    shapes: Mapping[Shape, float]
    """The share of runs of each shape that occurred."""


def measure_biases(runs: Array, truth: float = 1.0) -> Biases:
    """Return the mean bias after each kind of cut; from a run that never settles BLOCK is cut."""
    states = [find(run) for run in runs]
    means = [run[state.warm_up or BLOCK :].mean() for run, state in zip(runs, states, strict=True)]
    shapes = [state.shape for state in states]
    return Biases(
        none=float(runs.mean() / truth - 1),
        fixed=float(runs[:, FIXED:].mean() / truth - 1),
        detected=float(np.mean(means) / truth - 1),
        shapes={shape: shapes.count(shape) / len(shapes) for shape in sorted(set(shapes))},
    )
