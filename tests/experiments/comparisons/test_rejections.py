"""Runs that rules of the plan rejected are counted in the comparison, and stamp it if unequal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from experiments.comparisons import keep_comparison, list_comparison_rows, read_comparison
from experiments.comparisons.rejections import JudgedRuns
from experiments.execution import excluded_runs
from experiments.models import Experiment, Run
from experiments.statistics import Pair, Stamp, Verdict
from experiments.statistics.extended import Extended
from tests.experiments.planning.test_stages import end_all, launched, read
from tests.factories import WorkloadFactory

pytestmark = pytest.mark.django_db
SWAP = "By the plan's rules: 19 pages went to swap or came from it."
HOT = "By the plan's rules: GPU 0: hot hardware in 5 of 90 samples; " + SWAP[21:]


def planned(repeats: int = 10, looks: int = 1, **columns: Any) -> Experiment:
    made = launched(repeats=repeats, looks=looks, reject_swap=True, **columns)
    end_all(made, tuple(1.06 + repeat / 1000 for repeat in range(repeats)))
    return made


def reject(
    experiment: Experiment, *repeats: int, message: str = SWAP, baseline: bool = False
) -> None:
    runs = experiment.runs.filter(repeat__in=repeats)
    of_baseline = {"environment": experiment.baseline_id}
    runs = runs.filter(**of_baseline) if baseline else runs.exclude(**of_baseline)
    runs.update(state=Run.State.FAILED, reason="rejected", message=message)
    for run in runs:
        run.measurements.all().delete()


def why(pair: Pair) -> str:
    return dict(zip(pair.stamps, pair.reasons, strict=True)).get(Stamp.REJECTIONS_DIFFER, "")


def test_one_side_rejected_more_often_stamps_the_verdict() -> None:
    experiment = planned()
    reject(experiment, 1, 2, 3, 4, 5)
    reject(experiment, 6, message=HOT)
    comparison = read(experiment)
    (pair,) = comparison.pairs
    assert (pair.verdict, pair.n_blocks) == (Verdict.SLOWER, 4)
    assert f"6 of 10 runs of {pair.environment} and none of 10 runs of {pair.baseline}" in why(pair)
    baseline, container = comparison.rejections
    assert (baseline.rejected, baseline.judged, baseline.rules, baseline.p) == (0, 10, {}, None)
    assert (container.rejected, container.judged) == (6, 10)
    assert container.by_rule == "swap: 6, slowed GPUs: 1"
    assert container.p == pytest.approx(0.0108, abs=1e-4)
    (row,) = list_comparison_rows(comparison)
    assert "REJECTIONS DIFFER" in row["stamps"]


def test_as_many_on_both_sides_are_counted_without_a_stamp() -> None:
    experiment = planned()
    reject(experiment, 1, 2, 3)
    reject(experiment, 2, 3, 4, baseline=True)
    comparison = read(experiment)
    assert why(comparison.pairs[0]) == ""
    assert [row.rejected for row in comparison.rejections] == [3, 3]
    assert comparison.rejected == 6


def test_all_of_one_side_are_stamped_though_nothing_is_inferred() -> None:
    experiment = planned(repeats=3)
    reject(experiment, 1, 2, 3)
    (pair,) = read(experiment).pairs
    assert pair.verdict is Verdict.NO_INFERENCE
    assert "3 of 3 runs" in why(pair)


def test_runs_that_failed_otherwise_do_not_count_and_excluded_ones_do() -> None:
    experiment = planned()
    reject(experiment, 1, 2, 3, 4)
    container = experiment.runs.exclude(environment=experiment.baseline_id)
    container.filter(repeat=5).update(state=Run.State.FAILED, reason="crashed")
    assert excluded_runs.exclude(container.get(repeat=6), experiment.owner, "its fan")
    _, row = read(experiment).rejections
    assert (row.rejected, row.judged) == (4, 9)


def test_an_interim_analysis_counts_its_own_repeats() -> None:
    experiment = planned(looks=2)
    reject(experiment, 6, 7, 8, 9, 10)
    (pair,) = read(experiment).pairs
    assert pair.interim_analysis
    assert pair.interim_analysis.number == 1
    assert why(pair) == "", "it had decided before"
    reject(experiment, 1, 2, 3, 4, 5)
    (pair,) = read(experiment).pairs
    assert why(pair) != ""


def test_few_in_each_of_many_configurations_stamp_those_that_have_some() -> None:
    workloads = WorkloadFactory.create_batch(8)
    experiment = planned(repeats=3, workloads=workloads)
    for workload in workloads[:-1]:
        container = experiment.runs.filter(workload=workload, repeat=1)
        container.exclude(environment=experiment.baseline_id).update(
            state=Run.State.FAILED, reason="rejected", message=SWAP
        )
    reasons = {
        group.configuration["workload"]: why(pair)
        for group in read(experiment).groups
        for pair in group.pairs
    }
    assert [bool(reasons[workload.name]) for workload in workloads] == [True] * 7 + [False]
    assert "7 of 24 runs and none of 24 runs" in reasons[workloads[0].name]


def test_without_rules_nothing_is_asked_and_with_rules_little() -> None:
    counts = []
    for workloads, rejected in ((1, ()), (1, (1,)), (3, (1, 2, 3))):
        experiment = planned(workloads=WorkloadFactory.create_batch(workloads))
        reject(experiment, *rejected)
        experiment = Experiment.objects.get(pk=experiment.pk)
        with CaptureQueriesContext(connection) as queries:
            read(experiment)
        counts.append(len(queries))
    assert counts[1] == counts[2] == counts[0] + 1
    assert read(launched(repeats=1, looks=1)).rejections == []


@pytest.mark.parametrize(
    "message", ["", "x" * 5_000, "<b>; \x01", "By the plan's rules: a new one."]
)
def test_a_message_of_another_version_is_another_rule(message: str) -> None:
    experiment = planned(repeats=2)
    reject(experiment, 1, message=message)
    _, row = read(experiment).rejections
    assert row.by_rule == "another rule: 1"


def test_they_are_kept() -> None:
    experiment = planned()
    reject(experiment, 1, 2, 3, 4, 5, 6, message=HOT)
    computed = read(experiment)
    assert keep_comparison(experiment.pk) == "kept"
    kept = read_comparison(Experiment.objects.get(pk=experiment.pk))
    assert kept.rejections == computed.rejections != []
    assert kept.pairs == computed.pairs


def test_the_runs_of_an_extension_do_not_count_for_a_verdict_that_stood_before_it() -> None:
    """Those of other configurations came when this one had been decided."""
    experiment = planned()
    (pair,) = read(experiment).pairs
    run = experiment.runs.first()
    assert run
    place = (run.workload_id, run.scale)
    reject(experiment, 6, 7, 8, 9, 10)
    assert why(JudgedRuns(experiment).stamp(pair, place, [10])) != ""
    experiment.repeats, experiment.extended_repeats = 5, 5
    assert why(JudgedRuns(experiment).stamp(pair, place, [5])) == ""
    extended = replace(pair, extension=Extended(planned=5, added=5, level=0.0294))
    assert why(JudgedRuns(experiment).stamp(extended, place, [5, 10])) != ""
