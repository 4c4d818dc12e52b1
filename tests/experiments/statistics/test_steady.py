"""Where a run's start-up ends: exact change points, shapes in words, and no bias left behind."""

import math
import random
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from experiments.statistics.calibration import start_ups
from experiments.statistics.change_points import (
    BLOCK,
    FEWEST_BLOCKS,
    MOST_BLOCKS,
    SHORTEST,
    Shape,
    compute_kendall,
    compute_tail_means,
    find,
    find_change_points,
)

# What ruptures 1.1.10 says: Pelt(model="l2", min_size=3, jump=1), penalty 6 ln(k), of `noisy`.
RUPTURES = {
    0: [24, 69],
    1: [7, 15, 37],
    2: [27],
    3: [5, 16, 50],
    4: [50],
    5: [34, 99],
    9: [4, 17, 79],
    10: [32, 93],
    11: [11, 32, 77],
    12: [33, 80],
    13: [18, 53],
    20: [15, 33, 112],
    28: [3, 13, 34],
    37: [5, 37, 107],
    40: [7, 26, 78],
    44: [6, 22, 72],
}


def noisy(seed):
    draw = random.Random(seed)
    count = draw.randrange(20, 120)
    height, tau, step = draw.choice([0, 2, 8]), draw.uniform(1, count / 4), draw.choice([0, 0, 3])
    return [
        draw.gauss(0, 1) + height * math.exp(-i / tau) + step * (i > count // 3)
        for i in range(count)
    ]


@pytest.mark.parametrize("seed", RUPTURES)
def test_change_points_are_those_of_ruptures(seed):
    heights = np.array(noisy(seed))
    assert find_change_points(heights, 6 * math.log(len(heights))) == RUPTURES[seed]


def cost(heights, ends, penalty):
    parts = [heights[a:b] for a, b in pairwise([0, *ends])]
    return sum(((part - part.mean()) ** 2).sum() + penalty for part in parts)


@given(
    st.lists(st.integers(-9, 9), min_size=SHORTEST, max_size=13),
    st.floats(0.5, 50, allow_nan=False),
)
def test_no_other_segments_cost_less(numbers, penalty):
    heights = np.array(numbers, dtype=float)
    ours = find_change_points(heights, penalty)
    assert ours[-1] == len(heights)
    places = range(SHORTEST, len(heights) - SHORTEST + 1)
    others = [
        [*cut, len(heights)]
        for size in range(len(heights) // SHORTEST)
        for cut in combinations(places, size)
        if all(b - a >= SHORTEST for a, b in pairwise([0, *cut, len(heights)]))
    ]
    assert ours in others
    assert cost(heights, ours, penalty) <= min(cost(heights, o, penalty) for o in others) + 1e-9


@pytest.mark.parametrize("seed", range(200))
def test_the_trend_is_that_of_scipy(seed):
    draw = np.random.default_rng(seed)
    count = int(draw.integers(3, 60))
    values = draw.integers(0, 8, count).astype(float) if seed % 2 else draw.normal(size=count)
    wanted = kendalltau(range(len(values)), values, method="asymptotic")
    assert compute_kendall(values) == pytest.approx((wanted.statistic, wanted.pvalue), rel=1e-10)


def level(steps=400, *, seed=1, noise=0.01):
    return 0.02 * (1 + noise * np.random.default_rng(seed).standard_normal(steps))


def scaled(values, *, first, last, by):
    """The steps from `first` to `last` (exclusive) take `by` times as long."""
    values = values.copy()
    values[first:last] *= by
    return values


def test_a_level_run_loses_its_first_block_only():
    found = find(level())
    assert (found.shape, found.warm_up, found.steady_from) == (Shape.FLAT, BLOCK, 0)
    assert not found.has_trend


def test_a_slow_start_is_cut_where_it_ends():
    found = find(scaled(level(), first=0, last=70, by=1.2))
    assert (found.shape, found.warm_up, found.steady_from) == (Shape.WARM_UP, 70, 70)


def test_a_slow_first_step_hides_in_its_block_and_goes_with_it():
    found = find(scaled(level(), first=0, last=1, by=100))
    assert (found.shape, found.warm_up) == (Shape.FLAT, BLOCK)


def test_what_slows_down_later_is_not_warm_up():
    found = find(scaled(level(), first=100, last=400, by=1.05))
    assert (found.shape, found.warm_up, found.steady_from) == (Shape.SLOWDOWN, BLOCK, 100)
    assert found.has_trend
    assert found.trend > 0


def test_a_slow_start_is_cut_although_the_run_slows_down_later():
    values = scaled(level(), first=0, last=50, by=1.5)
    found = find(scaled(values, first=150, last=400, by=1.05))
    assert (found.shape, found.warm_up, found.steady_from) == (Shape.SLOWDOWN, 50, 150)


def test_what_was_slow_for_a_while_is_a_cost_and_stays():
    found = find(scaled(level(), first=100, last=140, by=1.3))
    assert (found.shape, found.warm_up, found.steady_from) == (Shape.FLAT, BLOCK, 140)


def test_a_level_that_holds_for_less_than_half_is_no_steady_state():
    found = find(scaled(level(), first=250, last=400, by=1.05))
    assert (found.shape, found.warm_up, found.steady_from) == (Shape.NONE, None, None)
    assert find(scaled(level(), first=200, last=400, by=1.05)).shape is Shape.SLOWDOWN


def test_too_few_blocks_tell_nothing():
    few = BLOCK * FEWEST_BLOCKS - 1
    assert find(scaled(level(few), first=0, last=100, by=2)).shape is Shape.TOO_SHORT
    assert find(level(few + 1)).shape is Shape.FLAT
    assert find([]).warm_up is None


@pytest.mark.parametrize("value", [1.0, 0.0, -3e-9])
def test_constant_steps_are_level(value):
    found = find([value] * 400)
    assert (found.shape, found.warm_up, found.trend_p) == (Shape.FLAT, BLOCK, None)


def test_times_that_were_rounded_until_most_are_equal_still_have_a_start():
    found = find([2.0] * 40 + [1.0] * 360)
    assert (found.shape, found.warm_up) == (Shape.WARM_UP, 40)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_step_that_is_no_number_is_named(wrong):
    values = level()
    values[122] = wrong
    with pytest.raises(ValueError, match="Step 123 "):
        find(values)


def test_a_million_steps_have_larger_blocks():
    values = scaled(level(1_000_000), first=0, last=70_000, by=1.2)
    found = find(values)
    assert (found.block_steps, found.warm_up) == (1_000_000 // MOST_BLOCKS, 70_000)
    assert len(compute_tail_means(values)) == MOST_BLOCKS


def test_values_that_are_means_of_ten_steps_are_blocks():
    """As a log writes them: the first step alone, then every tenth."""
    values = scaled(level(51), first=0, last=8, by=1.2)
    ends = [1, *range(10, 501, 10)]
    found = find(values, ends)
    assert (found.block_steps, found.warm_up) == (10, 70)
    left = compute_tail_means(values, ends)
    assert left[70] == pytest.approx(values[8:].mean())
    assert left[1] == pytest.approx((9 * values[1] + 10 * values[2:].sum()) / 499)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300))
def test_what_is_left_after_a_cut_is_the_mean_of_every_step_after_it(values):
    left = compute_tail_means(values)
    assert list(left) == [BLOCK * block for block in range(len(values) // BLOCK)]
    for cut, mean in left.items():
        assert mean == pytest.approx(np.mean(values[cut:]), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("values", "sentence", "trend"),
    [
        (level(), "Only the first 10 steps are cut.", ""),
        (scaled(level(), first=0, last=70, by=1.2), "the first 70 steps are slower", ""),
        (
            scaled(level(), first=100, last=400, by=1.05),
            "the last level begins at step 101",
            "What is left slows down with time",
        ),
        (
            scaled(level(), first=250, last=400, by=0.95),
            "no level holds for the last half",
            "It speeds up with time",
        ),
        (level(199), "that takes 20 blocks of 10 steps", ""),
    ],
)
def test_what_was_found_is_said_in_plain_words(values, sentence, trend):
    found = find(values)
    assert sentence in found.sentence
    assert found.trend_sentence.startswith(trend)
    assert bool(found.trend_sentence) == bool(trend)


@given(st.integers(0, 10_000), st.sampled_from([1e-6, 0.37, 1e3]))
def test_the_unit_of_time_changes_nothing(seed, unit):
    values = start_ups.START_UPS["+50 %, tau 40"][0](np.random.default_rng(seed), 1)[0]
    before, after = find(values), find(unit * values)
    assert (before.shape, before.warm_up, before.steady_from) == (
        after.shape,
        after.warm_up,
        after.steady_from,
    )


def mser(values, size=5):
    """MSER-5 (White 1997): the cut after which the mean of blocks has the smallest error."""
    blocks = values[: len(values) // size * size].reshape(-1, size).mean(axis=1)
    rest = np.arange(len(blocks), 0, -1)
    sums, squares = (np.cumsum(b[::-1])[::-1] for b in (blocks, blocks**2))
    errors = (squares - sums**2 / rest) / rest**2
    return size * int(np.argmin(errors[: len(blocks) // 2]))


BIASES = {
    # start-up: per cent left by nothing, by the first 10 steps, by MSER-5 and by the found warm-up
    "level": (0.01, 0.01, 0.01, 0.01),
    "+300 %, tau 5": (1.64, 0.21, -0.02, -0.02),
    "+50 %, tau 40": (2.02, 1.59, 0.05, 0.10),
    "+10 %, tau 150": (1.50, 1.41, 0.36, 0.27),
}


@pytest.mark.parametrize("name", BIASES)
def test_the_bias_of_a_runs_mean_is_that_of_the_specification(name):
    draw, truth = start_ups.START_UPS[name]
    runs = draw(np.random.default_rng(7), 500)
    biases = start_ups.measure_biases(runs, truth)
    by_mser = np.mean([run[mser(run) :].mean() for run in runs]) / truth - 1
    # Three standard errors of 500 runs; a level of a few blocks more or less is 0.05 %.
    measured = [100 * bias for bias in (biases.none, biases.fixed, by_mser, biases.detected)]
    assert measured == pytest.approx(BIASES[name], abs=0.08)


def test_stragglers_are_cost_and_stay_although_mser_cuts_them():
    draw, truth = start_ups.START_UPS["level, 1 % stragglers"]
    runs = draw(np.random.default_rng(7), 500)
    by_mser = np.mean([run[mser(run) :].mean() for run in runs]) / truth - 1
    biases = start_ups.measure_biases(runs, truth)
    assert biases.detected == pytest.approx(biases.none, abs=0.0001)
    assert by_mser < biases.none - 0.0005


def test_a_run_that_never_settles_is_called_so_and_mser_does_not_notice():
    runs = start_ups.NEVER(np.random.default_rng(7), 500)
    biases = start_ups.measure_biases(runs)
    assert 100 * biases.none == pytest.approx(4.88, abs=0.08)
    assert biases.shapes[Shape.NONE] == pytest.approx(0.73, abs=0.06)
    assert np.mean([mser(run) >= 0.495 * len(run) for run in runs]) < 0.06
