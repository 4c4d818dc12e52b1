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
    list_bins,
    make_band,
    take_quantiles,
    take_stretches,
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


@given(st.integers(1, 5000), st.integers(1, 40))
def test_bins_hold_every_step_once_and_none_is_shorter_than_half_of_the_others(last, size):
    bins = list_bins(last, size)
    assert [step for first, end in bins for step in range(first, end + 1)] == [*range(1, last + 1)]
    lengths = [end - first + 1 for first, end in bins]
    assert set(lengths[:-1]) <= {size}
    assert len(bins) == 1 or size / 2 <= lengths[-1] < 1.5 * size


def test_a_last_bin_of_one_step_is_part_of_the_one_before_it():
    runs = [TimedRun(str(run), [1.0] * 50 + [9.0]) for run in range(3)]
    trace = trace_steps("bare", runs)
    assert trace.bins[-2:] == [(41, 45), (46, 51)]
    assert trace.band.x[-2:] == [43.0, 48.5]
    assert trace.band.median == [1.0] * 10, "one slow step of six is no median"
    assert trace_steps("bare", [TimedRun(run, [1.0] * 53) for run in "abc"]).bins[-1] == (51, 53)


@given(
    arrays(float, st.tuples(st.integers(1, 4), st.integers(1, 30)), elements=VALUES),
    st.integers(1, 9),
)
def test_stretches_are_medians_of_neighbouring_columns(table, most):
    x, medians = take_stretches(range(table.shape[1]), table, most)
    assert medians.shape == (len(table), len(x)) == (len(table), min(most, table.shape[1]))
    parts = np.array_split(np.arange(table.shape[1]), len(x))
    assert sorted(map(len, parts))[-1] - sorted(map(len, parts))[0] <= 1
    assert list(x) == sorted(x)
    for row, medians_of_row in zip(table, medians, strict=True):
        columns = np.arange(table.shape[1]) * len(x) // table.shape[1]
        for place, median in enumerate(medians_of_row):
            known = row[(columns == place) & ~np.isnan(row)]
            wanted = np.median(known) if len(known) else math.nan
            assert median == pytest.approx(wanted, rel=1e-9, abs=1e-9, nan_ok=True)


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
