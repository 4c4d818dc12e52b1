"""What a comparison makes of its runs' start-ups: one cut, no run dropped, nothing silent."""

from statistics import fmean

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from experiments.comparisons import compare_experiment, list_comparison_rows, list_run_rows
from experiments.models import Experiment, Run
from experiments.statistics import Stamp
from tests.starts import FIXED_WARM_UP, FOUND, Made, started, steps

pytestmark = pytest.mark.django_db


def test_the_fixed_warm_up_decides_unless_the_plan_says_otherwise():
    made = started()
    assert made.values(made.box) == [
        fmean(steps(0.0202, slow_until=40 + 10 * (k % 3), seed=k)[FIXED_WARM_UP:]) for k in range(5)
    ]
    assert made.group.warm_ups.rule == (
        "What is compared is the mean after the fixed warm-up of 10 steps."
    )


def test_found_is_one_cut_for_all_the_largest_of_the_group():
    made = started(**FOUND)
    assert made.group.warm_ups.common_cut == 60
    for environment, time in ((made.bare, 0.02), (made.box, 0.0202)):
        wanted = [fmean(steps(time, seed=k)[60:]) for k in range(5)]
        assert made.values(environment) == pytest.approx(wanted, rel=1e-12)
    assert "after the first 60" in made.group.warm_ups.rule


def test_the_bias_of_the_fixed_warm_up_is_told_by_environment_and_of_the_ratio():
    bare, box = started().group.warm_ups.in_environments
    assert bare.fixed_bias == pytest.approx(0, abs=1e-4)
    # 30 to 50 of 390 steps that take half as long again.
    assert box.fixed_bias == pytest.approx(0.5 * 38 / 390, rel=0.01)
    assert box.ratio_bias == pytest.approx(box.fixed_bias, abs=1e-4)
    assert bare.ratio_bias is None
    assert bare.counts == [("flat", 5)]
    assert box.counts == [("warm-up", 5)]
    assert (bare.warm_up, box.warm_up) == ("10 steps", "50 steps (40 to 60)")
    assert box.left_by_fixed == "+4.87 %"


def test_time_and_throughput_give_the_same_verdict_after_the_found_warm_up():
    made = started(**FOUND)
    (by_time,) = made.group.pairs
    Experiment.objects.filter(pk=made.experiment.pk).update(primary_metric="images_per_second")
    made.experiment.refresh_from_db()
    (by_rate,) = made.group.pairs
    assert by_rate.ratio == pytest.approx(1 / by_time.ratio)
    assert by_rate.p_difference == pytest.approx(by_time.p_difference)
    assert (by_rate.verdict, by_rate.stamps) == (by_time.verdict, by_time.stamps)


def test_where_a_run_slows_down_later_each_keeps_its_own_cut():
    made = started(**FOUND)
    made.add(steps(0.02), steps(0.0202, throttled_from=150))
    assert made.group.warm_ups.common_cut is None
    assert made.values(made.box)[0] == pytest.approx(fmean(steps(0.0202, seed=0)[40:]))
    # The fast steps of the slowdown are part of the run.
    assert made.values(made.box)[5] == pytest.approx(fmean(steps(0.0202, throttled_from=150)[10:]))
    assert "each run’s own warm-up" in made.group.warm_ups.rule


def test_with_planned_looks_a_later_run_does_not_move_an_earlier_cut():
    made = started(repeats=10, looks=2, **FOUND)
    before = made.values(made.box)
    made.add(steps(0.02), steps(0.0202, slow_until=150))
    assert made.values(made.box)[:5] == before
    assert "an earlier interim analysis" in made.group.warm_ups.rule


def stamped(pair):
    return dict(zip(pair.stamps, pair.reasons, strict=True)).get(Stamp.NO_STEADY_STATE)


@pytest.mark.parametrize("columns", [{}, FOUND], ids=["fixed", "found"])
def test_a_run_that_never_settles_counts_and_is_named(columns):
    made = started(**columns)
    never = steps(0.0202, throttled_from=250)
    made.add(steps(0.02), never)
    (pair,) = made.group.pairs
    run = Run.objects.get(experiment=made.experiment, repeat=6, environment=made.box)
    assert pair.n_blocks == 6
    assert stamped(pair).startswith(f"1 of 12 runs never settles: run {run.uid} (box).")
    cut = 60 if columns else FIXED_WARM_UP
    assert made.values(made.box)[5] == pytest.approx(fmean(never[cut:]))


def test_a_pair_whose_runs_settle_has_no_stamp():
    assert stamped(started().group.pairs[0]) is None


def test_where_no_run_settles_the_fixed_warm_up_counts():
    made = Made(**FOUND)
    never = [steps(0.02, throttled_from=250, seed=seed) for seed in range(4)]
    made.add(*never[:2]).add(*never[2:])
    assert made.values(made.bare) == [fmean(values[FIXED_WARM_UP:]) for values in never[::2]]
    assert made.group.warm_ups.rule.startswith("No run settles")


def test_runs_that_are_too_short_to_tell_count_as_they_were_reported():
    made = Made(**FOUND)
    made.add(steps(0.02)[:100], steps(0.02)[:100])
    assert made.values(made.bare) == [fmean(steps(0.02)[10:100])]
    assert made.group.warm_ups.in_environments[0].counts == [("too short to tell", 1)]


def test_steps_that_nobody_has_looked_at_change_nothing():
    made = Made(**FOUND)
    made.add(steps(0.02, slow_until=100), steps(0.02), look=False)
    assert made.group.warm_ups is None
    assert made.values(made.bare) == [fmean(steps(0.02, slow_until=100)[10:])]


def test_a_metric_that_does_not_rest_on_steps_has_no_warm_up():
    made = started(**FOUND)
    Experiment.objects.filter(pk=made.experiment.pk).update(primary_metric="time_to_first_step")
    made.experiment.refresh_from_db()
    assert made.group.warm_ups is None


def test_the_cut_does_not_know_the_environments():
    made = started(**FOUND)
    before = made.group.warm_ups.common_cut
    swap = {made.bare.pk: made.box.pk, made.box.pk: made.bare.pk}
    for pk, environment in list(made.experiment.runs.values_list("pk", "environment_id")):
        # A cell has each repeat once, so both cannot wait for the other to leave.
        Run.objects.filter(pk=pk).update(repeat=100 + pk, environment_id=swap[environment])
    assert made.group.warm_ups.common_cut == before


def queries(made):
    with CaptureQueriesContext(
        connection,
    ) as caught:
        compare_experiment(made.experiment)
    return len(caught)


def test_the_number_of_queries_does_not_grow_with_the_runs():
    made = started(**FOUND)
    before = queries(made)
    for k in range(5):
        made.add(steps(0.02, seed=k), steps(0.02, seed=k))
    assert queries(made) == before


def test_the_exports_tell_what_was_compared_and_how_runs_start():
    made = started(**FOUND)
    rows = list(list_run_rows(made.experiment))
    assert {row["run"]: row["compared"] for row in rows} == {
        sample.run: sample.value for sample in made.group.samples
    }
    assert [row["shape"] for row in rows[:2]] == ["flat", "warm-up"]
    assert [row["warm_up_steps"] for row in rows[:2]] == [10, 40]
    (row,) = list_comparison_rows(compare_experiment(made.experiment))
    assert (row["warm_up"], row["common_cut_steps"]) == ("found", 60)
    assert row["environment_shapes"] == "5 warm-up"
    assert row["environment_fixed_bias"] == pytest.approx(0.0487, abs=1e-4)
