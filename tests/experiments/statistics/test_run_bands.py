"""Bands over runs are quantiles of what the runs recorded, and no band is made of two runs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from experiments.statistics.run_bands import (
    MOST_BINS,
    SHARES,
    TimedRun,
    make_band,
    take_quantiles,
    trace_steps,
)
from experiments.statistics.steps import Trained, compare_losses

VALUES = st.one_of(st.floats(-1e6, 1e6), st.just(math.nan))


@given(arrays(float, st.tuples(st.integers(1, 7), st.integers(1, 5)), elements=VALUES))
def test_quantiles_are_those_of_numpy_without_what_is_not_a_number(table):
    for share, found in zip(SHARES, take_quantiles(table), strict=True):
        for column, value in zip(table.T, found, strict=True):
            known = column[~np.isnan(column)]
            if len(known):
                wanted = np.quantile(known, share)
                assert value == pytest.approx(wanted, rel=1e-9, abs=1e-9)
            else:
                assert math.isnan(value)


def test_a_place_with_two_values_is_a_gap():
    table = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, math.nan]])
    band = make_band("bare", ["a", "b", "c"], [1, 2], table)
    assert band.median[0] == 2.0
    assert (band.low[0], band.high[0]) == pytest.approx((1.2, 2.8))
    assert math.isnan(band.low[1])
    assert make_band("bare", ["a", "b"], [1, 2], table[:2]) is None


def test_the_trace_is_the_median_of_bins_then_of_runs():
    runs = [TimedRun(str(run), [run + step % 5 for step in range(50)], None, 5) for run in range(5)]
    trace = trace_steps("bare", runs)
    assert trace.steps_a_bin == 5
    assert trace.band.x == [3.0 + 5 * place for place in range(10)]
    assert trace.band.median == [4.0] * 10, "the third run, whose steps have the median 2 + 2"
    assert trace.band.low == pytest.approx([2.4] * 10)
    assert trace.band.high == pytest.approx([5.6] * 10)
    assert (trace.warm_ups, trace.last) == ((5,) * 5, 50)
    assert trace_steps("bare", runs[:2]) is None


def test_means_of_several_steps_stand_at_their_steps():
    runs = [TimedRun(str(run), [1.0, 2.0, 3.0], [10, 20, 30]) for run in range(3)]
    trace = trace_steps("bare", runs)
    assert (trace.steps_a_bin, trace.last) == (10, 30)
    assert trace.band.x == [5.5, 15.5, 25.5]
    assert trace.band.median == [1.0, 2.0, 3.0]


def test_very_many_steps_have_few_bins_and_a_shorter_run_a_part():
    long = np.random.default_rng(1).lognormal(size=(3, 100_001))
    trace = trace_steps("bare", [*(TimedRun(str(r), v) for r, v in enumerate(long))])
    assert len(trace.band.x) <= MOST_BINS
    assert not any(map(math.isnan, trace.band.median))
    short = [TimedRun(str(run), [1.0] * (40 if run else 20)) for run in range(3)]
    trace = trace_steps("bare", short)
    assert [math.isnan(value) for value in trace.band.median] == [False] * 4 + [True] * 4


def test_losses_have_a_band_of_the_runs_with_the_same_steps():
    rows = [Trained(f"{run}", "bare", None, [float(run), 2.0 * run]) for run in range(1, 6)]
    rows.append(Trained("other", "bare", None, [100.0], [7]))
    rows += [Trained(f"box {run}", "box", None, [1.0, 1.0]) for run in range(2)]
    found = compare_losses(rows, environments=["bare", "box"], runs=len(rows), steps=2)
    (band,) = found.bands
    assert band.environment == "bare"
    assert band.runs == ("1", "2", "3", "4", "5")
    assert band.median == [3.0, 6.0] == list(found.medians[0].y)
    assert band.low == pytest.approx([1.4, 2.8])
    assert band.high == pytest.approx([4.6, 9.2])
