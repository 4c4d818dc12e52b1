"""The panel Steadiness: the spread inside runs by environment, and packed against alone."""

from __future__ import annotations

import csv
import io
import json
import random
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from dashboard.templatetags.numbers import estimate
from experiments.comparisons import compare_experiment
from experiments.comparisons.step_spreads import compare_steadiness, find_scale_alone
from experiments.design import Scale
from experiments.models import Experiment, Measurement
from experiments.statistics.step_spread import Ratio
from tests.dashboard.conftest import People, Site, read_report
from tests.factories import JobFactory, LaunchedFactory, MeasurementFactory, RunFactory

pytestmark = pytest.mark.django_db


def spread_out(
    site: Site,
    people: People,
    *,
    blocks: int = 5,
    scales: tuple[str, ...] = ("1x1", "1x4x4"),
    timed: bool = False,
) -> Experiment:
    """Steps as long packed as alone, which vary twice as much; in the container thrice."""
    draw = random.Random(5)
    made: Experiment = LaunchedFactory(
        owner=people.owner,
        cluster=site.cluster,
        partition=site.partition,
        baseline=site.bare,
        workloads=[site.workload],
        environments=[site.bare, site.container],
        scales=list(scales),
        repeats=blocks,
        visibility="members",
    )
    for scale in scales:
        for repeat in range(1, blocks + 1):
            job = JobFactory(experiment=made, repeat=repeat, scale=scale)
            for environment in (site.bare, site.container):
                times = {site.bare: 2.0, site.container: 3.0}[environment] if "x4x" in scale else 1
                spread = 4e-4 * times * draw.lognormvariate(0, 0.08)
                run = RunFactory(
                    job=job,
                    environment=environment,
                    values={"step_time": 0.02 * draw.lognormvariate(0, 0.005)},
                )
                MeasurementFactory(run=run, metric="step_time_sd", value=spread)
                tail = 1 + 2.4 * spread / 0.02
                MeasurementFactory(run=run, metric="tail_ratio", value=tail, unit="1")
                if timed:
                    whole = (12.0 if "x4x" in scale else 10) * draw.lognormvariate(0, 0.01)
                    MeasurementFactory(run=run, metric="run_time", value=whole)
    return made


@pytest.fixture
def spreads(site: Site, people: People) -> Experiment:
    return spread_out(site, people)


def page_of(client: Client, experiment: Experiment) -> str:
    return read_report(client, experiment)


def test_the_spread_of_each_environment_and_of_packed_runs_is_said(
    spreads: Experiment, as_owner: Client
) -> None:
    found = compare_steadiness(compare_experiment(spreads))
    assert [group.title for group in found.groups] == ["blas small · 1x1", "blas small · 1x4x4"]
    alone, together = (group.environments for group in found.groups)
    assert [one.environment for one in alone] == ["bare metal", "Apptainer"]
    assert together[1].sd_ratio is not None
    assert together[1].sd_ratio.ci95 is not None
    low, high = together[1].sd_ratio.ci95
    assert low < 1.5 < high, "the container's steps vary 1.5 times as much when packed"
    (packed,) = found.packed
    assert (packed.alone, packed.together) == ("1x1", "1x4x4")
    for one, times in zip(packed.environments, (2, 3), strict=True):
        low, high = one.sd_ratio.ci95 or (0, 0)
        assert low < times < high
        assert one.sentence.endswith("(95 % CI; SD within runs).")
        assert "(95 % CI; 5 runs packed, 5 alone)" in one.sentence
        assert one.sentence in page_of(as_owner, spreads)


