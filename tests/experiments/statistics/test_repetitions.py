"""What to have more of: repetition counts by cost, the part of the steps, and advice."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from experiments.statistics.change_points import compute_tail_means
from experiments.statistics.repetitions import (
    Design,
    advise,
    average_steps,
    estimate_variance_of_mean,
    find_best_counts,
    list_choices,
)


def test_kalibera_and_jones_count_for_an_expensive_start() -> None:
    """A start of 120 s, steps of 0.25 s, CV 2 % between steps and 0.3 % between runs."""
    (steps,) = find_best_counts((0.003**2, 0.02**2), (120, 0.25))
    assert steps == pytest.approx(146, abs=0.1)


def test_no_other_counts_are_better_for_the_same_time() -> None:
    variances, costs = (4.0, 9.0, 1.0), (50.0, 10.0, 0.2)
    runs, steps = find_best_counts(variances, costs)

    def price(runs: float, steps: float) -> float:
        """Return variance times cost of one block: for a given time the smaller the better."""
        variance = variances[0] + variances[1] / runs + variances[2] / (runs * steps)
        return variance * (costs[0] + runs * (costs[1] + steps * costs[2]))

    best = price(runs, steps)
    for factor in (0.8, 0.95, 1.05, 1.25):
        assert price(runs * factor, steps) > best
        assert price(runs, steps * factor) > best


def test_where_the_level_above_adds_nothing_its_repetition_is_never_needed() -> None:
    assert find_best_counts((0.0, 1.0), (10, 1)) == [math.inf]
    assert find_best_counts((1.0, 0.0), (10, 1)) == [0.0]


def variances_of(steps: list[list[float]], cut: int = 0) -> list[float | None]:
    return [
        estimate_variance_of_mean(list(compute_tail_means(run).values()), 10, len(run), cut)
        for run in steps
    ]


@pytest.mark.parametrize(("phi", "factor"), [(0.0, 1.0), (0.5, 3.0), (0.8, 9.0)])
def test_steps_that_resemble_their_neighbours_add_more_than_single_ones_would(
    phi: float, factor: float
) -> None:
    """AR(1): the variance of a mean is (1 + phi) / (1 - phi) times that of independent steps."""
    draw, runs = np.random.default_rng(4), 400
    steps = np.empty((runs, 1000))
    steps[:, 0] = draw.normal(0, 1, runs) / math.sqrt(1 - phi**2)
    for step in range(1, 1000):
        steps[:, step] = phi * steps[:, step - 1] + draw.normal(0, 1, runs)
    steps = 0.02 * (1 + 0.02 * steps * math.sqrt(1 - phi**2))
    found = average_steps([own for own in variances_of(steps.tolist()) if own is not None])
    assert found
    assert found.variance == pytest.approx(0.02**2 / 1000 * factor, rel=0.1)
    assert found.ci95
    assert found.ci95[0] < 0.02**2 / 1000 * factor * 1.02 < found.ci95[1] * 1.02


def test_the_steps_of_the_warm_up_do_not_count_and_few_steps_say_nothing() -> None:
    draw = np.random.default_rng(1)
    level = [0.02 * (1 + 0.01 * value) for value in draw.normal(size=505)]
    warm = [0.05] * 50 + level
    assert variances_of([warm], cut=50) == pytest.approx(variances_of([level]), rel=1e-9)
    (with_it,), (without,) = variances_of([warm]), variances_of([level])
    assert with_it
    assert without
    assert with_it > 20 * without
    assert variances_of([level[:99]]) == [None]
    assert average_steps([]) is None
    single = average_steps([1e-6])
    assert single
    assert single.ci95 is None


BLOCKS = Design(blocks=[5, 5, 5, 5], between_nodes=0.0, between_blocks=1e-4)


def widths(design: Design) -> dict[str, float]:
    return {choice.name: choice.width for choice in list_choices(design)}


def test_the_more_nodes_add_the_more_pay_further_nodes() -> None:
    shares = [
        widths(replace(BLOCKS, between_nodes=between, by_node=True))
        for between in (0.0, 1e-5, 1e-4, 1e-2)
    ]
    for less, more in pairwise(shares):
        assert more["more blocks"] > less["more blocks"]
    assert shares[-1]["more nodes"] < 0.6 < 0.99 < shares[-1]["more blocks"]
    assert advise(replace(BLOCKS, between_nodes=1e-3)).startswith("More nodes would narrow")


def test_without_a_difference_between_nodes_any_block_will_do() -> None:
    sentence = advise(BLOCKS)
    assert sentence.startswith("More blocks and more nodes would narrow the interval of the ratio ")
    assert widths(BLOCKS)["more blocks"] == pytest.approx(widths(BLOCKS)["more nodes"])


def test_nodes_that_are_those_asked_about_are_not_multiplied() -> None:
    assert list(widths(replace(BLOCKS, between_nodes=None))) == ["more blocks"]
    own = replace(BLOCKS, blocks=[1] * 8, between_nodes=None, has_own_nodes=True, by_node=True)
    (choice,) = list_choices(own)
    assert choice.name == "more nodes"
    assert choice.width == pytest.approx(2.1314 / 2.3646 / math.sqrt(2), rel=1e-3)


def test_longer_runs_pay_where_starts_are_dear_and_steps_vary() -> None:
    steps = replace(
        BLOCKS, between_nodes=None, steps_add=0.9e-4, steps=100, run_seconds=120, step_seconds=0.1
    )
    assert advise(steps).startswith("Longer runs would narrow the interval of the ratio most:")
    assert "14 times as many steps" in advise(steps)
    # sqrt(120 s / 0.1 s * 100 * 0.9e-4 / 0.1e-4)
    assert f"{round(math.sqrt(1200 * 900)):,} steps a run would be best" in advise(steps)
    level = replace(steps, steps_add=1e-12, steps=1000)
    assert "about 1 step a run would be best" in advise(level)
    short = replace(steps, steps_add=0.1e-4, steps=10_000)
    assert advise(short).startswith("More blocks would narrow the interval of the ratio most:")
    all_of_it = replace(steps, steps_add=2e-4)
    assert "Runs differ by no more than their steps explain" in advise(all_of_it)
    assert widths(all_of_it)["longer runs"] == pytest.approx(math.sqrt(1 / 14))


def test_without_any_spread_there_is_no_advice() -> None:
    assert advise(Design(blocks=[3], between_nodes=None, between_blocks=0.0)) == ""
