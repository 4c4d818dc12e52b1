"""What runs did beside what is compared: told where it is notable, and seldom where it is noise."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.statistics import Measured, Sample
from experiments.statistics.unsteadiness import (
    MOST_RUNS,
    NOTABLE,
    describe_unsteadiness,
    find_unsteadiness,
)

NOON = 1_764_158_400.0
TIME = Measured("step_time", "s", "lower", "Time per step")
RATE = Measured("images", "images/s", "higher", "Images per second")


def make_samples(
    blocks: int,
    *,
    noise: float = 0.01,
    drift: float = 1.0,
    step: float = 1.0,
    nodes: int = 1,
    seed: int = 1,
) -> list[Sample]:
    """Return runs of two environments, one a minute, in random order within their block."""
    draw = random.Random(seed)
    samples = []
    for block in range(blocks):
        names = ["bare", "box"]
        draw.shuffle(names)
        for name in names:
            place = len(samples)
            share = place / (2 * blocks - 1)
            value = draw.lognormvariate(0, noise) * drift**share
            value *= step if share > 0.5 else 1.0
            value *= 1.02 if name == "box" else 1.0
            node = f"n{block % nodes}"
            samples.append(
                Sample(f"{name}{block}", str(block), name, value, node, NOON + 60 * place)
            )
    return samples


def test_calm_runs_are_not_mentioned() -> None:
    assert find_unsteadiness(make_samples(20, noise=0.02), "bare") is None


def test_a_drift_of_all_is_told_with_its_factor_and_time() -> None:
    unsteady = find_unsteadiness(make_samples(10, noise=0.001, drift=5.0), "bare")
    assert unsteady
    assert unsteady.change
    assert unsteady.change.moment is None
    assert unsteady.change.factor == pytest.approx(5.0, rel=0.1)
    assert unsteady.change.seconds == 19 * 60
    assert unsteady.cancels, "both of a block were slow together"
    text = describe_unsteadiness(unsteady, "bare", TIME)
    assert "Baseline and environments alike became slower by a factor of 5.0 within 19 min" in text
    assert "most of it cancels" in text
    assert "more blocks" not in text


def test_a_change_at_once_is_told_with_its_moment() -> None:
    unsteady = find_unsteadiness(make_samples(15, noise=0.001, step=1.3), "bare")
    assert unsteady
    assert unsteady.change
    assert unsteady.change.moment == NOON + 60 * 15
    assert unsteady.change.factor == pytest.approx(1.3, rel=0.05)
    assert "From 2025-11-26 12:15 UTC on all of them were slower by 30 %." in (
        describe_unsteadiness(unsteady, "bare", TIME)
    )


def test_of_a_rate_more_is_better() -> None:
    unsteady = find_unsteadiness(make_samples(15, noise=0.001, step=1.3), "bare")
    assert unsteady
    assert "were better by 30 %" in describe_unsteadiness(unsteady, "bare", RATE)
    neither = replace(RATE, better=None)
    assert "were larger by 30 %" in describe_unsteadiness(unsteady, "bare", neither)


@pytest.mark.parametrize("alone", ["bare", "box"])
def test_one_environment_that_changed_alone_is_no_matter_of_the_machine(alone: str) -> None:
    """As after an update of its image: the machine is not to blame."""
    changed = [
        replace(
            sample, value=sample.value * (1.6 if index >= 12 and sample.environment == alone else 1)
        )
        for index, sample in enumerate(make_samples(12, noise=0.02))
    ]
    unsteady = find_unsteadiness(changed, "bare")
    assert unsteady is None or unsteady.change is None
    drifted = [
        replace(
            sample,
            value=sample.value * (1.06 ** int(sample.block) if sample.environment == alone else 1),
        )
        for sample in make_samples(12, noise=0.02)
    ]
    unsteady = find_unsteadiness(drifted, "bare")
    assert unsteady is None or unsteady.change is None


def test_noise_alone_is_told_without_a_cause() -> None:
    unsteady = find_unsteadiness(make_samples(12, noise=0.4), "bare")
    assert unsteady
    assert not unsteady.cancels
    text = describe_unsteadiness(unsteady, "bare", TIME)
    assert text.startswith("bare itself varied between ")
    assert "in 12 runs (standard deviation " in text
    assert text.endswith("look there before planning more.")
    assert "hardly help" not in text


def test_nodes_that_differ_are_no_drift() -> None:
    calm = [
        replace(sample, value=sample.value * (1 + int(sample.node[1:])))
        for sample in make_samples(24, nodes=3)
    ]
    assert find_unsteadiness(calm, "bare") is None


def test_steady_noise_is_seldom_called_a_change() -> None:
    changes = [
        unsteady.change
        for seed in range(300)
        if (unsteady := find_unsteadiness(make_samples(10, noise=0.25, seed=seed), "bare"))
    ]
    assert len(changes) > 290, "that it varies is told"
    assert sum(change is not None for change in changes) <= 8


@pytest.mark.parametrize("runs", [0, 1, 4])
def test_few_runs_say_nothing(runs: int) -> None:
    assert find_unsteadiness(make_samples(runs, noise=0.5), "bare") is None


def test_runs_without_times_have_a_spread_and_no_change() -> None:
    timeless = [replace(row, started=None) for row in make_samples(20, drift=5.0)]
    unsteady = find_unsteadiness(timeless, "bare")
    assert unsteady
    assert unsteady.change is None


def test_all_at_one_time_and_each_on_a_node_of_its_own() -> None:
    at_once = [replace(row, started=NOON) for row in make_samples(20, noise=0.3)]
    assert find_unsteadiness(at_once, "bare")
    apart = [replace(row, node=row.run) for row in make_samples(20, noise=0.3)]
    assert find_unsteadiness(apart, "bare") is None, "nothing ran twice on one node"


def test_many_runs_are_thinned() -> None:
    samples = make_samples(10 * MOST_RUNS, noise=0.03, drift=2.0)
    unsteady = find_unsteadiness(samples, "bare")
    assert unsteady
    assert unsteady.change
    assert unsteady.change.factor == pytest.approx(2.0, rel=0.05)


@given(st.floats(1e-9, 1e9), st.randoms(use_true_random=False), st.floats(1.5, 4.0))
def test_neither_the_unit_nor_the_order_of_the_rows_matters(
    unit: float, draw: random.Random, drift: float
) -> None:
    samples = make_samples(8, noise=0.05, drift=drift)
    before = find_unsteadiness(samples, "bare")
    others = [replace(sample, value=sample.value * unit) for sample in samples]
    draw.shuffle(others)
    after = find_unsteadiness(others, "bare")
    assert before
    assert after
    assert after.variation == pytest.approx(before.variation)
    assert before.change
    assert after.change
    assert math.log(after.change.factor) == pytest.approx(math.log(before.change.factor))
    assert before.variation >= NOTABLE / 2
