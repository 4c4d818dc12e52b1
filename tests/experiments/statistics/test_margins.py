"""Goals and margins: not slower alone, and margins that differ in both directions."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.weightstats import ttost_paired

from experiments.statistics import Sample, Verdict, compare
from experiments.statistics.estimates import estimate_paired
from experiments.statistics.interim_analyses import get_level, simulate_course
from experiments.statistics.margins import Goal, Margin, describe_bounds
from experiments.statistics.multiple_comparisons import correct_by_holm
from experiments.statistics.planner import (
    compute_equivalence_power,
    compute_smallest_margin,
    count_repeats_needed,
    expect_estimate,
)
from experiments.statistics.values import InterimAnalysis, Stamp
from experiments.statistics.verdicts import (
    DETECTABLE,
    DETECTED_FASTER,
    compute_chance_of_decision,
    decide,
)

NOT_SLOWER = Margin.make(Goal.NOT_SLOWER, 0.02)
UNEVEN = Margin(slower=0.05, faster=0.02)
logs = st.lists(st.floats(-0.1, 0.1), min_size=3, max_size=9)


def compare_ratios(ratios, margin=NOT_SLOWER, *, better="lower", **options):
    """Compare blocks whose environment takes so many times as long as the baseline."""
    ratios = [1 / ratio for ratio in ratios] if better == "higher" else ratios
    samples = [
        Sample(f"{block}-{name}", str(block), name, value, repeat=block + 1)
        for block, ratio in enumerate(ratios)
        for name, value in (("bare", 10.0), ("box", 10.0 * ratio))
    ]
    (pair,) = compare(
        samples,
        baseline="bare",
        environments=["box"],
        margin=margin,
        better=better,
        paired=True,
        unit="s" if better == "lower" else "images/s",
        **options,
    )
    return pair


@pytest.mark.parametrize("wrong", [0, -0.02, math.nan, math.inf, -math.inf])
def test_a_margin_is_a_positive_fraction(wrong):
    with pytest.raises(ValueError, match="A margin is a positive fraction"):
        Margin.make(Goal.NOT_SLOWER, wrong)
    with pytest.raises(ValueError, match="A margin is a positive fraction"):
        compare_ratios([1.0, 1.01, 1.02], wrong)
    if wrong != math.inf:
        with pytest.raises(ValueError, match="A margin is a positive fraction"):
            Margin(0.02, wrong)


@pytest.mark.parametrize("margin", [1.0, 3.0])
def test_a_margin_of_100_percent_and_more_is_a_margin(margin):
    assert compare_ratios([1.9, 1.91, 1.92, 1.93, 1.92], Margin.make("not slower", margin)).verdict
    assert Margin(margin, margin).find_bounds("lower") == (1 / (1 + margin), 1 + margin)


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_not_slower_is_said_of_what_is_faster_too(better):
    pair = compare_ratios([0.80, 0.81, 0.79, 0.80, 0.82], better=better)
    assert (pair.verdict, pair.detail) == (Verdict.NOT_SLOWER, DETECTED_FASTER)
    assert pair.claim == "box is not slower than bare by more than 2 %"
    assert "It is faster (p of a difference" in pair.evidence
    assert pair.smallest_margin == 0
    assert (pair.p_equivalence, pair.p_equivalence_holm) == (None, None)
    known = pair.p_upper_bound if better == "lower" else pair.p_lower_bound
    other = pair.p_lower_bound if better == "lower" else pair.p_upper_bound
    assert (known, other) == (pair.p_not_slower, None)


@pytest.mark.parametrize("better", ["lower", "higher"])
@pytest.mark.parametrize(
    ("ratios", "verdict", "detail"),
    [
        ([1.010, 1.011, 1.009, 1.010, 1.012], Verdict.NOT_SLOWER, DETECTABLE),
        ([0.99, 1.01, 1.0, 1.005, 0.995], Verdict.NOT_SLOWER, ""),
        ([1.10, 1.11, 1.09, 1.10, 1.12], Verdict.SLOWER, "beyond margin"),
        ([1.02, 1.03, 1.01, 1.02, 1.025], Verdict.SLOWER, "size against the margin unresolved"),
        ([0.9, 1.1, 1.0, 1.05, 0.95], Verdict.INCONCLUSIVE, ""),
        ([1.01, 1.01, 1.01], Verdict.NO_INFERENCE, "identical values"),
        ([1.01], Verdict.NO_INFERENCE, "n = 1"),
    ],
)
def test_the_verdicts_where_not_slower_is_to_be_shown(better, ratios, verdict, detail):
    pair = compare_ratios(ratios, better=better)
    assert (pair.verdict, pair.detail) == (verdict, detail)


def test_the_bounds_are_named_on_the_side_that_costs():
    ratios = [1.10, 1.11, 1.09, 1.10, 1.12]
    assert "the margin of 2 % (ratios up to 1.020)" in compare_ratios(ratios).evidence
    of_rate = compare_ratios(ratios, better="higher")
    assert "the margin of 2 % (ratios from 0.980 on)" in of_rate.evidence
    assert describe_bounds(Margin.of(0.02).find_bounds(None)) == "ratios 0.980 to 1.020"


@given(logs, st.sampled_from(["lower", "higher"]), st.sampled_from([0.05, 0.0294]))
def test_not_slower_exactly_when_the_one_end_of_the_interval_lies_below_the_margin(
    differences, better, alpha
):
    estimate = estimate_paired([0.0] * len(differences), differences)
    verdict, _ = decide(estimate, NOT_SLOWER, better, alpha)
    if estimate.flaw:
        assert verdict is Verdict.NO_INFERENCE
        return
    low, high = estimate.log_interval(1 - 2 * alpha)
    cost = high if better == "lower" else -low
    assert (verdict is Verdict.NOT_SLOWER) == (cost < math.log1p(0.02))
    assert verdict is not Verdict.FASTER
    # Whatever is equivalent is not slower; so equivalence is never easier to show.
    if decide(estimate, 0.02, better, alpha)[0] is Verdict.EQUIVALENT:
        assert verdict is Verdict.NOT_SLOWER


def test_the_one_sided_p_is_that_of_scipy():
    ratios = [1.012, 1.004, 1.02, 0.997, 1.008, 1.011]
    pair = compare_ratios(ratios)
    test = stats.ttest_1samp(np.log(ratios), math.log(1.02), alternative="less")
    assert pair.p_not_slower == pytest.approx(test.pvalue, rel=1e-10)


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_an_uneven_margin_is_tested_as_statsmodels_does(better):
    ratios = [1.012, 1.034, 1.02, 1.027, 1.018, 1.031]
    pair = compare_ratios(ratios, UNEVEN, better=better)
    bounds = UNEVEN.find_bounds(better)
    assert bounds == pytest.approx((1 / 1.02, 1.05) if better == "lower" else (1 / 1.05, 1.02))
    values = [10 * (ratio if better == "lower" else 1 / ratio) for ratio in ratios]
    p, (_, p_lower, _), (_, p_upper, _) = ttost_paired(
        np.array(values), np.full(6, 10.0), *bounds, transform=np.log
    )
    assert pair.verdict is Verdict.EQUIVALENT
    assert "equivalent to bare within 2 % faster to 5 % slower" in pair.sentence
    found = (pair.p_equivalence, pair.p_lower_bound, pair.p_upper_bound)
    assert found == pytest.approx((p, p_lower, p_upper), rel=1e-9)
    assert compare_ratios(ratios, 0.02, better=better).verdict is Verdict.SLOWER


@given(logs, st.sampled_from([0.02, 0.3]))
def test_an_uneven_margin_of_equal_ends_decides_as_one_number(differences, margin):
    estimate = estimate_paired([0.0] * len(differences), differences)
    for better in ("lower", "higher"):
        assert decide(estimate, Margin(margin, margin), better) == decide(estimate, margin, better)


def test_interim_analyses_decide_by_one_end_of_their_wider_interval():
    ratios = [1.012, 1.004, 1.03, 0.99, 1.008, 1.011, 1.013, 1.001, 0.995, 1.02]
    once = compare_ratios(ratios)
    alpha = get_level(5)
    interim = compare_ratios(ratios, interim_analysis=InterimAnalysis(number=1, of=5, alpha=alpha))
    assert once.p_not_slower == interim.p_not_slower
    assert interim.verdict is (
        Verdict.NOT_SLOWER if interim.p_not_slower < alpha else Verdict.INCONCLUSIVE
    )
    assert interim.smallest_margin > once.smallest_margin


def test_holm_corrects_the_p_of_not_slower():
    weak = compare_ratios([1.0, 1.03, 0.985, 1.01, 0.99, 0.975])
    assert weak.verdict is Verdict.NOT_SLOWER
    assert weak.p_not_slower > 0.0125
    corrected = correct_by_holm([weak] * 4)
    assert corrected[0].p_not_slower_holm == pytest.approx(4 * weak.p_not_slower)
    assert corrected[0].p_equivalence_holm is None
    assert Stamp.NOT_AFTER_HOLM in corrected[0].stamps
    assert replace(weak, p_not_slower=0.01).p_goal == 0.01


@pytest.mark.parametrize(("sd", "repeats"), [(0.01, 6), (0.02, 8)])
def test_the_power_of_not_slower_is_that_of_a_noncentral_t(sd, repeats):
    truth = expect_estimate(sd, repeats, paired=True)
    df, away = repeats - 1, math.log(1.02) / (sd / math.sqrt(repeats))
    expected = stats.nct.sf(stats.t.ppf(0.95, df), df, away)
    assert compute_equivalence_power(truth, NOT_SLOWER) == pytest.approx(expected, abs=2e-4)


def test_not_slower_takes_fewer_repeats_than_equivalence():
    for paired in (True, False):
        needed = count_repeats_needed(0.03, NOT_SLOWER, paired=paired)
        assert needed is not None
        assert needed < count_repeats_needed(0.03, 0.02, paired=paired)
        n = needed + 2
        smallest = compute_smallest_margin(0.01, n, paired=paired, goal=Goal.NOT_SLOWER)
        assert smallest < compute_smallest_margin(0.01, n, paired=paired)
        truth = expect_estimate(0.01, n, paired=paired)
        assert compute_equivalence_power(
            truth, Margin.make(Goal.NOT_SLOWER, smallest)
        ) == pytest.approx(0.8, abs=1e-3)


def test_the_simulated_course_of_interim_analyses_knows_the_goal():
    truth = expect_estimate(0.02, 10, paired=True)
    one_sided, two_sided = (
        simulate_course(truth, margin, repeats=10, analyses=2) for margin in (NOT_SLOWER, 0.02)
    )
    assert one_sided.repeats < two_sided.repeats
    assert one_sided.equivalent > two_sided.equivalent


@pytest.mark.parametrize("margin", [NOT_SLOWER, UNEVEN], ids=["not slower", "uneven"])
@pytest.mark.parametrize("better", ["lower", "higher"])
@pytest.mark.parametrize("ratio", [0.99, 1.0, 1.03])
def test_the_chance_of_a_decision_is_what_happens(margin, better, ratio):
    n, sd = 6, 0.015
    truth = expect_estimate(sd, n, paired=True, ratio=ratio)
    draw = np.random.default_rng(5)
    means = draw.normal(math.log(ratio), sd / math.sqrt(n), 40_000)
    errors = sd / math.sqrt(n) * np.sqrt(draw.chisquare(n - 1, 40_000) / (n - 1))
    narrow, wide = (stats.t.ppf(share, n - 1) * errors for share in (0.95, 0.975))
    low, high = margin.find_log_bounds(better)
    decided = ((means - narrow > low) & (means + narrow < high)) | (abs(means) > wide)
    assert compute_chance_of_decision(truth, margin, better=better) == pytest.approx(
        decided.mean(), abs=0.01
    )
