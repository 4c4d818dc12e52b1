"""Steps are for the eye: thinned honestly, compared bitwise, and never tested."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.statistics.steps import (
    MOST_POINTS,
    MOST_RANKS,
    Trained,
    compare_losses,
    describe_agreements,
    pool_steps,
    read_array,
)

TWO = ["bare", "box"]


@given(st.lists(st.lists(st.floats(1e-6, 1e6), max_size=50), max_size=5))
def test_every_point_of_a_tail_is_a_measured_step_and_its_share_is_exact(runs):
    found = pool_steps("bare", runs)
    steps = sorted(step for run in runs for step in run)
    if not steps:
        assert found is None
        return
    assert (found.steps, found.runs) == (len(steps), sum(bool(run) for run in runs))
    assert found.values[0] == pytest.approx(steps[0], rel=1e-8)
    assert found.values[-1] == pytest.approx(steps[-1], rel=1e-8)
    for value, share in zip(found.values, found.shares, strict=True):
        rank = round(share * len(steps))
        assert value == pytest.approx(steps[-rank], rel=1e-8)
        assert share == pytest.approx(rank / len(steps), rel=1e-8)
    assert found.quantiles[1.0] == steps[-1]
    assert found.quantiles[0.5] == steps[-(-len(steps) // 2) - 1]


def test_a_million_steps_are_few_points_with_the_rarest_all_among_them():
    steps = np.random.default_rng(1).lognormal(size=(100, 10_000))
    found = pool_steps("bare", steps)
    assert len(found.values) <= MOST_RANKS
    assert found.values[-10:] == pytest.approx(np.sort(steps, axis=None)[-10:].tolist(), rel=1e-8)


def test_an_array_that_holds_null_is_refused():
    with pytest.raises(ValueError, match="NULL"):
        read_array(b"\0\0\0\1\0\0\0\1" + bytes(24))


def of(bare, box, seeds=(1, 1)):
    rows = [
        Trained(f"{name}-{number}", name, seed, values)
        for name, runs, seed in zip(TWO, (bare, box), seeds, strict=True)
        for number, values in enumerate(runs)
    ]
    steps = max((len(row.losses) for row in rows), default=0)
    return compare_losses(rows, environments=TWO, runs=len(rows), steps=steps)


def said(bare, box, seeds=(1, 1)):
    return describe_agreements(of(bare, box, seeds).agreements, baseline="bare")


def test_bitwise_equal():
    same = [0.3, 0.2, 0.1]
    assert said([same, same], [same, same, same]) == [
        "bare: bitwise equal to its first run in its only other run.",
        "box: bitwise equal to bare in all 3 runs.",
    ]


def test_the_first_step_that_differs_and_the_largest_difference_are_said():
    words = said([[1.0, 0.5, 0.25]], [[1.0, 0.5, 0.25], [1.0, 0.5, 0.2], [1.0, 0.500001, 0.25]])
    assert words == [
        "bare has one run of this seed: whether it is bitwise reproducible is not known.",
        "box: differs from bare in 2 of 3 runs, first at step 2; the largest relative difference "
        "is 0.2.",
    ]


def test_one_run_of_each_seed_is_compared_with_its_own():
    rows = [
        Trained(
            f"{name}{seed}", name, seed, [1.0 / seed, 0.5 / seed * (1 + (name == "box") * seed)]
        )
        for name in TWO
        for seed in (1, 2)
    ]
    found = compare_losses(rows, environments=TWO, runs=4, steps=2)
    words = describe_agreements(found.agreements, baseline="bare")
    which = "bare has one run of each of 2 seeds: whether it is bitwise reproducible"
    assert words[0].startswith(which)
    assert words[1].startswith("box: differs from bare in both runs, first at step 2;")


def test_the_last_bit_counts():
    (_, words) = said([[0.1]], [[np.nextafter(0.1, 1)]])
    assert words.startswith("box: differs from bare in its only run, first at step 1;")
    assert words.endswith("1.4e-16.")


def test_a_baseline_that_does_not_repeat_itself_is_told_first():
    words = said([[1.0, 0.5], [1.0, 0.4]], [[1.0, 0.5]])
    assert words[0] == (
        "bare: differs from its first run in its only other run, first at step 2; the largest "
        "relative difference is 0.2."
    )


def test_other_seeds_are_not_compared_and_other_lengths_are_said():
    assert said([[1.0]], [[1.0]], seeds=(1, 2))[1] == "box: no run of bare has the same seed."
    assert said([[1.0, 0.5]], [[1.0]])[1] == (
        "box: equal to bare as far as both go, but in its only run the number of steps differs."
    )


def test_many_runs_are_thinned_to_the_same_steps_with_first_and_last():
    runs = [[1 / (step + number + 1) for step in range(1000)] for number in range(100)]
    found = of(runs, runs)
    assert sum(len(curve.x) for curve in found.curves) <= MOST_POINTS
    assert {tuple(curve.x) for curve in found.curves} == {tuple(found.medians[0].x)}
    assert (found.curves[0].x[0], found.curves[0].x[-1]) == (1, 1000)
    assert len(found.curves[0].x) == found.drawn_steps < found.steps == 1000
    assert found.medians[0].y[0] == pytest.approx(np.median([run[0] for run in runs]), rel=1e-8)


def test_few_runs_are_drawn_whole_and_the_median_is_of_the_runs_that_got_so_far():
    found = of([[3.0, 2.0, 1.0], [5.0]], [])
    assert [list(curve.y) for curve in found.curves] == [[3.0, 2.0, 1.0], [5.0]]
    (median,) = found.medians
    assert (list(median.x), list(median.y)) == ([1, 2, 3], [4.0, 2.0, 1.0])


def test_without_a_seed_nothing_is_compared():
    assert of([[1.0]], [[1.0]], seeds=(None, None)).agreements == []


def test_a_logged_loss_stands_at_its_step_and_other_steps_have_no_median():
    rows = [
        Trained("a", "bare", None, [3.0, 2.0], [10, 20]),
        Trained("b", "bare", None, [4.0, 2.0, 1.0], [10, 20, 30]),
        Trained("c", "bare", None, [9.0], [15]),
    ]
    found = compare_losses(rows, environments=TWO, runs=3, steps=3)
    assert [list(curve.x) for curve in found.curves] == [[10, 20], [10, 20, 30], [15]]
    (median,) = found.medians
    assert (list(median.x), list(median.y)) == ([10, 20, 30], [3.5, 2.0, 1.0])


def test_nothing_is_no_curve():
    found = of([], [])
    assert (found.curves, found.medians, found.agreements) == ([], [], [])
