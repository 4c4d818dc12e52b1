"""What a verdict promises, for any numbers."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import chi2

from experiments.statistics import Sample, Verdict, compare
from experiments.statistics.estimates import (
    Arm,
    Estimate,
    Summary,
    estimate_from_summary,
    estimate_unpaired,
)
from experiments.statistics.verdicts import (
    compute_chance_of_decision,
    count_more_needed,
    decide,
    find_likely_range,
)

percents = st.integers(-400, 400).map(lambda number: 1 + number / 1000)
values = st.lists(st.tuples(percents, percents), min_size=2, max_size=8)
margins = st.sampled_from([0.005, 0.01, 0.02, 0.05, 0.2])
directions = st.sampled_from(["lower", "higher"])


def samples_of(pairs, *, scale=1.0):
    return [
        Sample(f"{k}-{environment}", str(k), environment, scale * value)
        for k, (bare, box) in enumerate(pairs)
        for environment, value in (("bare metal", bare), ("udocker", box))
    ]


def pair_of(samples, *, baseline="bare metal", other="udocker", margin=0.02, **options):
    options = {"better": "lower", "paired": True, "unit": "s"} | options
    return compare(samples, baseline=baseline, environments=[other], margin=margin, **options)[0]


@given(values, margins, directions, st.booleans(), st.sampled_from([1e-6, 1e-3, 60, 1e9]))
def test_the_unit_of_the_metric_changes_neither_ratio_nor_verdict(
    pairs, margin, better, paired, scale
):
    options = {"margin": margin, "better": better, "paired": paired}
    plain, scaled = (pair_of(samples_of(pairs, scale=s), **options) for s in (1.0, scale))
    assert scaled.ratio == pytest.approx(plain.ratio, rel=1e-9)
    assume(not on_the_edge(plain))
    assert (scaled.verdict, scaled.stamps) == (plain.verdict, plain.stamps)


@given(values, margins, directions, st.booleans())
def test_swapping_the_arms_inverts_the_ratio_and_mirrors_the_verdict(pairs, margin, better, paired):
    options = {"margin": margin, "better": better, "paired": paired}
    there = pair_of(samples_of(pairs), **options)
    back = pair_of(samples_of(pairs), baseline="udocker", other="bare metal", **options)
    assert back.ratio == pytest.approx(1 / there.ratio)
    assume(not on_the_edge(there))
    mirror = {Verdict.SLOWER: Verdict.FASTER, Verdict.FASTER: Verdict.SLOWER}
    assert back.verdict is mirror.get(there.verdict, there.verdict)
    if there.ci95:
        assert back.ci95 == pytest.approx((1 / there.ci95[1], 1 / there.ci95[0]))
        assert back.p_difference == pytest.approx(there.p_difference, rel=1e-6)
        assert back.p_equivalence == pytest.approx(there.p_equivalence, rel=1e-6)


@given(values, margins, st.booleans())
def test_throughput_and_time_say_the_same_about_the_job(pairs, margin, paired):
    time = pair_of(samples_of(pairs), margin=margin, paired=paired)
    rates = [(1 / bare, 1 / box) for bare, box in pairs]
    rate = pair_of(samples_of(rates), margin=margin, paired=paired, better="higher", unit="1/s")
    assert rate.cost == pytest.approx(time.cost, abs=1e-9)
    assume(not on_the_edge(time))
    assert (rate.verdict, rate.detail) == (time.verdict, time.detail)
    if time.p_difference is not None:
        assert rate.p_difference == pytest.approx(time.p_difference, rel=1e-6)
        assert rate.cost_ci95 == pytest.approx(time.cost_ci95, abs=1e-9)


@given(values, margins, directions, st.booleans())
def test_equivalent_means_that_the_90_percent_interval_lies_inside_the_margin(
    pairs, margin, better, paired
):
    pair = pair_of(samples_of(pairs), margin=margin, better=better, paired=paired)
    if pair.verdict is Verdict.NO_INFERENCE:
        return
    assume(not on_the_edge(pair))
    inside = 1 / (1 + margin) < pair.ci90[0] and pair.ci90[1] < 1 + margin
    assert (pair.verdict is Verdict.EQUIVALENT) is inside
    assert (pair.p_equivalence < 0.05) is inside
    assert (pair.smallest_margin < margin) is inside
    assert pair.ci95[0] <= pair.ci90[0] <= pair.ratio <= pair.ci90[1] <= pair.ci95[1]


@given(values, st.booleans())
def test_a_wider_margin_never_takes_equivalence_away(pairs, paired):
    samples = samples_of(pairs)
    wide = [pair_of(samples, margin=margin, paired=paired) for margin in (0.005, 0.02, 0.05, 0.3)]
    found = [pair.verdict is Verdict.EQUIVALENT for pair in wide]
    assert found == sorted(found)
    if wide[0].p_equivalence is not None:
        ps = [pair.p_equivalence for pair in wide]
        assert ps == sorted(ps, reverse=True)
    assert len({pair.smallest_margin for pair in wide}) == 1


@given(values, st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_the_samples_does_not_matter(pairs, paired, random):
    samples = samples_of(pairs)
    shuffled = samples.copy()
    random.shuffle(shuffled)
    there, again = (pair_of(s, paired=paired) for s in (samples, shuffled))
    assert replace(again, stamps=(), reasons=()) == replace(there, stamps=(), reasons=())
    assert again.stamps == there.stamps


@given(values, margins, directions, st.booleans())
def test_no_significant_difference_is_never_printed(pairs, margin, better, paired):
    pair = pair_of(samples_of(pairs), margin=margin, better=better, paired=paired)
    text = " ".join((pair.sentence, pair.detail, *pair.stamps, *pair.reasons)).lower()
    assert "significant" not in text
    assert "no difference" not in text
    assert pair.sentence.startswith(pair.claim)
    assert pair.sentence.endswith((".", "?"))
    assert len(pair.sentence) < 300
    assert not {"nan", "none", "inf"} & set(text.replace("(", " ").split())


def on_the_edge(pair):
    """Rounding may tip a verdict whose interval ends exactly at the margin or at 1."""
    if pair.ci90 is None:
        return True  # zero spread: told apart from rounding by the size of the values
    edges = (1 / (1 + pair.margin), 1.0, 1 + pair.margin)
    return any(abs(end - edge) < 1e-9 for end in (*pair.ci90, *pair.ci95) for edge in edges)


def estimate_of(low, high, *, n=10):
    """An estimate whose 95 % interval of the ratio is (low, high)."""
    middle = (math.log(low) + math.log(high)) / 2
    unit = Estimate(0.0, (Arm(1.0, n),))
    half = unit.log_interval(0.95)[1]
    return Estimate(middle, (Arm(((math.log(high) - middle) / half) ** 2, n),))


@pytest.mark.parametrize(
    ("low", "high", "lower", "higher", "detail"),
    [
        (0.995, 1.005, Verdict.EQUIVALENT, Verdict.EQUIVALENT, ""),
        (1.005, 1.015, Verdict.EQUIVALENT, Verdict.EQUIVALENT, "difference detectable"),
        (1.03, 1.05, Verdict.SLOWER, Verdict.FASTER, "beyond margin"),
        (0.90, 0.95, Verdict.FASTER, Verdict.SLOWER, "beyond margin"),
        (1.001, 1.04, Verdict.SLOWER, Verdict.FASTER, "size against the margin unresolved"),
        (0.96, 0.999, Verdict.FASTER, Verdict.SLOWER, "size against the margin unresolved"),
        (0.95, 1.05, Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE, ""),
    ],
)
def test_each_rule_of_the_verdict(low, high, lower, higher, detail):
    estimate = estimate_of(low, high)
    assert decide(estimate, 0.02, "lower") == (lower, detail)
    assert decide(estimate, 0.02, "higher") == (higher, detail)


def test_inconclusive_may_still_exclude_a_cost():
    estimate = estimate_of(0.95, 1.01)
    assert decide(estimate, 0.02, "lower") == (Verdict.INCONCLUSIVE, "not slower than the margin")
    assert decide(estimate, 0.02, "higher") == (Verdict.INCONCLUSIVE, "")


@pytest.mark.parametrize(
    ("baseline", "environment", "equivalent_at"),
    [
        (Summary(3710, 10, 3), Summary(3730, 10, 3), {0.02, 0.05}),
        (Summary(2390, 30, 3), Summary(2360, 16, 3), {0.05}),
        (Summary(1860, 40, 3), Summary(1880, 10, 3), set()),
    ],
)
def test_the_published_table_gets_its_verdicts(baseline, environment, equivalent_at):
    estimate = estimate_from_summary(baseline, environment)
    for margin in (0.01, 0.02, 0.05):
        expected = Verdict.EQUIVALENT if margin in equivalent_at else Verdict.INCONCLUSIVE
        assert decide(estimate, margin, "lower")[0] is expected


@pytest.mark.parametrize(
    ("n", "ratio", "equivalent", "slower", "faster"),
    [
        (3, 1.00, 0.299, 0.011, 0.012),
        (5, 1.00, 0.752, 0.012, 0.016),
        (5, 1.02, 0.045, 0.745, 0.000),
        (10, 1.02, 0.050, 0.946, 0.000),
    ],
)
def test_verdicts_are_as_often_right_as_they_claim(n, ratio, equivalent, slower, faster):
    """4,000 experiments at a run-to-run variation of 1 % and a margin of 2 %, in all four words.

    Where there is no difference a wrong SLOWER or FASTER comes in at most 5.5 of 100; where the
    difference is as large as the margin, so does a wrong EQUIVALENT.
    """
    draw = np.random.default_rng(20261120)
    found = Counter(
        decide(
            estimate_unpaired(
                draw.normal(0, 0.01, n).tolist(), draw.normal(math.log(ratio), 0.01, n).tolist()
            ),
            0.02,
            "lower",
        )[0]
        for _ in range(4000)
    )
    rates = {verdict: count / 4000 for verdict, count in found.items()}
    expected = {
        Verdict.EQUIVALENT: equivalent,
        Verdict.SLOWER: slower,
        Verdict.FASTER: faster,
        Verdict.INCONCLUSIVE: 1 - equivalent - slower - faster,
    }
    for verdict, rate in expected.items():
        assert rates.get(verdict, 0) == pytest.approx(rate, abs=0.025)  # 3 standard errors
    if ratio == 1:
        assert rates.get(Verdict.SLOWER, 0) + rates.get(Verdict.FASTER, 0) <= 0.055
    else:
        assert rates[Verdict.EQUIVALENT] <= 0.055


@pytest.mark.parametrize("true_log_ratio", [0.0, 0.008, 0.015])
@pytest.mark.parametrize("n", [5, 12])
def test_the_chance_of_a_decision_is_what_happens(true_log_ratio, n):
    """20,000 experiments with a known truth, decided by the rules themselves (in closed form)."""
    spread, margin, draw = 0.015, 0.02, np.random.default_rng(7)
    data = draw.normal(true_log_ratio, spread, (20_000, n))
    half = data.std(axis=1, ddof=1) / math.sqrt(n)
    unit = Estimate(0.0, (Arm(float(n), n),))  # standard error 1
    t90, t95 = unit.log_interval(0.90)[1], unit.log_interval(0.95)[1]
    mean = np.abs(data.mean(axis=1))
    decided = (mean + t90 * half < math.log1p(margin)) | (mean - t95 * half > 0)
    planned = compute_chance_of_decision(Estimate(true_log_ratio, (Arm(spread**2, n),)), margin)
    assert planned == pytest.approx(decided.mean(), abs=0.012)  # 3.5 standard errors


@pytest.mark.parametrize(("spread", "blocks"), [(0.01, 5), (0.02, 11), (0.03, 22)])
def test_blocks_needed_agree_with_the_exact_power_of_tost(spread, blocks):
    """R's PowerTOST: 4 (floor: 5), 11 and 22 pairs show equivalence within 2 % where R = 1."""
    estimate = Estimate(0.0, (Arm(spread**2, 3),))
    more = count_more_needed(estimate, 0.02)
    assert more is not None
    # A false alarm decides too, so slightly fewer than for equivalence alone.
    assert blocks - 2 <= 3 + more <= blocks
    assert compute_chance_of_decision(estimate.more(more), 0.02) >= 0.8


