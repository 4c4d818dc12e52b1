"""Planned numbers of repeats are those of the reference tables, and of simulated experiments."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import stdtrit
from statsmodels.stats.power import TTestIndPower, TTestPower

from experiments.statistics.estimates import Arm, Estimate
from experiments.statistics.planner import (
    compute_difference_power,
    compute_equivalence_power,
    compute_smallest_margin,
    compute_upper_bound_factor,
    count_repeats_needed,
    count_repeats_to_detect,
    expect_estimate,
)
from experiments.statistics.verdicts import compute_chance_of_decision

MARGINS = (0.01, 0.02, 0.05)


def sd_of_logs(cv):
    """What the table's CV means in its columns of equivalence: that of a lognormal (PowerTOST)."""
    return math.sqrt(math.log1p(cv**2))


# CV: runs of each environment to detect 1, 2, 5 %; to prove 1, 2, 5 %; 2 % if the true ratio is
# 1.01; 2 % when Holm has 18 cells to correct for. Some are one more than in the reference with
# its pooled variances: Welch's, which is what Tare does, has fewer degrees of freedom
# (see test_the_power_of_welchs_test_is_what_happens).
INDEPENDENT = {
    0.0025: ((3, 3, 2), (3, 2, 2), 3, 4),
    0.005: ((6, 3, 3), (6, 3, 2), 5, 5),
    0.01: ((17, 6, 3), (19, 6, 3), 14, 11),
    0.02: ((65, 18, 5), (70, 19, 4), 52, 36),
    0.03: ((144, 38, 8), (157, 41, 8), 116, 78),
    0.05: ((398, 102, 18), (433, 110, 19), 319, 212),
}
# SD of the log-ratios of blocks: blocks to detect and to prove 1, 2, 5 %.
PAIRED = {
    0.0025: ((3, 3, 2), (3, 2, 2)),
    0.005: ((5, 3, 3), (4, 3, 2)),
    0.01: ((11, 5, 3), (11, 4, 3)),
    0.02: ((34, 11, 4), (36, 11, 4)),
    0.03: ((74, 21, 6), (80, 22, 5)),
}


@pytest.mark.parametrize("cv", INDEPENDENT)
def test_independent_runs_needed_are_those_of_the_table(cv):
    detect, prove, off_by_1, after_holm = INDEPENDENT[cv]
    assert tuple(count_repeats_to_detect(cv, m, paired=False) for m in MARGINS) == detect
    sd = sd_of_logs(cv)
    assert tuple(count_repeats_needed(sd, m, paired=False) for m in MARGINS) == prove
    assert count_repeats_needed(sd, 0.02, paired=False, alpha=0.05 / 18) == after_holm
    for n, enough in ((off_by_1, True), (off_by_1 - 1, False)):
        truth = expect_estimate(sd, n, paired=False, ratio=1.01)
        assert (compute_equivalence_power(truth, 0.02) >= 0.8) is enough


@pytest.mark.parametrize("cv", PAIRED)
def test_blocks_needed_are_those_of_the_table(cv):
    detect, prove = PAIRED[cv]
    assert tuple(count_repeats_to_detect(cv, m, paired=True) for m in MARGINS) == detect
    assert tuple(count_repeats_needed(cv, m, paired=True) for m in MARGINS) == prove


@pytest.mark.parametrize(("sd", "n", "paired"), [(0.01, 3, True)])
def test_where_the_reference_saw_nan(sd, n, paired):
    """A difference of 5 %, simulated: these repeats are enough."""
    truth = expect_estimate(sd, n, paired=paired, ratio=1.05)
    draw = np.random.default_rng(n)
    means = draw.normal(truth.log_ratio, truth.se, 100_000)
    errors = truth.se * np.sqrt(draw.chisquare(truth.df, 100_000) / truth.df)
    found = (np.abs(means) > stats.t.ppf(0.975, truth.df) * errors).mean()
    assert compute_difference_power(truth) == pytest.approx(found, abs=0.003)
    assert found > 0.9


@pytest.mark.parametrize(("n", "factor"), [(3, 2.12), (5, 1.56), (10, 1.29), (20, 1.18)])
def test_a_pilot_is_trusted_as_little_as_it_deserves(n, factor):
    assert round(compute_upper_bound_factor(n - 1), 2) == factor


@pytest.mark.parametrize("n", [3, 5, 17, 60])
@pytest.mark.parametrize("effect", [0.3, 0.6, 1.0])
def test_the_power_to_detect_is_that_of_statsmodels(n, effect):
    ratio = math.exp(0.01 * effect)
    expected = TTestPower().power(effect, n, 0.05)
    power = compute_difference_power(expect_estimate(0.01, n, paired=True, ratio=ratio))
    assert power == pytest.approx(float(expected), abs=1e-4)
    pooled = TTestIndPower().power(effect, n, 0.05)
    power = compute_difference_power(expect_estimate(0.01, n, paired=False, ratio=ratio))
    # Welch's test has fewer degrees of freedom than the one that takes both spreads for the same.
    assert power < pooled
    assert power == pytest.approx(float(pooled), abs=1e-3 if n == 60 else 0.05)


