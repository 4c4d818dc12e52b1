"""Plans with any features that the form allows together, and one verdict wherever it is shown.

Exclusions by hand, an extension, several decisive metrics, interim analyses, margins of training,
detected warm-up and estimands were each made and tried alone.
"""

from __future__ import annotations

import csv
import io
import json
import random
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest
from bs4 import BeautifulSoup, Tag
from django.test import Client
from django.urls import reverse
from hypothesis import HealthCheck, assume, event, example, given, settings
from hypothesis import strategies as st

from dashboard.comparisons.latex import results_table
from dashboard.comparisons.methods import describe_methods
from experiments.comparisons import ExperimentComparison, compare_experiment
from experiments.comparisons.step_summaries import add_step_summary
from experiments.execution import excluded_runs, lifecycle
from experiments.execution.extending import extend
from experiments.execution.further_attempts import NotDone
from experiments.execution.lifecycle import NotLaunchable
from experiments.models import Experiment, Job, Measurement, Run
from experiments.notifications.posted_events import _describe_verdicts
from tests.conftest import EXPLORES
from tests.dashboard.conftest import People, Site, fetch, read_report
from tests.factories import ContainerFactory, ExperimentFactory, SeriesFactory, WorkloadFactory

pytestmark = pytest.mark.django_db

UNITS = {
    "step_time": "s",
    "accuracy": "1",
    "run_time": "s",
    "peak_host_memory": "B",
    "gpu_energy": "J",
}
RATIOS = (1.0, 1.001, 1.02, 1.08, 0.92)
NOISE = (0.0, 0.0005, 0.02)
STEPS = 12
NUMBERS = count()
"""Names of environments: all examples share one cluster."""


@dataclass(frozen=True)
class Drawn:
    """What one example plans, measures and does afterwards."""

    columns: dict[str, Any]
    containers: int
    scales: list[str]
    seed: int
    ratios: list[float]
    noise: float
    missing: float
    """The share of runs that lack the value of a metric, or have failed."""
    has_sources: bool
    """Whether some values of memory have another source than others."""
    has_losses: bool
    excluded_first: int
    excluded_last: int
    added: int


@st.composite
def draw_studies(draw: st.DrawFn) -> Drawn:
    """Draw a plan: one that can be extended, or one with all that rules an extension out."""
    goal = draw(st.sampled_from(["equivalence", "not slower"]))
    columns: dict[str, Any] = {
        "goal": goal,
        "margin": draw(st.sampled_from([0.02, 0.05])),
        "margin_faster": None if goal == "not slower" else draw(st.sampled_from([None, 0.01])),
        "design": draw(st.sampled_from(["paired", "independent"])),
        "estimand": draw(st.sampled_from(["", "nodes", "partition"])),
        "primary_metric": draw(st.sampled_from(["", "run_time", "peak_host_memory"])),
    }
    added = draw(st.sampled_from([0, 0, 2, 5]))
    if added:
        columns["repeats"] = draw(st.integers(2, 5))
    else:
        further = draw(
            st.lists(st.sampled_from(sorted(UNITS)), max_size=3, unique=True).map(
                lambda names: [name for name in names if name != columns["primary_metric"]]
            )
        )
        columns |= {
            "repeats": draw(st.integers(1, 10)),
            "looks": draw(st.sampled_from([1, 1, 2])),
            "further_metrics": [{"metric": name, "margin": 0.03} for name in further],
            "metrics_rule": draw(st.sampled_from(["all", "in order"])),
            "accuracy_margin": draw(st.sampled_from([None, 0.5])),
            "loss_margin": draw(st.sampled_from([None, 0.1])),
            "warm_up": draw(st.sampled_from(["fixed", "fixed", "found"])),
        }
    containers = draw(st.integers(1, 2))
    return Drawn(
        columns=columns,
        containers=containers,
        scales=draw(st.sampled_from([["1x1"], ["1x1", "1x2"]])),
        seed=draw(st.integers(0, 2**16)),
        ratios=[draw(st.sampled_from(RATIOS)) for _ in range(containers)],
        noise=draw(st.sampled_from(NOISE)),
        missing=draw(st.sampled_from([0.0, 0.0, 0.2, 1.0])),
        has_sources=draw(st.booleans()),
        has_losses=draw(st.booleans()),
        excluded_first=draw(st.integers(0, 2)),
        excluded_last=draw(st.integers(0, 2)),
        added=added,
    )