def test_the_whole_time_of_packed_runs_is_compared_where_it_was_measured(
    site: Site, people: People, as_owner: Client
) -> None:
    made = spread_out(site, people, timed=True)
    (group,) = compare_steadiness(compare_experiment(made)).packed
    for packed in group.environments:
        assert packed.time_ratio is not None
        assert packed.time_ratio.ci95 is not None
        low, high = packed.time_ratio.ci95
        assert low < 1.2 < high
        assert f"Whole runs take {packed.time_ratio.text} times as long (95 % CI)." in page_of(
            as_owner, made
        )
    rows = json.loads(as_owner.get(reverse("comparison_json", args=[made.pk])).content)
    times = [row for row in rows["steadiness"] if row["metric"] == "run_time"]
    assert [row["ratio"] for row in times] == pytest.approx([1.2, 1.2], rel=0.02)


def test_a_run_without_a_spread_is_no_row_and_no_run_with_one_is_no_panel(
    spreads: Experiment, as_owner: Client
) -> None:
    assert "<h2>Steadiness</h2>" in page_of(as_owner, spreads)
    first = Measurement.objects.filter(metric="step_time_sd").order_by("pk").first()
    assert first is not None
    first.delete()
    (group, _) = compare_steadiness(compare_experiment(spreads)).groups
    assert [one.runs for one in group.environments] == [4, 5]
    Measurement.objects.filter(metric="step_time_sd").delete()
    assert "<h2>Steadiness</h2>" not in page_of(as_owner, spreads)


def test_nothing_is_estimated_before_the_planned_look(
    site: Site, people: People, as_owner: Client
) -> None:
    made = spread_out(site, people)
    JobFactory(experiment=made, repeat=6, scale="1x1", state="planned")
    run = RunFactory(job=made.jobs.get(repeat=6), state="planned")
    assert compare_steadiness(compare_experiment(made)).groups == []
    assert "<h2>Steadiness</h2>" not in page_of(as_owner, made)
    run.delete()
    assert compare_steadiness(compare_experiment(made)).groups


def test_many_runs_take_as_many_queries_as_few(site: Site, people: People) -> None:
    def queries(experiment: Experiment) -> int:
        found = compare_experiment(experiment)
        with CaptureQueriesContext(
            connection,
        ) as captured:
            compare_steadiness(found)
        return len(captured)

    few = queries(spread_out(site, people, blocks=2))
    assert queries(spread_out(site, people, blocks=7)) == few == 2


def test_the_files_hold_every_ratio(spreads: Experiment, as_owner: Client) -> None:
    address = reverse("comparison_json", args=[spreads.pk])
    rows = json.loads(as_owner.get(address).content)["steadiness"]
    found = compare_steadiness(compare_experiment(spreads))
    packed: Any = found.packed[0].environments[1]
    (row,) = [
        row
        for row in rows
        if row.get("against_scale") == "1x1"
        and row["environment"] == "Apptainer"
        and row["metric"] == "step_time_sd"
    ]
    assert (row["ratio"], row["ci95_low"], row["ci95_high"]) == (
        packed.sd_ratio.value,
        *packed.sd_ratio.ci95,
    )
    assert row["sentence"] == packed.sentence
    assert len(rows) == 2 * 2 * 3 + 2 * 3
    answer: Any = as_owner.get(reverse("comparison_csv", args=[spreads.pk]))
    lines = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))
    kept = [line for line in lines if line["metric"] == "step_time_sd" and line["ratio"]]
    assert len(kept) == 2 + 2
    assert float(kept[-1]["ratio"]) == packed.sd_ratio.value


@pytest.mark.parametrize(
    ("together", "alone"),
    [("1x4x4", "1x1"), ("1x4x2", "1x2"), ("1x0x4", "1x0"), ("1x4", None), ("1x3x2", None)],
)
def test_alone_is_with_as_many_gpus_as_each_instance_has(together: str, alone: str | None) -> None:
    assert find_scale_alone(Scale.parse(together)) == alone


def test_an_interval_that_says_nothing_is_no_result() -> None:
    told = estimate(Ratio(0.6, (0.00068, 524.6)))
    assert told.startswith("not determined<br>")
    assert "0.6 [0.00068, 524.6]: more runs are needed" in told
    assert estimate(Ratio(0.6, (0.4, 0.9))) == "0.6 [0.4, 0.9]"
