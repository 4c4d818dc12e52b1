"""Extensions: the second verdict has its stricter level, and the stamp is right about both."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.statistics import vectorised
from experiments.statistics.calibration.bands import QUICK
from experiments.statistics.calibration.extended_experiments import ALARM, count_errors, list_bands
from experiments.statistics.estimates import Arm, Estimate
from experiments.statistics.extension_levels import (
    OpenQuestion,
    compute_error_rates,
    compute_extension_level,
    count_extension,
)
from experiments.statistics.interim_analyses import POCOCK
from experiments.statistics.margins import Goal, Margin
from experiments.statistics.verdicts import POWER, compute_chance_of_decision, count_more_needed
from tests.experiments.statistics.test_interim_analyses import chance_of_an_alarm


def test_as_many_again_are_judged_at_pococks_level_of_two_analyses():
    assert compute_extension_level(10, 10) == POCOCK[1]


@given(st.integers(1, 400), st.integers(1, 400))
def test_two_planned_analyses_at_this_level_would_err_in_five_of_a_hundred(first, added):
    level = compute_extension_level(first, added)
    assert 0.025 <= level <= 0.05
    # The integral of another hand, over the sums of the values; levels have four digits.
    if 0.05 <= first / (first + added) <= 0.95:
        alarms = chance_of_an_alarm((first, first + added), level)
        assert alarms == pytest.approx(0.05, abs=2e-4)


@pytest.mark.parametrize("paired", [True, False], ids=["paired", "independent"])
@pytest.mark.parametrize(("first", "added"), [(2, 1), (2, 60), (5, 5), (30, 1), (60, 60)])
def test_both_verdicts_err_more_often_than_one_and_less_often_than_two_alone(first, added, paired):
    level = compute_extension_level(first, added)
    rates = compute_error_rates(first, added, level, paired=paired)
    for error in (rates.difference, rates.goal):
        assert 0.05 < error < 0.05 + level
        assert error < 0.078


@pytest.mark.parametrize("paired", [True, False], ids=["paired", "independent"])
@pytest.mark.parametrize(("first", "added"), [(3, 1), (5, 5), (10, 20)])
def test_the_stated_rates_are_those_of_simulated_experiments(first, added, paired):
    draw = np.random.default_rng(20261126)
    count = 100_000
    arms = [draw.normal(0, 0.004, (count, first + added)) for _ in range(2)]
    estimate = vectorised.estimate_paired if paired else vectorised.estimate_unpaired
    level = compute_extension_level(first, added)
    errors = count_errors(estimate(*(arm[:, :first] for arm in arms)), estimate(*arms), level)
    rates = compute_error_rates(first, added, level, paired=paired)
    error = 4 * math.sqrt(0.07 * 0.93 / count)
    if paired:
        assert errors[ALARM] == pytest.approx(rates.difference, abs=error)
        assert errors["not slower"] == pytest.approx(rates.goal, abs=error)
        assert errors["equivalent"] < rates.goal + error
    else:  # Welch takes its degrees of freedom from the spreads that it sees: rather too few
        assert rates.difference - 0.02 < errors[ALARM] < rates.difference + error
        assert rates.goal - 0.03 < errors["not slower"] < rates.goal + error


def test_without_the_stricter_level_errors_are_far_beyond_what_the_stamp_says():
    draw = np.random.default_rng(7)
    arms = [draw.normal(0, 0.01, (50_000, 20)) for _ in range(2)]
    first = vectorised.estimate_paired(*(arm[:, :10] for arm in arms))
    errors = count_errors(first, vectorised.estimate_paired(*arms), 0.05)
    rates = compute_error_rates(10, 10, compute_extension_level(10, 10), paired=True)
    assert errors[ALARM] > rates.difference + 0.012
    assert errors["not slower"] > rates.goal + 0.012


def test_a_first_verdict_without_inference_cannot_have_been_wrong():
    level = compute_extension_level(1, 9)
    rates = compute_error_rates(1, 9, level, paired=True)
    assert (rates.difference, rates.goal) == (level, level)


@pytest.mark.parametrize("numbers", [(0, 5), (5, 0), (5, -1)])
def test_nothing_is_no_extension(numbers):
    with pytest.raises(ValueError, match="cannot be added"):
        compute_extension_level(*numbers)


def ask(ratio, sd, n, margin=0.02):
    return OpenQuestion(Estimate(math.log(ratio), (Arm(sd**2, n),)), Margin.of(margin), "lower")


class TestProposal:
    def test_it_decides_in_four_of_five_at_the_level_that_it_has(self):
        question = ask(1.004, 0.02, 6)
        added = count_extension([question], 6, 1000)

        def chance(count):
            level = compute_extension_level(6, count)
            estimate = question.estimate.more(count)
            return compute_chance_of_decision(estimate, question.margin, level, "lower")

        assert chance(added) >= POWER > chance(added - 1)

    def test_it_is_more_than_a_planned_analysis_at_five_percent_would_take(self):
        question = ask(1.004, 0.02, 6)
        assert count_extension([question], 6, 1000) > count_more_needed(
            question.estimate, question.margin, better="lower"
        )

    def test_the_hardest_of_several_questions_decides(self):
        easy, hard = ask(1.001, 0.012, 6), ask(1.004, 0.02, 6)
        alone = count_extension([hard], 6, 1000)
        assert count_extension([easy], 6, 1000) < alone
        assert count_extension([easy, hard], 6, 1000) == alone
        assert count_extension([hard, easy], 6, 1000) == alone

    def test_there_is_none_where_the_most_that_can_be_added_would_not_do(self):
        question = ask(1.004, 0.02, 6)
        needed = count_extension([question], 6, 1000)
        assert count_extension([question], 6, needed) == needed
        assert count_extension([question], 6, needed - 1) is None
        assert count_extension([ask(1.004, 0.2, 6)], 6, 1000) is None

    def test_not_slower_takes_fewer(self):
        both = ask(1.0, 0.02, 6)
        one = OpenQuestion(both.estimate, Margin.make(Goal.NOT_SLOWER, 0.02), "lower")
        assert count_extension([one], 6, 1000) < count_extension([both], 6, 1000)


def test_every_band_of_the_calibration_holds_and_the_control_fails():
    bands = list(list_bands(np.random.default_rng(20260822), QUICK))
    assert [band.promise for band in bands if not band.ok] == []
    assert sum(band.control for band in bands) == 1
