"""Ratios, intervals and p values are those of scipy, statsmodels and pingouin, and as published."""

import math

import numpy as np
import pingouin
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.weightstats import ttost_ind, ttost_paired

from experiments.statistics.estimates import (
    Summary,
    estimate_from_summary,
    estimate_paired,
    estimate_paired_without_each,
    estimate_unpaired,
    estimate_unpaired_without_each,
)

MARGIN = 0.02


def data_set(seed):
    """Runs with a random spread, effect and number; every fourth set is very quiet."""
    draw = np.random.default_rng(seed)
    spread = 10 ** draw.uniform(-4 if seed % 4 == 0 else -2.5, -0.5)
    n_baseline, n_environment = draw.integers(2, 30, 2)
    baseline = draw.lognormal(draw.uniform(-8, 8), spread, n_baseline)
    environment = baseline.mean() * draw.lognormal(spread, spread * 2, n_environment)
    return baseline, environment


DATA_SETS = [data_set(seed) for seed in range(200)]


def assert_same(estimate, test, tost):
    close = {"rel": 1e-10, "abs": 1e-300}
    p_equivalence, (_, p_lower, df), (_, p_upper, _) = tost
    bounds = (-math.log1p(MARGIN), math.log1p(MARGIN))
    one_sided = estimate.compute_p_of_bounds(bounds)
    assert one_sided == pytest.approx((float(p_lower), float(p_upper)), **close)
    assert max(one_sided) == estimate.p_equivalence(MARGIN)
    assert estimate.df == pytest.approx(float(df), **close)
    assert estimate.p_difference == pytest.approx(float(test.pvalue), **close)
    assert estimate.p_equivalence(MARGIN) == pytest.approx(float(p_equivalence), **close)
    assert estimate.df == pytest.approx(float(test.df), **close)
    for level in (0.90, 0.95):
        interval = test.confidence_interval(confidence_level=level)
        assert estimate.log_interval(level) == pytest.approx(
            (interval.low, interval.high), rel=1e-10, abs=1e-14
        )
        assert estimate.interval(level) == pytest.approx(
            (math.exp(interval.low), math.exp(interval.high)), rel=1e-10
        )


def test_unpaired_is_welch_on_logs_as_scipy_and_statsmodels_have_it():
    for baseline, environment in DATA_SETS:
        estimate = estimate_unpaired(np.log(baseline).tolist(), np.log(environment).tolist())
        welch = stats.ttest_ind(np.log(environment), np.log(baseline), equal_var=False)
        tost = ttost_ind(
            environment, baseline, 1 / (1 + MARGIN), 1 + MARGIN, usevar="unequal", transform=np.log
        )
        assert_same(estimate, welch, tost)


def test_paired_is_the_t_test_of_log_ratios_as_scipy_and_statsmodels_have_it():
    for baseline, environment in DATA_SETS:
        n = min(len(baseline), len(environment))
        baseline, environment = baseline[:n], environment[:n]
        estimate = estimate_paired(np.log(baseline).tolist(), np.log(environment).tolist())
        related = stats.ttest_rel(np.log(environment), np.log(baseline))
        tost = ttost_paired(environment, baseline, 1 / (1 + MARGIN), 1 + MARGIN, transform=np.log)
        assert_same(estimate, related, tost)


def test_the_numbers_of_r_for_the_sleep_data():
    """What R prints of `t.test(extra ~ group, data = sleep, paired = TRUE)`, in its own manual."""
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    estimate = estimate_paired(second, first)
    assert estimate.df == 9
    assert estimate.log_ratio == pytest.approx(-1.58)
    assert estimate.log_ratio / estimate.se == pytest.approx(-4.0621, abs=5e-5)
    assert estimate.log_interval(0.95) == pytest.approx((-2.4598858, -0.7001142), abs=5e-8)
    p_lower, p_upper = estimate.compute_p_of_bounds((0.0, 0.0))
    assert (p_upper, p_lower) == pytest.approx((0.002833 / 2, 1 - 0.002833 / 2), abs=3e-7)


