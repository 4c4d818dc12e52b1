"""Planned looks: their levels are right, and what they save is what happens."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from experiments.models.experiment import MOST_ANALYSES as MOST_IN_A_PLAN
from experiments.statistics import Sample, Verdict, compare, vectorised
from experiments.statistics.interim_analyses import (
    MOST_ANALYSES,
    POCOCK,
    count_most_analyses,
    get_level,
    schedule,
    simulate_course,
)
from experiments.statistics.planner import compute_equivalence_power, expect_estimate
from experiments.statistics.values import InterimAnalysis
from experiments.statistics.verdicts import FEWEST


def chance_of_an_alarm(after, alpha):
    """P(any of the looks after so many values rejects at the two-sided alpha), no effect, SD known.

    Armitage, McPherson and Rowe (1969): the density of the sum of the values, among experiments
    that no earlier look has ended, integrated from look to look by Gauss and Legendre.
    """
    nodes, weights = np.polynomial.legendre.leggauss(161)
    z = stats.norm.isf(alpha / 2)
    at, mass, seen = np.zeros(1), np.ones(1), 0
    for n in after:
        limit = z * math.sqrt(n)
        step = stats.norm.pdf(limit * nodes[:, None] - at, scale=math.sqrt(n - seen))
        at, mass, seen = limit * nodes, limit * weights * (step @ mass), n
    return 1 - mass.sum()


@pytest.mark.parametrize("looks", range(1, MOST_ANALYSES + 1))
def test_equal_steps_at_pococks_levels_err_in_five_of_a_hundred(looks):
    assert chance_of_an_alarm(range(1, looks + 1), get_level(looks)) == pytest.approx(
        0.05, abs=1.5e-4
    )


def test_every_schedule_that_a_plan_can_have_keeps_five_of_a_hundred():
    """Also where the repeats cannot be cut into equal parts."""
    worst = max(
        chance_of_an_alarm(schedule(repeats, looks), get_level(looks))
        for repeats in range(2 * FEWEST, 120)
        for looks in range(2, count_most_analyses(repeats) + 1)
    )
    assert worst < 0.0515


def test_the_stricter_level_matters():
    assert chance_of_an_alarm((1, 2, 3, 4, 5), 0.05) == pytest.approx(0.142, abs=1e-3)


@given(st.integers(1, 1000), st.integers(1, MOST_ANALYSES))
def test_looks_are_spread_evenly_and_the_last_one_has_everything(repeats, looks):
    looks = min(looks, count_most_analyses(repeats))
    after = schedule(repeats, looks)
    steps = np.diff([0, *after])
    assert (len(after), after[-1]) == (looks, repeats)
    assert steps.max() - steps.min() <= 1
    assert looks == 1 or steps.min() >= FEWEST


def test_a_plan_allows_the_looks_that_there_are_levels_for():
    assert MOST_IN_A_PLAN == MOST_ANALYSES == len(POCOCK)


def samples_of(ratios):
    return [
        Sample(f"{name}{block}", str(block), name, value)
        for block, ratio in enumerate(ratios)
        for name, value in (("bare", 1.0), ("box", ratio))
    ]


def pair_of(ratios, look=None, margin=0.02):
    (pair,) = compare(
        samples_of(ratios),
        baseline="bare",
        environments=["box"],
        margin=margin,
        better="lower",
        paired=True,
        unit="s",
        interim_analysis=look,
    )
    return pair


def test_a_look_decides_by_the_intervals_of_its_level():
    ratios = [1.030, 1.006, 1.022, 1.001, 1.028]
    look = InterimAnalysis(number=1, of=2, alpha=get_level(2))
    pair = pair_of(ratios, look)
    test = stats.ttest_1samp(np.log(ratios), 0)
    wide = np.exp(test.confidence_interval(1 - 0.0294))
    narrow = np.exp(test.confidence_interval(1 - 2 * 0.0294))
    assert pair.ci_difference == pytest.approx(tuple(wide))
    assert pair.ci_equivalence == pytest.approx(tuple(narrow))
    assert pair.ci95 == pytest.approx(tuple(np.exp(test.confidence_interval(0.95))))
    assert pair.p_difference == pytest.approx(test.pvalue)
    assert 0.0294 < pair.p_difference < 0.05
    assert (pair_of(ratios).verdict, pair.verdict) == (Verdict.SLOWER, Verdict.INCONCLUSIVE)
    assert "94.12 % CI" in pair.sentence
    assert pair.sentence.endswith("This was interim analysis 1 of 2.")


def test_the_smallest_margin_is_that_of_the_level():
    ratios = [1.000, 1.006, 0.998, 1.004, 1.001]
    look = InterimAnalysis(number=2, of=3, alpha=get_level(3))
    smallest = pair_of(ratios, look).smallest_margin
    assert smallest > pair_of(ratios).smallest_margin
    for factor, verdict in ((1.001, Verdict.EQUIVALENT), (0.999, Verdict.INCONCLUSIVE)):
        pair = pair_of(ratios, look, margin=smallest * factor)
        assert pair.verdict is verdict
        assert (pair.p_equivalence < pair.alpha) is (verdict is Verdict.EQUIVALENT)
    assert "Decided at interim analysis 2 of 3." in pair_of(ratios, look, margin=0.05).sentence


@pytest.mark.parametrize(("cv", "repeats", "looks"), [(0.01, 15, 3), (0.02, 30, 5), (0.012, 11, 2)])
@pytest.mark.parametrize("paired", [True, False])
def test_the_course_is_what_happens(cv, repeats, looks, paired):
    """20,000 experiments of single runs, judged at each look by the rules themselves."""
    draw, judge = np.random.default_rng(repeats), vectorised.estimate_unpaired
    arms = [draw.normal(0, cv, (20_000, repeats)) for _ in range(2)]
    if paired:
        arms[0], judge = np.zeros_like(arms[0]), vectorised.estimate_paired
    ended, equivalent = np.full(20_000, repeats), np.zeros(20_000, dtype=bool)
    going_on = np.ones(20_000, dtype=bool)
    for after in schedule(repeats, looks):
        seen = judge(*(arm[:, :after] for arm in arms))
        proved = seen.p_equivalence(0.02) < get_level(looks)
        equivalent |= going_on & proved
        ended[going_on] = after
        going_on &= ~proved & (seen.p_difference >= get_level(looks))
    found = simulate_course(
        expect_estimate(cv, repeats, paired=paired), 0.02, repeats=repeats, analyses=looks
    )
    assert found.repeats == pytest.approx(ended.mean(), rel=0.03)
    assert found.equivalent == pytest.approx(equivalent.mean(), abs=0.025)


def test_the_course_of_one_look_is_the_power_and_always_the_same():
    truth = expect_estimate(0.012, 8, paired=True)
    found = simulate_course(truth, 0.02, repeats=8, analyses=1)
    assert found == simulate_course(truth, 0.02, repeats=8, analyses=1)
    assert found.repeats == 8
    # An experiment in forty that is judged once calls a difference that is not there.
    assert found.equivalent == pytest.approx(compute_equivalence_power(truth, 0.02), abs=0.025)
