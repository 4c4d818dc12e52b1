"""Several decisive metrics: all must be shown, or in a fixed order, and Holm among comparisons."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.statistics import Measured, Pair, Stamp, Verdict
from experiments.statistics.margins import Goal, Margin
from experiments.statistics.metric_rules import (
    MetricsRule,
    adjust_in_order,
    correct_several_by_holm,
    list_judged,
)
from experiments.statistics.multiple_comparisons import adjust_by_holm, correct_by_holm
from experiments.statistics.planner import (
    compute_equivalence_power,
    count_repeats_for_all,
    count_repeats_needed,
    expect_estimate,
)
from experiments.statistics.several_metrics import Part, judge_together

ALL, IN_ORDER = MetricsRule.ALL, MetricsRule.IN_ORDER
EQUIVALENT, INCONCLUSIVE = Verdict.EQUIVALENT, Verdict.INCONCLUSIVE
NAMES = ("step_time", "peak_memory", "start_up")
p_values = st.lists(st.tuples(*[st.floats(0, 1)] * 3).map(list), min_size=1, max_size=5)


def pair(verdict=EQUIVALENT, p=0.01, p_difference=0.5, **fields):
    return Pair(
        baseline="bare",
        environment="box",
        unit="s",
        better="lower",
        margin=0.02,
        paired=True,
        n_blocks=8,
        ratio=1.01,
        ci95=(0.99, 1.03),
        verdict=verdict,
        p_equivalence=p,
        p_difference=p_difference,
        **fields,
    )


def parts(*pairs):
    return [
        Part(Measured(name, "s", "lower", name), pair, "" if pair else "0 is not positive")
        for name, pair in zip(NAMES, pairs, strict=False)
    ]


def judge(rows, rule=ALL, goal=Goal.EQUIVALENCE):
    corrected = correct_several_by_holm(rows, rule)
    environments = ["box"] * len(rows)
    return judge_together([parts(*row) for row in corrected], rule, goal, "bare", environments)


class TestAllMustBeShown:
    def test_it_is_equivalent_only_if_every_metric_is(self):
        (overall,) = judge([[pair(p=0.01), pair(p=0.04), pair(p=0.02)]])
        assert overall.verdict is EQUIVALENT
        assert (overall.p, overall.p_holm) == (0.04, 0.04)
        assert overall.sentence == (
            "box is equivalent to bare in all 3 decisive metrics (largest p of equivalence 0.040)."
        )

    def test_each_is_tested_at_the_full_level(self):
        (overall,) = judge([[pair(p=0.04), pair(p=0.04)]])
        assert Stamp.NOT_AFTER_HOLM not in overall.stamps
        assert [part.pair.p_equivalence_holm for part in overall.parts] == [0.04, 0.04]

    @pytest.mark.parametrize(
        "verdict", [Verdict.SLOWER, Verdict.FASTER, INCONCLUSIVE, Verdict.NO_INFERENCE]
    )
    @pytest.mark.parametrize("place", range(3))
    def test_one_that_is_not_stands_in_the_way_and_all_are_judged(self, verdict, place):
        row = [pair(), pair(), pair()]
        row[place] = pair(verdict, p=0.3, p_difference=0.001)
        (overall,) = judge([row])
        assert overall.verdict is Verdict.NOT_SHOWN
        assert [part.metric.name for part in overall.in_the_way] == [NAMES[place]]
        assert all(part.is_judged for part in overall.parts)
        assert f"{NAMES[place]} ({verdict}) stood in the way; shown for " in overall.sentence
        assert (
            overall.claim == "box is not shown to be equivalent to bare in all 3 decisive metrics"
        )

    def test_a_metric_that_could_not_be_compared_stands_in_the_way(self):
        (overall,) = judge([[pair(), None]])
        assert overall.verdict is Verdict.NOT_SHOWN
        assert overall.p is None
        assert "peak_memory (NO INFERENCE) stood in the way" in overall.sentence

    def test_among_many_comparisons_the_largest_p_is_corrected(self):
        rows = [[pair(p=0.001), pair(p=0.03)], [pair(p=0.04), pair(p=0.001)]]
        first, second = judge(rows)
        assert (first.p_holm, second.p_holm) == (0.06, 0.06)
        assert first.is_lost_by_holm
        assert first.stamps == (Stamp.NOT_AFTER_HOLM,)
        assert "0.060 after Holm’s correction: this does not survive it" in first.sentence
        # No metric alone is lost that is not lost for all together.
        assert [part.pair.stamps for part in first.parts] == [(), ()]

    def test_differences_are_one_family_of_all_metrics(self):
        slower = pair(Verdict.SLOWER, p=0.9, p_difference=0.03)
        (overall,) = judge([[slower, pair(p_difference=0.5)]])
        assert overall.parts[0].pair.p_difference_holm == 0.06
        assert overall.parts[0].pair.stamps == (Stamp.NOT_AFTER_HOLM,)
        assert overall.stamps == ()

    def test_not_slower_is_said_of_all(self):
        shown = replace(pair(Verdict.NOT_SLOWER, p=None), goal=Goal.NOT_SLOWER, p_not_slower=0.02)
        (overall,) = judge([[shown, shown]], goal=Goal.NOT_SLOWER)
        assert overall.verdict is Verdict.NOT_SLOWER
        assert overall.sentence == (
            "box is not slower than bare in both decisive metrics "
            "(largest p of “not slower” 0.020)."
        )


class TestInAFixedOrder:
    def test_what_follows_a_failed_one_is_not_judged_and_has_no_p(self):
        (overall,) = judge([[pair(), pair(INCONCLUSIVE, p=0.2), pair(p=0.001)]], IN_ORDER)
        assert overall.verdict is Verdict.NOT_SHOWN
        last = overall.parts[-1].pair
        assert last.verdict is Verdict.NOT_JUDGED
        assert (last.p_equivalence, last.p_difference, last.p_equivalence_holm) == (None,) * 3
        assert (last.ratio, last.ci95, last.stamps) == (1.01, (0.99, 1.03), ())
        assert "Not judged by the plan: a metric before it" in last.sentence
        assert overall.sentence.endswith(
            "in all 3 decisive metrics, in their fixed order: peak_memory (INCONCLUSIVE) stood in "
            "the way; shown for step_time; start_up was not judged by the plan."
        )

    def test_a_later_one_that_fails_takes_nothing_from_the_earlier(self):
        (overall,) = judge([[pair(), pair(p=0.03), pair(Verdict.SLOWER, p=0.9)]], IN_ORDER)
        assert [part.is_judged for part in overall.parts] == [True] * 3
        assert [part.is_shown for part in overall.parts] == [True, True, False]

    def test_after_the_first_fails_nothing_is_judged(self):
        (overall,) = judge([[pair(INCONCLUSIVE, p=0.3), pair(), pair()]], IN_ORDER)
        assert [part.is_judged for part in overall.parts] == [True, False, False]
        assert overall.p is None

    def test_comparisons_that_stopped_earlier_still_count_in_the_correction(self):
        lost = [pair(INCONCLUSIVE, p=0.5), pair(p=0.001)]
        *_, shown = judge([lost, lost, [pair(p=0.01), pair(p=0.03)]], IN_ORDER)
        assert shown.verdict is EQUIVALENT
        assert shown.p_holm == pytest.approx(0.09)
        assert shown.is_lost_by_holm

    def test_arrays_are_judged_as_single_ones_are(self):
        shown = np.random.default_rng(1).random((3, 50)) < 0.5
        for rule in MetricsRule:
            many = [np.broadcast_to(each, 50) for each in list_judged(rule, list(shown))]
            for i in range(50):
                assert [bool(each[i]) for each in many] == list_judged(rule, shown[:, i].tolist())


class TestAdjustedInOrder:
    @given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
    def test_of_one_metric_it_is_holm(self, ps):
        adjusted = [row[0] for row in adjust_in_order([[p] for p in ps])]
        assert adjusted == pytest.approx(adjust_by_holm(ps))

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=4))
    def test_of_one_comparison_it_is_the_largest_p_so_far(self, ps):
        assert adjust_in_order([ps]) == [[max(ps[: i + 1]) for i in range(len(ps))]]

    @given(p_values)
    def test_all_metrics_together_are_holm_of_the_largest(self, rows):
        last = [row[-1] for row in adjust_in_order(rows)]
        assert last == pytest.approx(adjust_by_holm([max(row) for row in rows]))

    @given(p_values)
    def test_a_metric_is_never_lost_where_a_later_one_is_kept(self, rows):
        for row in adjust_in_order(rows):
            assert row == sorted(row)

    def test_a_share_of_the_level_moves_on_only_when_all_metrics_are_shown(self):
        # The second comparison is shown in full and leaves its half to the first.
        assert adjust_in_order([[0.04, 0.9], [0.01, 0.02]])[0][0] == pytest.approx(0.04)
        assert adjust_in_order([[0.04, 0.9], [0.01, 0.03]])[0][0] == pytest.approx(0.06)

    def test_without_a_p_nothing_after_it_has_one(self):
        assert adjust_in_order([[None, 0.01], [0.01, None]]) == [[None, None], [0.01, None]]


class TestOneMetric:
    @given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=5))
    def test_it_is_corrected_as_it_always_was(self, ps):
        pairs = [pair(p=p, p_difference=q) for p, q in ps]
        for rule in MetricsRule:
            corrected = [row[0] for row in correct_several_by_holm([[p] for p in pairs], rule)]
            for new, old in zip(corrected, correct_by_holm(pairs), strict=True):
                assert new.stamps == old.stamps
                assert new.p_difference_holm == old.p_difference_holm
                assert new.p_equivalence_holm == pytest.approx(old.p_equivalence_holm)


class TestPlanner:
    def test_one_metric_needs_what_it_always_did(self):
        parts = ((0.01, Margin.of(0.02)),)
        assert count_repeats_for_all(parts, paired=True) == count_repeats_needed(
            0.01, Margin.of(0.02), paired=True
        )

    def test_all_at_once_need_at_least_what_the_hardest_needs(self):
        easy, hard = (0.005, Margin.of(0.02)), (0.02, Margin.of(0.02))
        alone = count_repeats_needed(*hard, paired=True)
        assert count_repeats_for_all((easy, hard), paired=True) == alone
        assert count_repeats_for_all((hard, hard), paired=True) > alone

    def test_the_misses_of_all_add_up_to_a_fifth_at_most(self):
        parts = ((0.01, Margin.of(0.02)), (0.02, Margin(0.05, 0.02)), (0.03, Margin.of(0.05)))

        def add_misses(n):
            return sum(
                1 - compute_equivalence_power(expect_estimate(sd, n, paired=True), margin)
                for sd, margin in parts
            )

        needed = count_repeats_for_all(parts, paired=True)
        assert add_misses(needed) <= 0.2 < add_misses(needed - 1)

    @pytest.mark.parametrize("correlation", [0.0, 0.9])
    def test_the_bound_holds_whatever_the_correlation(self, correlation):
        from experiments.statistics.vectorised import estimate_paired

        margin, sd = 0.02, 0.01
        n = count_repeats_for_all(((sd, Margin.of(margin)),) * 2, paired=True)
        rng = np.random.default_rng(3)
        common, *own = rng.normal(0, sd, (3, 20_000, n))
        shown = [
            estimate_paired(
                np.zeros_like(common), correlation**0.5 * common + (1 - correlation) ** 0.5 * each
            ).p_equivalence(margin)
            < 0.05
            for each in own
        ]
        assert np.mean(shown[0] & shown[1]) > 0.8 - 3 * (0.16 / 20_000) ** 0.5


@pytest.mark.parametrize(
    ("units", "shown", "not_shown"),
    [
        ("ss", "is not slower than", "is not shown to be not slower than"),
        ("BJ", "does not need more than", "is not shown not to need more than"),
        ("sB", "is not worse than", "is not shown to be not worse than"),
    ],
)
def test_a_claim_of_memory_and_energy_names_no_speed(units, shown, not_shown):
    for verdict, words in ((Verdict.NOT_SLOWER, shown), (INCONCLUSIVE, not_shown)):
        row = [
            Part(Measured(name, unit, "lower", name), replace(pair(verdict), unit=unit))
            for name, unit in zip(NAMES, units, strict=False)
        ]
        (overall,) = judge_together([row], ALL, Goal.NOT_SLOWER, "bare", ["box"])
        assert overall.claim == f"box {words} bare in both decisive metrics"
