"""Each decisive metric has control charts, others where somebody asks, and all share one level."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from experiments.comparisons import keep_comparison
from experiments.models import Experiment, Notification, Recurrence, RecurringExperiment
from experiments.recurring import list_unnoted, note_and_tell, note_points, read_history
from experiments.recurring.charted_metrics import list_chartable
from experiments.statistics.control_charts import FEWEST, LEVEL, ChartPoint, judge_points
from tests.experiments.recurring.ended_recurrences import add_recurrence
from tests.factories import (
    LaunchedFactory,
    MeasurementFactory,
    RecurringExperimentFactory,
    block,
)

pytestmark = pytest.mark.django_db

FURTHER = [{"metric": "gflops", "margin": 0.05}]


def end(experiment: Experiment, values: dict[str, float]) -> None:
    """Let all runs end with these values of metrics; the further ones are 1 % higher inside."""
    for repeat in range(1, 6):
        first = values["step_time"] * (1 + 1e-3 * math.sin(repeat))
        environments = dict.fromkeys(experiment.environments.all(), first)
        made = block(experiment, repeat, environments)
        for run in made.runs.all():
            for metric, value in values.items():
                if metric != "step_time":
                    cost = 1.0 if run.environment_id == experiment.baseline_id else 1.01
                    MeasurementFactory(run=run, metric=metric, value=value * cost, unit="1")


def make_source(**columns: Any) -> Experiment:
    source: Experiment = LaunchedFactory(**columns)
    end(source, {"step_time": 0.02, "gflops": 900.0, "peak_host_memory": 4e9})
    keep_comparison(source.pk)
    return source


def test_each_decisive_metric_is_charted_and_no_other() -> None:
    row = RecurringExperimentFactory(source=make_source(further_metrics=FURTHER))
    assert note_points(row.source_id) == "noted"
    history = read_history(row)
    assert history.metrics == ["step_time", "gflops"]
    names = [chart.name for chart in history.charts]
    assert names[0] == "Apptainer / bare metal" or "/" in names[0]
    assert len(names) == len(set(names)) == 6
    assert all(name.startswith("gflops, ") for name in names[3:])
    assert history.alpha == LEVEL / 6
    ratio = next(chart for chart in history.charts if chart.rank == 1 and chart.is_ratio)
    assert ratio.points[0].value == pytest.approx(1.01)
    assert ratio.points[0].verdict, "a decisive metric has a verdict of its own"


def test_others_are_charted_on_request_without_a_verdict_and_no_longer() -> None:
    row = RecurringExperimentFactory(source=make_source(further_metrics=FURTHER))
    note_points(row.source_id)
    assert "peak_host_memory" in list_chartable(row.source)
    assert not {"step_time", "gflops", "queue_time"} & set(list_chartable(row.source))
    row.charted_metrics = ["peak_host_memory"]
    row.save()
    assert read_history(row).not_charted == ["peak_host_memory"]
    assert list_unnoted() == [row.source_id], "the clock has it noted anew"
    assert note_points(row.source_id) == "renewed"
    assert list_unnoted() == []
    history = read_history(row)
    assert history.metrics == ["step_time", "gflops", "peak_host_memory"]
    charts = [chart for chart in history.charts if chart.metric == "peak_host_memory"]
    assert len(charts) == 3
    assert all(chart.is_requested and chart.points[0].value for chart in charts)
    assert not any(chart.points[0].verdict for chart in charts)
    row.charted_metrics = []
    row.save()
    history = read_history(row)
    assert history.metrics == ["step_time", "gflops"], "at once, and without wider limits"
    assert history.alpha == LEVEL / 6


def test_what_no_run_has_measured_has_no_chart_and_costs_no_level() -> None:
    row = RecurringExperimentFactory(source=make_source(), charted_metrics=["gpu_energy"])
    note_points(row.source_id)
    history = read_history(row)
    assert (history.metrics, history.not_charted) == (["step_time"], ["gpu_energy"])
    assert history.alpha == LEVEL / 3


def test_a_further_decisive_metric_that_leaves_its_limits_is_told() -> None:
    row: RecurringExperiment = RecurringExperimentFactory(
        source=make_source(further_metrics=FURTHER)
    )
    note_points(row.source_id)
    for number in range(2, 3 + FEWEST):
        made: Experiment = LaunchedFactory(
            cluster=row.source.cluster,
            partition=row.source.partition,
            baseline=row.source.baseline,
            environments=list(row.source.environments.all()),
            workloads=list(row.source.workloads.all()),
            owner=row.owner,
            further_metrics=FURTHER,
        )
        gflops = 900.0 * (1 + 1e-3 * math.sin(number)) * (0.5 if number == 2 + FEWEST else 1)
        step_time = 0.02 * (1 + 1e-3 * math.cos(number))
        end(made, {"step_time": step_time, "gflops": gflops})
        Recurrence.objects.create(
            recurring=row,
            number=number,
            experiment=made,
            reason="time",
            launched_at=made.launched_at,
        )
        keep_comparison(made.pk)
        note_and_tell(made.pk)
    notification = Notification.objects.get(kind="recurring")
    assert notification.facts["number"] == 2 + FEWEST
    assert notification.facts["count"] == 2
    assert all(": gflops, level of " in name for name in notification.facts["left"])


def test_asking_for_a_metric_tells_nobody_again_of_an_old_recurrence() -> None:
    row: RecurringExperiment = RecurringExperimentFactory()
    for number in range(2, 2 + FEWEST):
        add_recurrence(row, number)
    last = add_recurrence(row, 2 + FEWEST, cost=1.5)
    note_points(row.source_id)
    note_and_tell(last.experiment_id)
    Notification.objects.all().delete()
    RecurringExperiment.objects.filter(pk=row.pk).update(charted_metrics=["run_time"])
    for pk in list_unnoted():
        note_and_tell(pk)
    note_and_tell(last.experiment_id)
    assert not Notification.objects.exists()


def test_all_charts_of_several_metrics_together_keep_one_per_cent() -> None:
    """Of 6 charts of two metrics: ratio and levels depend on each other, as they do."""
    random, alarms, judged = np.random.default_rng(14), 0, 0
    for _ in range(600):
        logs = random.normal(0.0, 0.01, (2, 2, 30))
        series = [row for metric in logs for row in (metric[0], metric[1], metric[1] - metric[0])]
        charts = [
            judge_points(
                [ChartPoint(n, math.exp(v)) for n, v in enumerate(row, 1)], LEVEL / len(series)
            )
            for row in series
        ]
        for points in zip(*charts, strict=True):
            if any(point.limits for point in points):
                judged += 1
                alarms += any(point.is_outside for point in points)
    assert judged == 600 * (30 - FEWEST)
    assert 0.004 < alarms / judged < 0.011
