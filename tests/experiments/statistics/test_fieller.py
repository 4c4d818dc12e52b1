"""Fieller's interval is what its definition says, and has no end where the baseline may be 0."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from experiments.statistics import Sample, compare
from experiments.statistics.fieller import (
    MeansWithErrors,
    summarise_blocks,
    summarise_published,
    summarise_runs,
)
from experiments.statistics.robust import compute_robustness, compute_robustness_of_means

BY_HAND = MeansWithErrors(
    baseline=10, environment=12, baseline_variance=4, environment_variance=9, df=8
)


def compute_t(means, ratio):
    """Return Student's t of environment - ratio x baseline, whatever the module computes."""
    variance = (
        means.environment_variance
        + ratio**2 * means.baseline_variance
        - 2 * ratio * means.covariance
    )
    return abs(means.environment - ratio * means.baseline) / math.sqrt(variance)


means = st.builds(
    lambda b, e, sd_b, sd_e, correlation, df: MeansWithErrors(
        baseline=b,
        environment=e,
        baseline_variance=sd_b**2,
        environment_variance=sd_e**2,
        covariance=correlation * sd_b * sd_e,
        df=df,
    ),
    st.floats(1, 100),
    st.floats(1, 100),
    st.floats(0.01, 5),
    st.floats(0.01, 5),
    st.floats(-0.99, 0.99),
    st.floats(2, 60),
)


@given(means)
def test_at_each_end_the_difference_is_just_seen(case):
    interval = case.find_interval(0.95)
    limit = stats.t.ppf(0.975, case.df)
    if interval is None:
        assert case.baseline / math.sqrt(case.baseline_variance) <= limit * (1 + 1e-9)
        return
    for end in interval:
        assert compute_t(case, end) == pytest.approx(limit, rel=1e-4)
    assert interval[0] <= case.ratio <= interval[1]
    assert case.sees_a_difference(0.95) == (not interval[0] <= 1 <= interval[1])


def test_it_has_no_end_where_the_baseline_may_be_nothing():
    assert BY_HAND.find_interval(0.95) is not None
    assert BY_HAND.find_interval(0.9999) is None


def test_a_lopsided_interval_by_hand():
    """(10 r - 12)^2 = t^2 (9 + 4 r^2), t = 2.306004 with 8 degrees of freedom."""
    t2 = 2.3060041350333704**2
    a, b, c = 100 - 4 * t2, -240, 144 - 9 * t2
    roots = [(-b + sign * math.sqrt(b**2 - 4 * a * c)) / (2 * a) for sign in (-1, 1)]
    assert BY_HAND.find_interval(0.95) == pytest.approx(tuple(roots), rel=1e-9)
    low, high = roots
    assert high - 1.2 > 1.5 * (1.2 - low), "longer to the right"


def test_published_means_are_those_of_their_runs():
    rng = np.random.default_rng(3)
    baseline, environment = rng.normal(10, 3, 7).tolist(), rng.normal(11, 2, 9).tolist()
    published = summarise_published(
        (statistics.fmean(baseline), statistics.stdev(baseline), 7),
        (statistics.fmean(environment), statistics.stdev(environment), 9),
    )
    assert published == summarise_runs(baseline, environment)
    assert published is not None
    # With the ratio 1 put in, Satterthwaite's df are those of Welch's test.
    even = summarise_published((10, 3, 7), (10, 2, 9))
    assert even is not None
    welch = stats.ttest_ind_from_stats(10, 3, 7, 10, 2, 9, equal_var=False)
    part_b, part_e = 9 / 7, 4 / 9
    assert even.df == pytest.approx((part_b + part_e) ** 2 / (part_b**2 / 6 + part_e**2 / 8))
    assert welch.pvalue == 1


def test_little_spread_gives_the_interval_of_the_logs():
    rng = np.random.default_rng(5)
    baseline, environment = rng.normal(100, 0.5, 12), rng.normal(103, 0.5, 12)
    samples = [
        Sample(run=f"{name}{i}", block=f"{name}{i}", environment=name, value=float(value))
        for name, values in (("bare", baseline), ("apptainer", environment))
        for i, value in enumerate(values)
    ]
    (pair,) = compare(
        samples,
        baseline="bare",
        environments=["apptainer"],
        margin=0.02,
        better="lower",
        paired=False,
        unit="s",
    )
    fieller = compute_robustness(pair, samples).companions[-1]
    assert fieller.name == "Fieller’s interval"
    assert fieller.interval == pytest.approx(pair.ci95, rel=1e-4)
    of_means = compute_robustness_of_means(pair).companions[-1]
    assert of_means.interval == pytest.approx(fieller.interval, rel=1e-12)


@pytest.mark.parametrize("paired", [False, True])
def test_it_holds_the_ratio_of_widely_varying_values_as_often_as_it_says(paired):
    rng = np.random.default_rng(11)
    held, draws = 0, 2000
    for _ in range(draws):
        shared = rng.normal(0, 2, 8) if paired else np.zeros(8)
        baseline = (rng.normal(10, 2.5, 8) + shared).tolist()
        environment = (rng.normal(13, 4, 8) + shared).tolist()
        case = (summarise_blocks if paired else summarise_runs)(baseline, environment)
        interval = case.find_interval(0.95)
        held += interval is None or interval[0] <= 1.3 <= interval[1]
    assert 0.94 <= held / draws <= 0.965


def test_where_nothing_varies_there_is_no_interval():
    assert summarise_blocks([2.0, 2.0], [3.0, 3.0]) is None
    assert summarise_runs([2.0, 2.0], [3.0, 3.0]) is None
    one_varies = summarise_runs([2.0, 2.0], [3.0, 3.2])
    assert one_varies is not None
    assert one_varies.find_interval(0.95) is not None