def test_a_hopeless_question_is_told_so():
    assert count_more_needed(Estimate(0.0, (Arm(1.0, 5),)), 0.001) is None


@pytest.mark.parametrize(
    "estimate",
    [
        Estimate(0.003, (Arm(0.0016, 8),)),
        Estimate(0.0, (Arm(0.0009, 15),)),
        Estimate(0.012, (Arm(0.002, 6), Arm(0.004, 6))),
    ],
)
def test_the_range_of_more_values_is_that_of_the_spread(estimate: Estimate) -> None:
    """Counting anew with the variance of each end gives nearly the same."""
    more = count_more_needed(estimate, 0.02)
    assert more is not None
    ends = find_likely_range(estimate, more)
    assert ends[0] < more < ends[1]
    for end, share in zip(ends, (0.9, 0.1), strict=True):
        factor = estimate.df / chi2.ppf(share, estimate.df)
        arms = tuple(Arm(arm.variance * factor, arm.n) for arm in estimate.arms)
        exact = count_more_needed(replace(estimate, arms=arms), 0.02)
        assert exact is not None
        assert end == pytest.approx(exact, rel=0.05, abs=5)


def test_the_range_covers_the_number_of_the_true_spread_in_four_of_five_experiments() -> None:
    draw, sd, n = np.random.default_rng(8), 0.08, 8
    hits, tried = 0, 400
    true = count_more_needed(Estimate(0.0, (Arm(sd**2, n),)), 0.02)
    assert true is not None
    for variance in draw.chisquare(n - 1, tried) * sd**2 / (n - 1):
        seen = Estimate(0.0, (Arm(float(variance), n),))
        more = count_more_needed(seen, 0.02)
        low, high = find_likely_range(seen, more or 1)
        hits += low <= true <= high
    assert 0.74 < hits / tried < 0.86  # three standard errors


def test_with_more_runs_the_range_is_narrower() -> None:
    few, many = (Estimate(0.0, (Arm(0.01, n),)) for n in (5, 50))
    assert np.divide(*find_likely_range(many, 100)) > np.divide(*find_likely_range(few, 100))