def launch(drawn: Drawn, site: Site, people: People) -> Experiment:
    """Return the launched experiment; a plan that is refused, as by the form, is no example."""
    containers = [
        ContainerFactory(cluster=site.cluster, name=f"box {next(NUMBERS)}")
        for _ in range(drawn.containers)
    ]
    experiment: Experiment = ExperimentFactory(
        owner=people.owner,
        cluster=site.cluster,
        partition=site.partition,
        baseline=site.bare,
        workloads=[WorkloadFactory(kind="cnn", parameters={"batch_size": 16})],
        environments=[site.bare, *containers],
        scales=drawn.scales,
        visibility="members",
        **drawn.columns,
    )
    try:
        lifecycle.launch(experiment, people.owner)
    except NotLaunchable as refusal:
        event(f"refused at {', '.join(sorted(refusal.messages))}")
        assume(False)
    return experiment


def end_runs(drawn: Drawn, experiment: Experiment) -> None:
    """End every planned run: with values, without some of them, or failed."""
    chance = random.Random(drawn.seed + experiment.all_repeats)
    names = [row.pk for row in experiment.environments.exclude(pk=experiment.baseline_id)]
    ratio_of = dict(zip(sorted(names), drawn.ratios, strict=True))
    measurements = []
    in_cells = ("workload_id", "scale", "repeat", "environment_id")  # the plan has a random order
    for run in experiment.runs.filter(state=Run.State.PLANNED).order_by(*in_cells):
        if chance.random() < drawn.missing / 2:
            Run.objects.filter(pk=run.pk).update(state=Run.State.FAILED)
            continue
        ratio = ratio_of.get(run.environment_id, 1.0)
        for metric, unit in UNITS.items():
            if chance.random() < drawn.missing / 2:
                continue
            has_other = drawn.has_sources and metric == "gpu_energy" and chance.random() < 0.5
            own = ratio if metric != "accuracy" else 1.0
            value = 0.5 * own * (1 + drawn.noise * chance.gauss(0, 1))
            source = "" if unit in ("s", "1") else f"counter {has_other}"
            measurements.append(
                Measurement(run=run, metric=metric, unit=unit, value=value, source=source)
            )
        if drawn.has_losses:
            losses = [2.0 * 0.9**step * (1 + 0.01 * chance.random()) for step in range(STEPS)]
            row = SeriesFactory(run=run, metric="loss", unit="1", values=losses)
            add_step_summary(row).save()
        Run.objects.filter(pk=run.pk).update(
            state=Run.State.SUCCEEDED,
            node=f"node{chance.randrange(3)}",
            began_at=experiment.launched_at,
            ended_at=experiment.launched_at,
        )
    Measurement.objects.bulk_create(measurements)
    experiment.jobs.update(state=Job.State.DONE, scheduler_id="1", ended_at=experiment.launched_at)


def exclude_some(experiment: Experiment, number: int) -> None:
    for run in experiment.runs.filter(state=Run.State.SUCCEEDED).order_by("pk")[:number]:
        excluded_runs.exclude(run, experiment.owner, "the fan was broken")


def make_study(drawn: Drawn, site: Site, people: People) -> ExperimentComparison:
    """Return the comparison after all that was drawn has happened."""
    experiment = launch(drawn, site, people)
    end_runs(drawn, experiment)
    exclude_some(experiment, drawn.excluded_first)
    if drawn.added:
        try:
            extend(experiment, drawn.added, people.owner)
        except NotDone:
            event("not extended")
        else:
            event("extended")
            experiment.refresh_from_db()
            end_runs(drawn, experiment)
    exclude_some(experiment, drawn.excluded_last)
    return compare_experiment(Experiment.objects.get(pk=experiment.pk))


Verdicts = list[tuple[str, str, str, str]]
"""Metric, scale, environment and verdict."""


def list_verdicts(comparison: ExperimentComparison) -> Verdicts:
    return [
        (group.metric.name, group.configuration["scale"], pair.environment, str(pair.verdict))
        for groups in zip(*comparison.by_metric, strict=True)
        for group in groups
        for pair in group.pairs
    ]


def list_row_verdicts(rows: list[dict[str, Any]]) -> Verdicts:
    return [(row["metric"], row["scale"], row["environment"], row["verdict"]) for row in rows]


def read_text(part: Tag) -> str:
    return " ".join(part.get_text(" ").split())


