"""Simulated experiments with a known truth: ln(run value) at random, one row an experiment.

The environment is exactly as fast as the baseline in all of them. Standard deviations are of logs,
so 0.02 is a run-to-run variation of 2 %.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from experiments.statistics.vectorised import Array

Generator = Any
Shape = tuple[int, int]
Draw = Callable[[Generator, Shape], Array]


def normal(sd: float) -> Draw:
    """Return a generator of normal logs with this standard deviation."""
    return lambda rng, shape: rng.normal(0, sd, shape)


def stragglers(rng: Generator, shape: Shape) -> Array:
    """Return logs of which one in ten is held up, by 5 % on average."""
    held_up = rng.random(shape) < 0.1
    return rng.normal(0, 0.005, shape) + held_up * rng.exponential(0.05, shape)


def bimodal(rng: Generator, shape: Shape) -> Array:
    """Return logs of which three in ten are 3 % higher."""
    return rng.normal(0, 0.004, shape) + 0.03 * (rng.random(shape) < 0.3)


SHAPES: Mapping[str, Draw] = {
    "normal 1 %": normal(0.01),
    "normal 2 %": normal(0.02),
    "lognormal 10 %": normal(0.1),
    "t3": lambda rng, shape: 0.012 * rng.standard_t(3, shape),
    "stragglers": stragglers,
    "bimodal": bimodal,
    "skewed": lambda rng, shape: rng.exponential(0.02, shape),
}


def independent(rng: Generator, shape: Shape) -> Array:
    """Return independent normal logs with a standard deviation of 1 %."""
    return rng.normal(0, 0.01, shape)


def correlated(rng: Generator, shape: Shape) -> Array:
    """Return AR(1) logs with 0.8: each run resembles the one before it."""
    noise = rng.normal(0, 0.01, shape)
    for now in range(1, shape[1]):
        noise[:, now] = 0.8 * noise[:, now - 1] + 0.6 * noise[:, now]  # 0.8² + 0.6² = 1
    return noise


def drifting(rng: Generator, shape: Shape) -> Array:
    """Return logs that are 2 % slower from the first run to the last."""
    return independent(rng, shape) + np.linspace(0, 0.02, shape[1])


def stepping(rng: Generator, shape: Shape) -> Array:
    """Return logs that are 2 % slower from the middle on."""
    return independent(rng, shape) + 0.02 * (np.arange(shape[1]) >= shape[1] // 2)


SESSIONS: Mapping[str, Draw] = {
    "independent": independent,
    "AR(1) 0.8": correlated,
    "drift of 2 %": drifting,
    "step of 2 %": stepping,
}
"""Runs in the order in which they ran."""


def random_in_pairs(rng: Generator, session: Array) -> tuple[Array, Array]:
    """Return baseline and environment as planned: two neighbours are a block, in random order."""
    pairs = session.reshape(len(session), -1, 2)
    first = rng.random(pairs.shape[:2]) < 0.5
    return (
        np.where(first, pairs[..., 0], pairs[..., 1]),
        np.where(first, pairs[..., 1], pairs[..., 0]),
    )


def one_after_the_other(session: Array) -> tuple[Array, Array]:
    """Return all of the baseline, then all of the environment."""
    baseline, environment = np.split(session, 2, axis=1)
    return baseline, environment
