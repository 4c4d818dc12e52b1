"""Experiments with several decisive metrics: frozen, compared, kept, and with excluded runs."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from experiments.comparisons import (
    ExperimentComparison,
    compare_experiment,
    keep_comparison,
    list_comparison_rows,
    read_comparison,
    read_kept_verdicts,
)
from experiments.comparisons.judged_together import list_decisive
from experiments.execution import excluded_runs, lifecycle
from experiments.models import Experiment, Job, KeptComparison, Run
from experiments.planning.freeze import freeze_definition
from experiments.statistics import Stamp, Verdict
from experiments.statistics.margins import Margin
from tests.factories import ExperimentFactory, MeasurementFactory

pytestmark = pytest.mark.django_db

SAME = (1.000, 1.002, 0.999, 1.001, 0.998)
SLOW = (1.060, 1.062, 1.059, 1.061, 1.058)
WILD = (1.060, 0.930, 1.090, 0.950, 1.010)
FURTHER = [{"metric": "gflops", "margin": 0.05}, {"metric": "matmul_time", "margin": 0.03}]


def launch(
    ratios: dict[str, tuple[float, ...]], *, further: Any = None, **columns: Any
) -> Experiment:
    """Return an experiment that has ended, with the ratio of each metric in each block."""
    experiment: Experiment = ExperimentFactory(
        repeats=5,
        margin=0.02,
        further_metrics=FURTHER if further is None else further,
        **columns,
    )
    lifecycle.launch(experiment, experiment.owner)
    for run in experiment.runs.all():
        for metric, values in ratios.items():
            bare = run.environment_id == experiment.baseline_id
            value = 1.0 if bare else values[run.repeat - 1]
            MeasurementFactory(run=run, metric=metric, value=value, unit="s")
    experiment.runs.update(state=Run.State.SUCCEEDED)
    experiment.jobs.update(state=Job.State.DONE, scheduler_id="1", ended_at=experiment.launched_at)
    experiment.refresh_from_db()
    return experiment


def read(experiment: Experiment) -> ExperimentComparison:
    return compare_experiment(Experiment.objects.get(pk=experiment.pk))


def test_a_plan_with_one_metric_says_nothing_of_several() -> None:
    experiment: Experiment = ExperimentFactory()
    plan = freeze_definition(experiment, 1)
    assert not {"further_metrics", "metrics_rule"} & plan.keys()
    experiment.further_metrics = FURTHER
    frozen = freeze_definition(experiment, 1)
    assert {name: value for name, value in frozen.items() if name not in plan} == {
        "further_metrics": FURTHER,
        "metrics_rule": "all",
    }
    assert {name: frozen[name] for name in plan} == plan


def test_the_rows_of_one_metric_have_no_new_columns() -> None:
    (row,) = list_comparison_rows(read(launch({"step_time": SAME}, further=[])))
    assert not any(name.startswith(("overall", "decisive", "judged_by")) for name in row)


def test_each_metric_has_its_margin_and_all_are_judged_together() -> None:
    comparison = read(launch({"step_time": SAME, "gflops": SAME, "matmul_time": SAME}))
    (overall,) = comparison.decisive.values()
    assert overall.verdict is Verdict.EQUIVALENT
    assert [part.metric.name for part in overall.parts] == ["step_time", "gflops", "matmul_time"]
    assert [part.pair and part.pair.margin for part in overall.parts] == [0.02, 0.05, 0.03]
    assert [part.metric.better for part in overall.parts] == ["lower", "higher", "lower"]
    assert comparison.verdicts == {"EQUIVALENT": 1}
    assert len(comparison.pairs) == 1


@pytest.mark.parametrize(
    ("rule", "verdicts"),
    [
        ("all", ["EQUIVALENT", "FASTER", "EQUIVALENT"]),
        ("in order", ["EQUIVALENT", "FASTER", "NOT JUDGED BY THE PLAN"]),
    ],
)
def test_the_one_in_the_way_is_named_in_pages_and_rows(rule: str, verdicts: list[str]) -> None:
    experiment = launch({"step_time": SAME, "gflops": SLOW, "matmul_time": SAME}, metrics_rule=rule)
    comparison = read(experiment)
    assert comparison.verdicts == {"NOT SHOWN": 1}
    rows = list_comparison_rows(comparison)
    assert [row["metric"] for row in rows] == ["step_time", "gflops", "matmul_time"]
    assert [str(row["verdict"]) for row in rows] == verdicts
    assert [row["decisive_rank"] for row in rows] == [1, 2, 3]
    assert [row["judged_by_plan"] for row in rows] == [verdict[:3] != "NOT" for verdict in verdicts]
    assert {row["overall_verdict"] for row in rows} == {"NOT SHOWN"}
    assert {row["overall_in_the_way"] for row in rows} == {"gflops"}
    assert (rows[2]["p_equivalence"] is None) is (rule == "in order")


def test_a_goal_holds_for_every_metric() -> None:
    further = [{"metric": "matmul_time", "margin": 0.03}]
    faster = tuple(1 / ratio for ratio in SLOW)
    experiment = launch(
        {"step_time": SAME, "matmul_time": faster}, further=further, goal="not slower"
    )
    (overall,) = read(experiment).decisive.values()
    assert overall.verdict is Verdict.NOT_SLOWER
    assert [part.verdict for part in overall.parts] == [Verdict.NOT_SLOWER] * 2


def test_an_uneven_margin_is_that_of_its_metric() -> None:
    further = [{"metric": "matmul_time", "margin": 0.08, "margin_faster": 0.01}]
    experiment = launch({"step_time": SAME, "matmul_time": SLOW}, further=further)
    (overall,) = read(experiment).decisive.values()
    pair = overall.parts[1].pair
    assert pair
    assert pair.margins == Margin(0.08, 0.01)
    assert overall.verdict is Verdict.EQUIVALENT
    assert list_decisive(experiment, list(experiment.workloads.all()))[1].margin == pair.margins


def test_what_verdicts_speak_of_holds_for_every_metric() -> None:
    further = [{"metric": "matmul_time", "margin": 0.03}]
    experiment = launch(
        {"step_time": SAME, "matmul_time": SAME}, further=further, estimand="partition"
    )
    (overall,) = read(experiment).decisive.values()
    assert [part.verdict for part in overall.parts] == [Verdict.NO_INFERENCE] * 2
    for repeat in range(1, 6):
        experiment.runs.filter(repeat=repeat).update(node=f"node{repeat}")
    (overall,) = read(experiment).decisive.values()
    assert overall.verdict is Verdict.EQUIVALENT
    assert all(part.pair and part.pair.by_node for part in overall.parts)


def test_excluded_runs_show_both_verdicts_of_each_metric_and_of_all() -> None:
    further = [{"metric": "matmul_time", "margin": 0.03}]
    odd = (*SAME[:4], 1.4)
    experiment = launch({"step_time": SAME, "matmul_time": odd}, further=further)
    (before,) = read(experiment).decisive.values()
    assert (before.verdict, before.before) == (Verdict.NOT_SHOWN, ())
    run = experiment.runs.exclude(environment=experiment.baseline_id).get(repeat=5)
    assert excluded_runs.exclude(run, experiment.owner, "the fan was broken")
    comparison = read(experiment)
    (overall,) = comparison.decisive.values()
    assert (overall.verdict, overall.verdict_before) == (Verdict.EQUIVALENT, Verdict.NOT_SHOWN)
    for part in overall.parts:
        assert part.pair
        assert part.pair.before
        assert Stamp.EXCLUDED_AFTER in part.pair.stamps
    assert "With the runs that were excluded by hand it is NOT SHOWN (" in overall.sentence
    assert {row["overall_before_exclusion"] for row in list_comparison_rows(comparison)} == {
        "NOT SHOWN"
    }


def test_holm_is_over_all_configurations() -> None:
    experiment = launch(
        {"step_time": SAME, "gflops": SAME, "matmul_time": WILD}, scales=["1x0", "1x1"]
    )
    comparison = read(experiment)
    assert list(comparison.decisive) == [
        (1, comparison.environments[1]),
        (2, comparison.environments[1]),
    ]
    for overall in comparison.decisive.values():
        assert overall.verdict is Verdict.NOT_SHOWN
        first = overall.parts[0].pair
        assert first
        assert first.p_equivalence is not None
        assert first.p_equivalence_holm == pytest.approx(2 * first.p_equivalence)
    taken = comparison.take_configuration(2)
    assert list(taken.decisive) == [(1, comparison.environments[1])]
    assert taken.decisive[1, taken.environments[1]] == list(comparison.decisive.values())[1]


def test_before_the_planned_analysis_there_is_no_verdict_on_any_metric() -> None:
    experiment = launch({"step_time": SAME, "gflops": SLOW, "matmul_time": SAME})
    experiment.runs.filter(repeat=5).update(state=Run.State.RUNNING)
    comparison = read(experiment)
    assert comparison.stage.waits
    assert (comparison.decisive, comparison.verdicts) == ({}, {})


def test_the_comparison_is_kept_with_all_metrics() -> None:
    experiment = launch({"step_time": SAME, "gflops": SLOW, "matmul_time": SAME})
    assert keep_comparison(experiment.pk) == "kept"
    kept = read_comparison(Experiment.objects.get(pk=experiment.pk))
    assert kept.further == read(experiment).further
    assert kept.decisive == read(experiment).decisive
    assert KeptComparison.objects.get().verdicts == {"NOT SHOWN": 1}
    assert read_kept_verdicts([experiment]) == {experiment.pk: {"NOT SHOWN": 1}}


@pytest.mark.parametrize("column", [{"metrics_rule": "in order"}, {"further_metrics": FURTHER[:1]}])
def test_another_rule_or_metric_makes_what_is_kept_stale(column: dict[str, Any]) -> None:
    experiment = launch({"step_time": SAME, "gflops": SLOW, "matmul_time": SAME})
    assert keep_comparison(experiment.pk) == "kept"
    Experiment.objects.filter(pk=experiment.pk).update(**column)
    assert read_kept_verdicts([Experiment.objects.get(pk=experiment.pk)]) == {}


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        (
            {"further_metrics": [{"metric": "joy", "margin": 0.1}]},
            "metric_2",
            "does not report joy",
        ),
        ({"further_metrics": [{"metric": "gflops"}]}, "margin_2", "a margin of its own"),
        ({"further_metrics": [{"metric": "gflops", "margin": 0}]}, "margin_2", "from 0.01 %"),
        ({"further_metrics": FURTHER[:1] * 2}, "metric_3", "gflops is decisive metric 2 already"),
        (
            {"further_metrics": FURTHER, "repeats": 10, "looks": 2},
            "looks",
            "Several decisive metrics are judged once",
        ),
    ],
)
def test_a_launch_refuses_what_the_form_refuses(
    changes: dict[str, Any], field: str, message: str
) -> None:
    experiment: Experiment = ExperimentFactory(**changes)
    with pytest.raises(lifecycle.NotLaunchable, match=message) as refusal:
        lifecycle.launch(experiment, experiment.owner)
    assert field in refusal.value.messages


def test_the_database_knows_two_rules() -> None:
    experiment = ExperimentFactory()
    with pytest.raises(IntegrityError), transaction.atomic():
        Experiment.objects.filter(pk=experiment.pk).update(metrics_rule="any")