def test_a_bound_that_is_infinitely_far_away_is_shown_without_doubt():
    estimate = estimate_paired([0.0, 0.1, 0.2], [0.1, 0.1, 0.3])
    p_lower, p_upper = estimate.compute_p_of_bounds((-math.inf, math.log1p(MARGIN)))
    assert p_lower == 0
    assert p_upper == estimate.compute_p_of_bounds((-1.0, math.log1p(MARGIN)))[1]


def assert_pingouin_agrees(estimate, baseline, environment, *, paired):
    """Unless told not to, its TOST pools the variances and its intervals are rounded."""
    logs_e, logs_b = np.log(environment), np.log(baseline)
    options = {"paired": paired, "correction": not paired}
    test = pingouin.ttest(logs_e, logs_b, **options).iloc[0]
    tost = pingouin.tost(logs_e, logs_b, bound=math.log1p(MARGIN), **options).iloc[0]
    close = {"rel": 1e-10, "abs": 1e-300}
    assert estimate.p_difference == pytest.approx(test["p_val"], **close)
    assert estimate.df == pytest.approx(test["dof"], **close)
    assert estimate.p_equivalence(MARGIN) == pytest.approx(tost["pval"], **close)
    low, high = test["CI95"]
    assert estimate.log_interval(0.95) == pytest.approx((low, high), rel=1e-10, abs=1e-14)


def test_pingouin_agrees(monkeypatch):
    monkeypatch.setitem(pingouin.options, "round.column.CI95", None)
    for baseline, environment in DATA_SETS:
        logs = np.log(baseline).tolist(), np.log(environment).tolist()
        assert_pingouin_agrees(estimate_unpaired(*logs), baseline, environment, paired=False)
        n = min(len(baseline), len(environment))
        baseline, environment = baseline[:n], environment[:n]
        logs = np.log(baseline).tolist(), np.log(environment).tolist()
        assert_pingouin_agrees(estimate_paired(*logs), baseline, environment, paired=True)


def test_paired_by_hand():
    """Log-ratios 0.01, 0.02, 0.03: mean 0.02, SD 0.01, t(2) at 97.5 % = 4.302653."""
    estimate = estimate_paired([1.0, 2.0, 3.0], [1.01, 2.02, 3.03])
    assert estimate.log_ratio == pytest.approx(0.02)
    assert estimate.se == pytest.approx(0.01 / math.sqrt(3))
    assert estimate.df == pytest.approx(2)
    half = 4.302653 * 0.01 / math.sqrt(3)
    assert estimate.log_interval(0.95) == pytest.approx((0.02 - half, 0.02 + half), rel=1e-6)


def test_unpaired_by_hand():
    """Variances 1e-4 and 4e-4 of 3 runs: se² = 5e-4 / 3, df = 25 / (1 + 16) * 2."""
    estimate = estimate_unpaired([0.99, 1.0, 1.01], [1.03, 1.05, 1.07])
    assert estimate.log_ratio == pytest.approx(0.05)
    assert estimate.se == pytest.approx(math.sqrt(5e-4 / 3))
    assert estimate.df == pytest.approx(50 / 17)


TABLE_3 = {
    1: (Summary(3710, 10, 3), Summary(3730, 10, 3)),
    2: (Summary(2390, 30, 3), Summary(2360, 16, 3)),
    4: (Summary(1860, 40, 3), Summary(1880, 10, 3)),
}
"""Published training times, s: bare metal and udocker on 1, 2 and 4 GPUs; mean, SE, n."""