@pytest.mark.parametrize(("n", "ratio"), [(2, 1.0), (3, 1.0), (5, 1.01), (12, 0.99)])
def test_the_power_to_prove_is_what_happens(n, ratio):
    """20,000 experiments whose mean and standard error are drawn from their distributions."""
    draw = np.random.default_rng(n)
    truth = expect_estimate(0.01, n, paired=True, ratio=ratio)
    means = draw.normal(truth.log_ratio, truth.se, 20_000)
    errors = truth.se * np.sqrt(draw.chisquare(truth.df, 20_000) / truth.df)
    half = stats.t.ppf(0.95, truth.df) * errors
    proved = (np.abs(means) + half < math.log1p(0.02)).mean()
    assert compute_equivalence_power(truth, 0.02) == pytest.approx(proved, abs=0.012)


DRAWS = 100_000
SIZES = [(2, 2), (3, 3), (5, 5), (20, 20), (2, 5), (3, 20)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("sd_ratio", [1, 2, 4])
def test_the_power_of_welchs_test_is_what_happens(sizes, sd_ratio):
    """Both variances are drawn, and the degrees of freedom are those that an experiment sees.

    Within 0.005, three Monte-Carlo standard errors, whatever the margin and the true ratio.
    """
    draw = np.random.default_rng([*sizes, sd_ratio])
    sds = (0.01, 0.01 / sd_ratio)
    variances = [
        sd**2 / n * draw.chisquare(n - 1, DRAWS) / (n - 1) for sd, n in zip(sds, sizes, strict=True)
    ]
    squares = [v**2 / (n - 1) for v, n in zip(variances, sizes, strict=True)]
    se, df = np.sqrt(sum(variances)), sum(variances) ** 2 / sum(squares)
    one_sided, two_sided = stdtrit(df, 0.95), stdtrit(df, 0.975)
    noise = draw.normal(0, 1, DRAWS)
    for ratio in (1.0, 1.01):
        arms = tuple(Arm(sd**2, n) for sd, n in zip(sds, sizes, strict=True))
        truth = Estimate(math.log(ratio), arms)
        seen = np.abs(truth.log_ratio + truth.se * noise)
        differs = seen > two_sided * se
        assert compute_difference_power(truth) == pytest.approx(differs.mean(), abs=0.005)
        for margin in (0.005, 0.02, 0.05):
            proved = seen < math.log1p(margin) - one_sided * se
            assert compute_equivalence_power(truth, margin) == pytest.approx(
                proved.mean(), abs=0.005
            )
            decided = compute_chance_of_decision(truth, margin)
            assert decided == pytest.approx((proved | differs).mean(), abs=0.005)


def test_two_runs_of_each_are_not_promised_what_pooled_variances_would_give():
    assert compute_equivalence_power(
        expect_estimate(0.0025, 2, paired=False), 0.02
    ) == pytest.approx(0.895, abs=0.005)


@pytest.mark.parametrize("cv", [0.002, 0.009, 0.05])
@pytest.mark.parametrize("paired", [True, False])
def test_what_is_provable_and_what_is_needed_agree(cv, paired):
    for repeats in (2, 5, 20):
        margin = compute_smallest_margin(cv, repeats, paired=paired)
        assert count_repeats_needed(cv, margin * 1.001, paired=paired) <= repeats
        if repeats > 2:
            assert count_repeats_needed(cv, margin * 0.999, paired=paired) > repeats


def test_more_repeats_prove_more_and_noise_proves_less():
    margins = [compute_smallest_margin(0.01, n, paired=True) for n in range(2, 30)]
    assert margins == sorted(margins, reverse=True)
    assert compute_smallest_margin(0.02, 5, paired=True) > compute_smallest_margin(
        0.01, 5, paired=True
    )


def test_what_a_thousand_repeats_cannot_prove_has_no_number():
    assert count_repeats_needed(0.5, 0.01, paired=True) is None
    assert count_repeats_to_detect(0.5, 0.01, paired=False) is None
    assert math.isfinite(compute_smallest_margin(400.0, 2, paired=True))


def test_a_plan_is_an_estimate_of_what_is_to_come():
    assert expect_estimate(0.01, 5, paired=False, ratio=1.02) == Estimate(
        math.log(1.02), (Arm(0.0001, 5), Arm(0.0001, 5))
    )
    for cv, repeats in ((0.0, 5), (math.nan, 5), (0.01, 1)):
        with pytest.raises(ValueError, match=r"not|no spread"):
            expect_estimate(cv, repeats, paired=True)
