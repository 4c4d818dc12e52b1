"""Scaling: the published speed-ups, and what no table may pretend."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.statistics.scaling import (
    Level,
    compute_gains,
    compute_ideal,
    make_level_from_moments,
    make_level_from_runs,
)

BARE = ((1, 3710, 10), (2, 2390, 30), (4, 1860, 40))
UDOCKER = ((1, 3730, 10), (2, 2360, 16), (4, 1880, 10))


def table(rows, n=3):
    """Mean and standard error of n runs by number of GPUs."""
    return [
        make_level_from_moments("e", gpus, mean, se * math.sqrt(n), n) for gpus, mean, se in rows
    ]


@pytest.mark.parametrize(
    ("rows", "gpus", "speed_up", "low", "high"),
    [
        (BARE, 2, 1.5523, 1.4751, 1.6335),
        (BARE, 4, 1.9946, 1.8219, 2.1837),
        (UDOCKER, 2, 1.5805, 1.5410, 1.6210),
        (UDOCKER, 4, 1.9840, 1.9465, 2.0223),
    ],
)
def test_the_published_training_times(rows, gpus, speed_up, low, high):
    (gain,) = [
        g for g in compute_gains(table(rows), better="lower", batch="total") if g.level.gpus == gpus
    ]
    assert gain.base.gpus == 1
    assert gain.speed_up == pytest.approx(speed_up, abs=5e-5)
    assert gain.speed_up_ci95 == pytest.approx((low, high), abs=5e-5)
    assert gain.efficiency == pytest.approx(speed_up / gpus, abs=5e-5)
    assert gain.efficiency_ci95 == pytest.approx((low / gpus, high / gpus), abs=5e-5)


def test_weak_scaling_asks_for_the_same_time_and_strong_for_a_share_of_it():
    levels = [make_level_from_runs("e", 1, [1.0, 1.01]), make_level_from_runs("e", 4, [1.25, 1.26])]
    (weak,) = compute_gains(levels, better="lower", batch="per GPU")
    (strong,) = compute_gains(levels, better="lower", batch="total")
    assert weak.efficiency == pytest.approx(strong.speed_up)
    assert weak.speed_up == pytest.approx(4 * strong.speed_up)
    assert compute_ideal(levels[0], 4, better="lower", batch="per GPU") == levels[0].mean
    assert compute_ideal(levels[0], 4, better="lower", batch="total") == levels[0].mean / 4


values = st.lists(st.floats(0.1, 100), min_size=2, max_size=6)


@given(values, values, st.sampled_from([2, 4, 64]), st.floats(1, 1e6))
def test_a_time_and_the_rate_it_stands_for_give_the_same_efficiency(one, many, gpus, work):
    times = [make_level_from_runs("e", 1, one), make_level_from_runs("e", gpus, many)]
    for batch, factor in (("total", 1), ("per GPU", gpus)):
        rates = [
            make_level_from_runs("e", 1, [work / value for value in one]),
            make_level_from_runs("e", gpus, [factor * work / value for value in many]),
        ]
        (of_times,) = compute_gains(times, better="lower", batch=batch)
        for said in (batch, ""):
            (of_rates,) = compute_gains(rates, better="higher", batch=said)
            assert of_rates.efficiency == pytest.approx(of_times.efficiency, rel=1e-9)
            if of_times.efficiency_ci95 and of_rates.efficiency_ci95:
                assert of_rates.efficiency_ci95 == pytest.approx(of_times.efficiency_ci95, rel=1e-6)


def test_a_time_without_whose_batch_it_is_has_neither_speed_up_nor_ideal():
    (gain, _) = compute_gains(table(BARE), better="lower", batch="")
    assert (gain.speed_up, gain.efficiency, gain.efficiency_ci95) == (None, None, None)
    assert gain.flaw == "whose batch it is, is not known"
    assert compute_ideal(table(BARE)[0], 2, better="lower", batch="") is None


def test_a_base_made_with_something_else_is_no_base():
    levels = [
        make_level_from_runs("e", 1, [118.0, 118.1], made_with="TensorFlow 1.10"),
        make_level_from_runs("e", 2, [252.0, 252.1], made_with="TensorFlow 1.12"),
    ]
    (gain,) = compute_gains(levels, better="higher", batch="per GPU")
    assert (gain.speed_up, gain.flaw) == (None, "another machine or framework than the base")


@pytest.mark.parametrize(
    ("level", "flaw"),
    [
        (make_level_from_runs("e", 2, [5.0]), "n = 1"),
        (Level(environment="e", gpus=2, mean=5.0), "no spread or number of runs"),
        (make_level_from_moments("e", 2, 5.0, None, 3), "no spread or number of runs"),
        (make_level_from_moments("e", 2, 5.0, 0.1, 1), "n = 1"),
    ],
)
def test_without_spread_there_is_a_speed_up_but_never_an_interval(level, flaw):
    (gain,) = compute_gains(
        [make_level_from_runs("e", 1, [9.9, 10.1]), level], better="lower", batch="total"
    )
    assert gain.speed_up == pytest.approx(2, rel=1e-3)
    assert (gain.speed_up_ci95, gain.efficiency_ci95, gain.flaw) == (None, None, flaw)
    assert level.ci95 is None


def test_every_environment_starts_from_its_own_smallest_scale():
    levels = [
        make_level_from_runs("a", 2, [1.0]),
        make_level_from_runs("a", 4, [0.5]),
        make_level_from_runs("b", 8, [0.3]),
        make_level_from_runs("b", 4, [0.6]),
    ]
    found = compute_gains(levels, better="lower", batch="total")
    assert [(g.level.environment, g.base.gpus, g.level.gpus) for g in found] == [
        ("a", 2, 4),
        ("b", 4, 8),
    ]
    assert [g.efficiency for g in found] == [pytest.approx(1), pytest.approx(1)]
