"""Files for trackers of benchmarks: what they hold, and that their readers take them."""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from experiments.models import Experiment, Measurement
from experiments.statistics.published.tables import read_table
from tests.dashboard.access.test_links import link_to, visitor
from tests.dashboard.api.requests_by_token import get, log_in
from tests.factories import MeasurementFactory, UserFactory

pytestmark = pytest.mark.django_db
NAMES = ("bencher", "pytest-benchmark")


def fetch(client: Client, experiment: Experiment, name: str) -> bytes:
    answer = client.get(reverse(f"{name.replace('-', '_')}_json", args=[experiment.pk]))
    assert answer.status_code == 200
    return answer.content


def read_values(experiment: Experiment, environment: str) -> list[float]:
    rows = Measurement.objects.filter(run__experiment=experiment, metric="step_time")
    ordered = rows.filter(run__environment__name=environment).order_by("run__job__block")
    return list(ordered.values_list("value", flat=True))


def test_bencher_gets_mean_and_range_of_each_metric(results: Experiment, as_owner: Client) -> None:
    content = json.loads(fetch(as_owner, results, "bencher"))
    run = results.runs.filter(environment=results.baseline)[0]
    baseline = str(results.baseline)
    measure = content[f"{run.workload} {run.scale} {baseline}"]["step_time (s)"]
    values = read_values(results, baseline)
    assert measure == {
        "value": statistics.fmean(values),
        "lower_value": min(values),
        "upper_value": max(values),
    }


@pytest.mark.parametrize("value", [1e308, 5e-324, 1e300, 1e-300])
def test_numbers_that_no_time_has_break_no_file(
    results: Experiment, as_owner: Client, value: float
) -> None:
    Measurement.objects.filter(run__experiment=results, metric="step_time").update(value=value)
    MeasurementFactory(run=results.runs.first(), metric="import_time", value=2.0)
    assert "import_time (s)" in str(json.loads(fetch(as_owner, results, "bencher")))
    benchmarks = json.loads(fetch(as_owner, results, "pytest-benchmark"))["benchmarks"]
    assert any(row["stats"]["mean"] == 2.0 for row in benchmarks)


def test_our_own_import_reads_the_runs_back(results: Experiment, as_owner: Client) -> None:
    table = read_table(fetch(as_owner, results, "pytest-benchmark"))
    for environment in results.environments.all():
        values = {row.mean.value for row in table.rows if row.environment == environment.name}
        assert set(read_values(results, environment.name)) <= values


@pytest.mark.skipif(
    importlib.util.find_spec("pytest_benchmark") is None, reason="pytest-benchmark is not here"
)
def test_pytest_benchmark_compares_the_file(
    results: Experiment, as_owner: Client, tmp_path: Path
) -> None:
    file = tmp_path / "0001_tare.json"
    file.write_bytes(fetch(as_owner, results, "pytest-benchmark"))
    command = [sys.executable, "-m", "pytest_benchmark", "compare", str(file)]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    for environment in results.environments.all():
        assert environment.name in printed.stdout


@pytest.mark.parametrize("name", NAMES)
def test_page_and_api_send_the_same_to_those_who_may_view(
    results: Experiment, as_owner: Client, client: Client, name: str
) -> None:
    content = json.loads(fetch(as_owner, results, name))
    path = f"experiments/{results.pk}/{name}.json"
    assert get(client, path, log_in(results.owner)) == content
    Experiment.objects.update(visibility="private")
    get(client, path, log_in(UserFactory()), 404)
    get(client, path, {}, 401)


def test_a_link_with_hidden_names_shows_none(results: Experiment) -> None:
    results.environments.filter(pk=results.baseline_id).update(name=f"of {results.owner.username}")
    for name in NAMES:
        shown = fetch(visitor(link_to(results, hides_names=True)), results, name).decode()
        assert results.owner.username not in shown


def test_without_times_the_answer_says_so(results: Experiment, client: Client) -> None:
    Measurement.objects.update(unit="images/s")
    path = f"experiments/{results.pk}/pytest-benchmark.json"
    assert "no metric in seconds" in get(client, path, log_in(results.owner), 422)["detail"]