@pytest.mark.parametrize(
    ("gpus", "ratio", "theta", "se", "df", "p", "ci95", "ci90"),
    [
        (1, 1.0054, 0.005376, 0.003802, 4.000, 0.2302, (0.9948, 1.0161), (0.9973, 1.0136)),
        (2, 0.9874, -0.01263, 0.01427, 3.075, 0.4397, (0.9442, 1.0327), (0.9552, 1.0208)),
        (4, 1.0108, 0.01070, 0.02215, 2.244, 0.6723, (0.9274, 1.1016), (0.9518, 1.0734)),
    ],
)
def test_the_published_table_gives_the_reference_ratios(gpus, ratio, theta, se, df, p, ci95, ci90):
    estimate = estimate_from_summary(*TABLE_3[gpus])
    assert round(estimate.ratio, 4) == ratio
    assert f"{estimate.log_ratio:.4g}" == f"{theta:.4g}"
    assert f"{estimate.se:.4g}" == f"{se:.4g}"
    assert round(estimate.df, 3) == df
    assert round(estimate.p_difference, 4) == p
    assert tuple(round(end, 4) for end in estimate.interval(0.95)) == ci95
    assert tuple(round(end, 4) for end in estimate.interval(0.90)) == ci90


@pytest.mark.parametrize(
    ("gpus", "at_1", "at_2", "at_5", "smallest"),
    [
        (1, 0.1476, 0.009596, 0.0001678, 1.357),
        (2, 0.5687, 0.3245, 0.04152, 4.694),
        (4, 0.5120, 0.3585, 0.1069, 7.340),
    ],
)
def test_the_published_table_gives_the_reference_equivalence(gpus, at_1, at_2, at_5, smallest):
    estimate = estimate_from_summary(*TABLE_3[gpus])
    for margin, expected in ((0.01, at_1), (0.02, at_2), (0.05, at_5)):
        assert f"{estimate.p_equivalence(margin):.4g}" == f"{expected:.4g}"
    assert round(100 * estimate.smallest_margin, 3) == smallest


def test_a_summary_without_spread_or_runs_gives_no_inference():
    assert estimate_from_summary(Summary(10, 0.1, 1), Summary(10, 0.1, 3)).flaw == "n = 1"
    assert estimate_from_summary(Summary(10, 0, 3), Summary(11, 0, 3)).flaw == "identical values"
    for bad in (Summary(0, 1, 3), Summary(math.nan, 1, 3), Summary(1, -1, 3), Summary(1, 1, 0)):
        with pytest.raises(ValueError, match="positive mean"):
            estimate_from_summary(Summary(10, 0.1, 3), bad)


@given(
    st.lists(
        st.tuples(*[st.sampled_from([-9.0, 0.0, 1e-4, 2e-4, 0.01]) | st.floats(-1, 1)] * 2),
        min_size=2,
        max_size=9,
    )
)
def test_without_each_is_what_the_others_alone_give(pairs):
    """Also where one value made nearly all of the spread, and where the others have none."""
    baseline, environment = (list(arm) for arm in zip(*pairs, strict=True))
    n = len(pairs)
    rest_b, rest_e = ([arm[:i] + arm[i + 1 :] for i in range(n)] for arm in (baseline, environment))
    pairwise = [estimate_paired(b, e) for b, e in zip(rest_b, rest_e, strict=True)]
    apart = [estimate_unpaired(b, environment) for b in rest_b] + [
        estimate_unpaired(baseline, e) for e in rest_e
    ]
    for found, expected in (
        (estimate_paired_without_each(baseline, environment), pairwise),
        (estimate_unpaired_without_each(baseline, environment), apart),
    ):
        for one, other in zip(found, expected, strict=True):
            assert one.log_ratio == pytest.approx(other.log_ratio, rel=1e-9, abs=1e-12)
            assert [arm.n for arm in one.arms] == [arm.n for arm in other.arms]
            for mine, theirs in zip(one.arms, other.arms, strict=True):
                assert mine.variance == pytest.approx(theirs.variance, rel=1e-8, abs=1e-26)
            assert one.flaw == other.flaw


def test_two_wild_runs_still_give_finite_numbers():
    """JSON has no infinity."""
    estimate = estimate_unpaired([-300.0, 300.0], [-300.0, 300.0])
    assert all(math.isfinite(end) for end in (*estimate.interval(0.95), estimate.smallest_margin))
