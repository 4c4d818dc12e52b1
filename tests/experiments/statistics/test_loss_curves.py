"""Whole loss curves: one p for all steps, exact however much steps resemble each other."""

import itertools
import math

import numpy as np
import pytest

from experiments.statistics.calibration.training_truths import draw_log_losses
from experiments.statistics.training.curve_permutations import flip_signs, permute_labels
from experiments.statistics.training.curve_sentences import describe_curve
from experiments.statistics.training.end_pairs import ComparedBy
from experiments.statistics.training.loss_curves import (
    MOST_BINS,
    ThinCurve,
    average_bins,
    compare_curves,
    find_common_steps,
    split_into_bins,
)


def draw(seed, n=6, bins=40, correlation=0.95):
    return draw_log_losses(np.random.default_rng(seed), (n, bins), correlation)


@pytest.mark.parametrize("n", [2, 3, 6])
def test_p_of_flipped_signs_is_the_share_by_the_definition(n):
    for seed in range(10):
        rows = draw(seed, n) - draw(seed + 100, n)
        statistics = []
        for signs in itertools.product((1, -1), repeat=n):
            flipped = rows * np.array(signs)[:, None]
            t = flipped.mean(axis=0) / (flipped.std(axis=0, ddof=1) / math.sqrt(n))
            statistics.append(np.abs(t).max())
        assert statistics[0] == pytest.approx(
            np.abs(rows.mean(axis=0) / (rows.std(axis=0, ddof=1) / math.sqrt(n))).max()
        )
        expected = np.mean(np.array(statistics) >= statistics[0] * (1 - 1e-9))
        test = flip_signs(rows)
        assert test.p == pytest.approx(expected)
        assert (test.is_exact, test.arrangements) == (True, 2 ** (n - 1))
        assert test.p >= test.smallest_p == 2.0 ** (1 - n)


@pytest.mark.parametrize(("n_b", "n_e"), [(3, 3), (4, 3)])
def test_p_of_shared_out_labels_is_the_share_by_the_definition(n_b, n_e):
    for seed in range(10):
        runs = draw(seed, n_b + n_e)
        statistics = []
        for chosen in itertools.combinations(range(n_b + n_e), n_b):
            others = [k for k in range(n_b + n_e) if k not in chosen]
            apart = runs[others].mean(axis=0) - runs[list(chosen)].mean(axis=0)
            statistics.append(np.abs(apart / runs.std(axis=0)).max())
        expected = np.mean(np.array(statistics) >= statistics[0] * (1 - 1e-9))
        test = permute_labels(runs[:n_b], runs[n_b:])
        assert test.p == pytest.approx(expected)
        assert test.p >= test.smallest_p - 1e-12


@pytest.mark.parametrize("seed", range(30))
def test_the_band_is_left_where_p_is_small_and_nowhere_else(seed):
    rows = draw(seed) - draw(seed + 100) + (0.05 if seed % 2 else 0)
    test = flip_signs(rows)
    leaves = bool((np.abs(rows.mean(axis=0)) >= test.critical * test.scale * (1 - 1e-9)).any())
    assert leaves == (test.p <= 0.05)


def test_five_blocks_can_say_nothing_and_have_no_band():
    test = flip_signs(draw(1, n=5) + 1)
    assert (test.p, test.smallest_p, test.critical) == (0.0625, 0.0625, None)


def test_many_blocks_are_flipped_at_random_and_always_alike():
    rows = draw(1, n=20) - draw(2, n=20)
    test = flip_signs(rows)
    assert (test.is_exact, test.arrangements) == (False, 10_000)
    assert test.p == flip_signs(rows).p
    assert flip_signs(rows + 1).p == pytest.approx(1e-4)
    unpaired = permute_labels(draw(1, n=15), draw(2, n=15) + 1)
    assert (unpaired.is_exact, unpaired.p) == (False, pytest.approx(1e-4))


def test_differences_below_the_floor_are_none():
    rows = np.full((8, 5), 1e-9)
    assert flip_signs(rows).p == 1 / 128, "all have one sign"
    assert flip_signs(rows, floor=0.001) is None
    assert permute_labels(rows, rows + 1e-9, floor=0.001) is None


# From losses to curves.


def test_common_steps_are_those_that_all_runs_have():
    assert find_common_steps([(5, None), (3, None)]).tolist() == [1, 2, 3]
    assert find_common_steps([(3, [10, 20, 30]), (2, [20, 30])]).tolist() == [20, 30]
    assert find_common_steps([(25, None), (3, [10, 20, 30])]).tolist() == [10, 20]
    assert find_common_steps([(2, [1, 2]), (2, [3, 4])]).tolist() == []
    assert find_common_steps([]).tolist() == []
    assert find_common_steps([(0, None), (5, None)]).tolist() == []


def test_a_hundred_thousand_steps_become_means_of_five_hundred():
    common = find_common_steps([(100_000, None)])
    starts = split_into_bins(len(common))
    losses = np.random.default_rng(1).normal(1, 0.1, 100_000)
    values, diverged_at = average_bins(losses, None, common, starts)
    assert (len(values), diverged_at) == (MOST_BINS, None)
    assert values == pytest.approx(losses.reshape(MOST_BINS, 500).mean(axis=1).tolist())


