"""Metrics of runs as Prometheus scrapes them: its own parser reads each number back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from experiments.execution import open_metrics
from experiments.execution.live_readings import MOST_RUNS
from experiments.execution.open_metrics import write_open_metrics
from experiments.models import Cluster, Experiment, LiveReading, Measurement, Run
from runners.workloads.live_reports import LiveReport
from tests.dashboard.api.requests_by_token import get, log_in
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db
Samples = dict[str, list[tuple[Mapping[str, str], float]]]


def parse(content: bytes) -> Samples:
    """Return the samples of each family, as Prometheus' own parser reads them."""
    families = text_string_to_metric_families(content.decode())
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in families
    }


def scrape(client: Client, experiment: Experiment, query: str = "") -> Samples:
    path = f"/api/v1/experiments/{experiment.pk}/openmetrics{query}"
    answer = client.get(path, headers=log_in(experiment.owner))
    assert answer.status_code == 200, answer.content
    assert answer["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    return parse(answer.content)


def begin(run: Run, lines: bytes = b"") -> None:
    """Have a run be running, and have read these lines of its report."""
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING, ended_at=None)
    report = LiveReport()
    report.add_lines(lines)
    LiveReading.objects.create(
        run=run,
        watched_at=timezone.now(),
        read_at=timezone.now() - timedelta(minutes=1),
        directory=f"{run.job.directory}/{run.folder}",
        report=report.build_document(),
    )


def test_each_number_has_its_labels(results: Experiment, client: Client) -> None:
    families = scrape(client, results)
    expected = {
        (
            str(results.pk),
            row.run.environment.name,
            f"{row.run.workload.name} {row.run.scale}",
            str(row.run.repeat),
            row.run.node,
            row.run.uid,
        ): row.value
        for row in Measurement.objects.filter(metric="step_time").select_related("run")
    }
    samples = families["tare_step_time_seconds"]
    assert {
        tuple(labels[name] for name in open_metrics.LABELS): value for labels, value in samples
    } == expected
    states = {labels["state"]: value for labels, value in families["tare_runs"]}
    assert states == {"succeeded": results.runs.count()}


def test_metrics_may_be_named(results: Experiment, client: Client) -> None:
    run = results.runs.earliest("pk")
    Measurement.objects.create(run=run, metric="energy", unit="J", value=12.5)
    assert scrape(client, results, "?metrics=energy").keys() == {"tare_runs", "tare_energy_joules"}
    families = parse(
        client.get(f"/api/v1/runs/{run.uid}/openmetrics", headers=log_in(results.owner)).content
    )
    ((labels, value),) = families["tare_energy_joules"]
    assert (labels["run"], value) == (run.uid, 12.5)
    assert len(families["tare_step_time_seconds"]) == 1


def test_a_running_run_shows_its_latest_steps(results: Experiment, client: Client) -> None:
    run = results.runs.latest("pk")
    lines = b'{"series": "step_time", "unit": "s", "from": 0, "values": [0.5, 0.25]}\n'
    begin(run, lines + b'{"series": "loss", "from": 0, "values": [2.0]}\n')
    Cluster.objects.update(wanted_at=None, enabled=True)
    families = scrape(client, results)
    assert [value for _, value in families["tare_latest_step_time_seconds"]] == [0.25]
    assert [value for _, value in families["tare_latest_loss"]] == [2.0]
    ((labels, count),) = families["tare_reported_step_time"]
    assert (labels["run"], count) == (run.uid, 2)
    # Whoever scrapes it has it read again.
    assert Cluster.objects.get(pk=run.job.cluster_id).wanted_at is not None


def test_so_many_running_runs_are_read_and_no_more(results: Experiment, client: Client) -> None:
    Run.objects.update(state=Run.State.RUNNING, ended_at=None)
    scrape(client, results)
    assert LiveReading.objects.count() == min(MOST_RUNS, results.runs.count())


def test_it_is_seen_by_those_who_may_view(results: Experiment, client: Client) -> None:
    Experiment.objects.update(visibility="private")
    run = results.runs.earliest("pk")
    for path in (f"experiments/{results.pk}/openmetrics", f"runs/{run.uid}/openmetrics"):
        get(client, path, log_in(UserFactory()), 404)
        get(client, path, {}, 401)


def test_too_much_is_refused_with_what_to_do(
    results: Experiment, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_metrics, "MOST_SAMPLES", 3)
    path = f"experiments/{results.pk}/openmetrics"
    assert "metrics=" in get(client, path, log_in(results.owner), 422)["detail"]


def test_numbers_that_are_none_are_written_as_openmetrics_has_them(results: Experiment) -> None:
    keys = list(results.runs.values_list("pk", flat=True)[:2])
    for key, value in zip(keys, ("NaN", "-Infinity"), strict=True):
        Measurement.objects.filter(run=key).update(value=float(value))
    samples = parse(write_open_metrics(results.runs.all()))["tare_step_time_seconds"]
    values = [value for _, value in samples]
    assert len(values) == results.runs.count()
    assert float("-inf") in values
    assert any(value != value for value in values)


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)


@given(keys=st.sets(st.tuples(TEXTS, TEXTS), min_size=1, max_size=8), label=TEXTS)
def test_any_name_unit_and_label_can_be_parsed(keys: set[tuple[str, str]], label: str) -> None:
    families = open_metrics._Families()
    families.add(("runs", ""), "Runs in each state.", ("state",)).add_metric(["running"], 1)
    for number, key in enumerate(sorted(keys)):
        families.add(key, key[0], ("node",)).add_metric([label], number)
    read = parse(families.write())
    values = sorted(value for samples in read.values() for _, value in samples)
    if ("runs", "") not in keys:
        assert values == sorted([1, *range(len(keys))])
    assert all(
        labels in ({"state": "running"}, {"node": label})
        for samples in read.values()
        for labels, _ in samples
    )