def check_files(client: Client, comparison: ExperimentComparison, expected: Verdicts) -> None:
    pk = comparison.experiment.pk
    content = json.loads(fetch(client, reverse("comparison_json", args=[pk])))
    assert list_row_verdicts(content["comparison"]) == expected
    table = fetch(client, reverse("comparison_csv", args=[pk])).decode("utf-8-sig")
    rows = [row for row in csv.DictReader(io.StringIO(table)) if row.get("verdict")]
    assert list_row_verdicts(rows) == expected
    overalls = [
        str(comparison.decisive[number, environment].verdict)
        for number, groups in enumerate(zip(*comparison.by_metric, strict=True), start=1)
        for group in groups
        for environment in [pair.environment for pair in group.pairs]
        if comparison.decisive
    ]
    for found in (content["comparison"], rows):
        assert [row["overall_verdict"] for row in found if comparison.decisive] == overalls
    assert fetch(client, reverse("comparison_parquet", args=[pk]))
    paper = "\n".join(results_table(comparison))
    for _, _, _, verdict in expected:
        assert verdict in paper
    told = _describe_verdicts(comparison.experiment)["verdicts"]
    assert [row["verdict"] for row in told] == [verdict for _, _, _, verdict in expected]


def check_pages(client: Client, comparison: ExperimentComparison) -> None:
    main = [str(pair.verdict) for pair in comparison.pairs]
    page = BeautifulSoup(read_report(client, comparison.experiment), "html.parser")
    links = page.select(".verdict-matrix td.cell .said a[aria-label]")
    shown = [str(link["aria-label"]).rpartition(": ")[2] for link in links]
    address = reverse("report", args=[comparison.experiment.pk])
    report = BeautifulSoup(fetch(client, address), "html.parser")
    rows = report.select("section.results tbody tr:not(.group)")
    printed = [read_text(row.select("td")[0]) for row in rows]
    if not comparison.pairs:
        assert not shown
        return
    assert shown == main
    assert len(printed) == len(main)
    for text, verdict in zip(printed, main, strict=True):
        assert text.startswith(verdict)
    words = read_text(report)
    for overall in comparison.decisive.values():
        claim = " ".join(overall.claim.split())
        assert claim in words.replace("\N{NO-BREAK SPACE}", " ")


def check_methods(comparison: ExperimentComparison) -> None:
    methods = " ".join(describe_methods(comparison))
    for groups in comparison.by_metric:
        for group in groups:
            for pair in group.pairs:
                if pair.before:
                    assert f"{pair.environment}: {pair.verdict} without them" in methods
                    assert pair.before.sentence in methods
    if compared := len(comparison.decisive) or len(comparison.pairs):
        assert f"{compared} comparison" in methods
    for overall in comparison.decisive.values():
        if overall.before:
            assert f"all decisive metrics: {overall.verdict} without them" in methods


USUAL = Drawn(
    columns={"repeats": 5, "margin": 0.02},
    containers=2,
    scales=["1x1"],
    seed=1,
    ratios=[1.0, 1.08],
    noise=0.0005,
    missing=0.0,
    has_sources=False,
    has_losses=False,
    excluded_first=1,
    excluded_last=1,
    added=0,
)
EXTENDED = replace(USUAL, ratios=[1.0, 1.02], noise=0.02, added=5)
"""Inconclusive at first, with a run excluded before the extension and one after it."""
ALL_METRICS = [{"metric": name, "margin": 0.03} for name in ("peak_host_memory", "gpu_energy")]
SEVERAL = replace(
    USUAL,
    scales=["1x1", "1x2"],
    has_sources=True,
    has_losses=True,
    columns=USUAL.columns
    | {
        "goal": "not slower",
        "further_metrics": ALL_METRICS,
        "metrics_rule": "in order",
        "accuracy_margin": 0.5,
        "loss_margin": 0.1,
    },
)
"""Times and amounts in a fixed order, beside margins of training, with runs excluded."""


@settings(
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
    ],
    max_examples=200 if EXPLORES else 12,
)
@given(drawn=draw_studies())
@example(drawn=EXTENDED)
@example(drawn=SEVERAL)
def test_any_features_together_give_one_verdict_wherever_it_is_shown(
    drawn: Drawn, site: Site, people: People, as_owner: Client
) -> None:
    comparison = make_study(drawn, site, people)
    check_methods(comparison)
    check_files(as_owner, comparison, list_verdicts(comparison))
    check_pages(as_owner, comparison)