def test_missing_steps_and_other_lengths_leave_the_steps_that_all_have():
    steps = [1, 2, 4, 5, 9]
    common = find_common_steps([(8, None), (5, steps)])
    assert common.tolist() == [1, 2, 4, 5]
    starts = split_into_bins(len(common))
    whole, _ = average_bins([8, 7, 6, 5, 4, 3, 2, 1], None, common, starts)
    gaps, _ = average_bins([8, 7, 5, 4, 0], steps, common, starts)
    assert whole == gaps == (8, 7, 5, 4)


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_named_with_its_step(broken):
    common = find_common_steps([(4, None)])
    starts = split_into_bins(4)
    assert average_bins([2, 1, broken, 1], None, common, starts) == ((), 3)
    assert average_bins([2, 1, broken, 1], [10, 20, 30, 40], common, starts)[1] == 30
    beyond = find_common_steps([(2, None)])
    assert average_bins([2, 1, broken], None, beyond, split_into_bins(2))[1] == 3


def curves_of(bare, box, *, diverged=()):
    return [
        ThinCurve(
            run=f"{name}{k}",
            environment=name,
            draw=f"seed {k}",
            block=str(k),
            values=() if (name, k) in diverged else tuple(np.exp(row)),
            diverged_at=17 if (name, k) in diverged else None,
        )
        for name, rows in (("bare", bare), ("box", box))
        for k, row in enumerate(rows)
    ]


def compare(bare, box, *, by=ComparedBy.SEED, bins=40, diverged=(), **more):
    (pair,) = compare_curves(
        curves_of(bare, box, diverged=diverged),
        np.arange(1, bins + 1),
        baseline="bare",
        by={"bare": by, "box": by},
        **more,
    )
    return pair


def bump(rows, height, first=10, last=15):
    rows = rows.copy()
    rows[:, first:last] += height
    return rows


def test_a_bump_that_is_gone_at_the_end_is_found():
    bare = draw(1, n=8)
    noise = 0.2 * draw(2, n=8, correlation=0.9)
    pair = compare(bare, bump(bare + noise, 0.3))
    assert (pair.p, pair.is_relative, pair.is_different) == (1 / 128, True, True)
    assert 11 <= pair.at_step <= 15
    assert pair.largest == pytest.approx(0.3, abs=0.05)
    apart = np.abs(np.array(pair.difference)) > np.array(pair.band)
    assert apart.any()
    assert set(np.flatnonzero(apart) + 1) <= set(range(11, 16))
    assert describe_curve(pair).startswith(
        "differs along the curve (p = 0.008, all 128 sign flips; 8 seeds), most clearly at "
    )
    same = compare(bare, bare + noise)
    assert not same.is_different
    assert "which does not show that there is none" in describe_curve(same)


def test_one_run_of_each_says_that_nothing_can_be_said():
    pair = compare(draw(1, n=1), draw(2, n=1))
    assert (pair.p, pair.band) == (None, ())
    assert len(pair.difference) == 40, "it is drawn all the same"
    assert describe_curve(pair) == (
        "nothing can be said of the whole curve: one seed says nothing about how much curves vary."
    )
    alone = compare(draw(1, n=4), draw(2, n=1), by=ComparedBy.RUN)
    assert alone.why_not.startswith("one run of each")


def test_too_few_blocks_are_said_to_be_too_few():
    pair = compare(draw(1, n=4), draw(1, n=4) + 0.5)
    assert pair.has_too_few
    assert describe_curve(pair).startswith(
        "too few to say: with 4 seeds no difference can have a p below 0.125."
    )


def test_diverged_runs_are_a_finding_and_no_curve():
    bare = draw(1, n=8)
    pair = compare(bare, bare, diverged={("box", 3)})
    assert (pair.diverged, pair.n, pair.n_environment) == ({"box": 1}, 7, 7)
    assert describe_curve(pair).startswith(
        "1 run of box diverged (the loss was no number any more) and left no curve to compare:"
    )
    whole = compare(bare, bare, diverged={("box", k) for k in range(8)})
    assert (whole.p, whole.why_not, whole.diverged) == (None, "no run of both", {"box": 8})


def test_identical_curves_have_no_p():
    bare = draw(1, n=8)
    pair = compare(bare, bare)
    assert (pair.p, pair.why_not) == (None, "no difference is larger than 0.1 % of a loss")


def test_several_runs_of_a_seed_are_one_curve():
    bare = np.vstack([draw(1, n=4), draw(1, n=4)])
    curves = [
        ThinCurve(
            run=f"{name}{k}",
            environment=name,
            draw=f"seed {k % 4}",
            block=str(k),
            values=tuple(np.exp(row)),
        )
        for name, rows in (("bare", bare), ("box", bare + 0.1))
        for k, row in enumerate(rows)
    ]
    (pair,) = compare_curves(curves, np.arange(1, 41), baseline="bare", by={"box": ComparedBy.SEED})
    assert (pair.n, pair.arrangements) == (4, 8)
    (by_block,) = compare_curves(
        curves, np.arange(1, 41), baseline="bare", by={"box": ComparedBy.BLOCK}
    )
    assert (by_block.n, by_block.arrangements) == (8, 128)


def test_losses_that_are_not_above_zero_are_compared_as_they_are():
    rows = draw(1, n=6)
    curves = [
        ThinCurve(run=f"{name}{k}", environment=name, draw=f"{k}", block="", values=tuple(row))
        for name, table in (("bare", rows), ("box", rows + 0.5))
        for k, row in enumerate(table)
    ]
    (pair,) = compare_curves(curves, np.arange(1, 41), baseline="bare", by={"box": ComparedBy.SEED})
    assert pair.is_relative is False
    assert pair.largest == pytest.approx(0.5)
    assert "where the loss is 0.5 higher on average" in describe_curve(pair)


def test_runs_that_are_shorter_are_said():
    pair = compare(draw(1), draw(2), longest=1000)
    assert describe_curve(pair).endswith(
        "Compared are the 40 steps that all runs have, of 1,000 of the longest."
    )
