"""Calibration of exclusions: rules that are blind to the value, and persons who are not.

A run that a rule of the plan rejects takes its block along. What is left must keep the promises
wherever both sides are rejected alike, even where the rule sees what made a run slow.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from experiments.statistics import vectorised
from experiments.statistics.calibration import truths
from experiments.statistics.calibration.bands import Band, Effort, compute_share, compute_slack
from experiments.statistics.unequal_rejections import Judged, is_unequal
from experiments.statistics.values import ALPHA
from experiments.statistics.vectorised import Array, Estimates

MARGIN = 0.02
BLOCKS = (10, 20)
SHARE = 0.2
"""Of the runs that are rejected at random; of those that are slowed down in the other case."""
SLOWED, CAUGHT = 0.03, 0.8
"""By how much the logarithm of a slowed run is larger, and the chance that the rule sees it."""
REJECTED = ((10, 0.1), (20, 0.2), (30, 0.1), (30, 0.5))
"""Runs of each side and the chance that a run is rejected."""
HOTTER = (30, 0.32)
"""The same of the environment where the baseline has no rejections."""


def list_bands(rng: Any, effort: Effort) -> Iterator[Band]:
    """Yield bands of comparisons from which rules or persons have taken runs."""
    alarms, equivalent = {}, {}
    for name, draw in truths.SHAPES.items():
        for blocks in BLOCKS:
            for how, reject in (("at random", _reject_at_random), ("if slowed", _slow_and_reject)):
                arms = [draw(rng, (effort.data_sets, blocks)) for _ in range(2)]
                (baseline, kept_b), (environment, kept_e) = (reject(rng, arm) for arm in arms)
                case, kept = f"{name}, {how}, {blocks} blocks", kept_b & kept_e
                alarms[case], equivalent[case] = count_errors(baseline, environment, kept)
    for promise, shares in (
        ("false alarms, runs rejected by rules", alarms),
        ("equivalence proved at the margin, runs rejected by rules", equivalent),
    ):
        yield Band(promise, shares, high=0.055, slack=compute_slack(0.055, effort))
    yield Band(
        "REJECTIONS DIFFER although both sides are rejected alike",
        {
            f"{runs} runs each, {100 * chance:.0f} %": _count_stamps(
                rng, effort, runs, chance, chance
            )
            for runs, chance in REJECTED
        },
        high=0.055,
        slack=compute_slack(0.055, effort),
    )
    yield Band(
        "REJECTIONS DIFFER where 32 % of one side alone are rejected",
        {f"{HOTTER[0]} runs each": _count_stamps(rng, effort, HOTTER[0], 0.0, HOTTER[1])},
        low=0.9,
        slack=compute_slack(0.9, effort),
    )
    baseline, environment = (rng.normal(0, 0.01, (effort.data_sets, 10)) for _ in range(2))
    slowest = np.argsort(np.argsort(environment, axis=1), axis=1) >= 8
    yield Band(
        "false alarms, the two slowest runs of the environment excluded by hand",
        {"normal 1 %, 10 blocks": count_errors(baseline, environment, ~slowest)[0]},
        high=0.08,
        control=True,
    )


def count_errors(baseline: Array, environment: Array, kept: Array) -> tuple[float, float]:
    """Return false alarms and false equivalence (at the worse end) from the blocks that are kept.

    The ratio is 1. Fewer than two blocks infer nothing.
    """
    alarm: Array = np.zeros(len(kept), dtype=bool)
    equivalent: Array = np.zeros((2, len(kept)), dtype=bool)
    first = np.argsort(~kept, axis=1, kind="stable")
    arms = [np.take_along_axis(arm, first, axis=1) for arm in (baseline, environment)]
    counts = kept.sum(axis=1)
    for count in range(2, kept.shape[1] + 1):
        own = counts == count
        if not own.any():
            continue
        estimates: Estimates = vectorised.estimate_paired(*(arm[own, :count] for arm in arms))
        alarm[own] = estimates.p_difference < ALPHA
        for side, ratio in enumerate((1 + MARGIN, 1 / (1 + MARGIN))):
            equivalent[side, own] = estimates.times(ratio).p_equivalence(MARGIN) < ALPHA
    return compute_share(alarm), max(map(compute_share, equivalent))


def _reject_at_random(rng: Any, logs: Array) -> tuple[Array, Array]:
    return logs, rng.random(logs.shape) >= SHARE


def _slow_and_reject(rng: Any, logs: Array) -> tuple[Array, Array]:
    """Return logs of which some are slowed down, and which are kept: the rule sees most."""
    slowed = rng.random(logs.shape) < SHARE
    return logs + SLOWED * slowed, ~(slowed & (rng.random(logs.shape) < CAUGHT))


def _count_stamps(
    rng: Any, effort: Effort, runs: int, of_baseline: float, of_environment: float
) -> float:
    """Return in which share of comparisons the rejections of both sides are said to differ."""
    judge: Callable[[int, int], bool] = lru_cache(maxsize=None)(
        lambda first, second: is_unequal(Judged(first, runs), Judged(second, runs))
    )
    rejected = (
        rng.binomial(runs, chance, effort.data_sets) for chance in (of_baseline, of_environment)
    )
    return compute_share([judge(int(b), int(e)) for b, e in zip(*rejected, strict=True)])
