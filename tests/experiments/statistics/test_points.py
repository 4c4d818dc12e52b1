"""Accuracies are compared in points, by the tests that scipy has for the values as they are."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from experiments.statistics import Sample, compare_points

TWO = ["bare", "box"]


def samples_of(bare, box):
    return [
        Sample(f"{name}{block}", str(block), name, value)
        for name, arm in (("bare", bare), ("box", box))
        for block, value in enumerate(arm)
    ]


def pair_of(bare, box, *, paired=True, unit="1"):
    (pair,) = compare_points(
        samples_of(bare, box), baseline="bare", environments=TWO, paired=paired, unit=unit
    )
    return pair


def accuracies(seed):
    draw = np.random.default_rng(seed)
    n = draw.integers(2, 15, 2)
    return tuple(draw.normal(0.4, 0.02, size).tolist() for size in n)


@pytest.mark.parametrize("paired", [True, False])
def test_intervals_and_p_are_scipys_on_the_raw_scale(paired):
    for seed in range(50):
        bare, box = accuracies(seed)
        if paired:
            n = min(len(bare), len(box))
            bare, box = bare[:n], box[:n]
            test = stats.ttest_rel(box, bare)
        else:
            test = stats.ttest_ind(box, bare, equal_var=False)
        pair = pair_of(bare, box, paired=paired)
        assert pair.difference == pytest.approx(100 * (np.mean(box) - np.mean(bare)), rel=1e-9)
        assert pair.p_difference == pytest.approx(test.pvalue, rel=1e-9)
        for level, interval in ((0.95, pair.ci95), (0.90, pair.ci90)):
            expected = test.confidence_interval(level)
            assert interval == pytest.approx((100 * expected.low, 100 * expected.high), rel=1e-9)
        assert pair.smallest_margin == pytest.approx(max(map(abs, pair.ci90)))


def test_two_runs_have_a_standard_deviation_and_one_has_none():
    pair = pair_of([0.50, 0.52], [0.50, 0.53])
    assert (pair.baseline_sd, pair.environment_sd) == pytest.approx((2 / 2**0.5, 3 / 2**0.5))
    pair = pair_of([0.50], [0.60])
    assert (pair.baseline_sd, pair.environment_sd) == (None, None)


def test_by_hand():
    """Differences of 1, 2 and 3 points: mean 2, SD 1, t(2) at 95 % = 2.919986."""
    pair = pair_of([0.50, 0.51, 0.52], [0.51, 0.53, 0.55])
    assert pair.difference == pytest.approx(2)
    assert pair.ci90 == pytest.approx(
        (2 - 2.919986 / math.sqrt(3), 2 + 2.919986 / math.sqrt(3)), rel=1e-6
    )
    assert (pair.baseline_mean, pair.environment_mean) == pytest.approx((51, 53))
    assert pair.sentence == (
        "box differs by +2.00 points (95 % CI −0.48 to +4.48); "
        "the smallest margin that these runs prove is 3.69 points."
    )


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=2, max_size=6))
def test_a_share_and_per_cent_give_the_same_points(pairs):
    bare, box = ([number / 1000 for number in arm] for arm in zip(*pairs, strict=True))
    share = pair_of(bare, box)
    percent = pair_of([100 * v for v in bare], [100 * v for v in box], unit="%")
    errors = pair_of([1 - v for v in bare], [1 - v for v in box])
    assert percent.difference == pytest.approx(share.difference, abs=1e-9)
    assert errors.difference == pytest.approx(-share.difference, abs=1e-9)
    if share.smallest_margin and percent.smallest_margin and errors.smallest_margin:
        assert percent.smallest_margin == pytest.approx(share.smallest_margin, abs=1e-9)
        assert errors.smallest_margin == pytest.approx(share.smallest_margin, abs=1e-9)


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(
    ("bare", "box", "flaw", "said"),
    [
        ([0.362656], [0.362656], "n = 1", "0.00 points; no inference: a single run cannot"),
        (
            [0.5, 0.5],
            [0.51, 0.51],
            "identical values",
            "+1.00 points; no inference: runs with identical",
        ),
    ],
)
def test_one_run_or_no_spread_gives_no_inference(bare, box, flaw, said, paired):
    pair = pair_of(bare, box, paired=paired)
    assert pair.flaw == flaw
    assert (pair.ci95, pair.ci90, pair.p_difference, pair.smallest_margin) == (None,) * 4
    assert said in pair.sentence


def test_blocks_without_both_are_left_out():
    (pair,) = compare_points(
        [*samples_of([0.1, 0.2, 0.3], [0.2, 0.3]), Sample("x", "9", "box", 0.9)],
        baseline="bare",
        environments=["box"],
        paired=True,
        unit="1",
    )
    assert (pair.n_blocks, pair.dropped_blocks) == (2, ("2", "9"))


def test_without_a_run_there_is_no_difference():
    (pair,) = compare_points([], baseline="bare", environments=TWO, paired=True, unit="1")
    assert pair.difference is None
    assert "no run of box" in pair.sentence


@pytest.mark.parametrize(("value", "unit"), [(1.01, "1"), (-0.1, "1"), (math.nan, "1"), (101, "%")])
def test_what_is_no_accuracy_is_named(value, unit):
    with pytest.raises(ValueError, match=r"Run bare1 \(bare, block 1\)"):
        pair_of([0.5, value], [0.5, 0.6], unit=unit)


def test_seconds_are_no_accuracy():
    with pytest.raises(ValueError, match="not in 's'"):
        pair_of([0.5], [0.5], unit="s")
