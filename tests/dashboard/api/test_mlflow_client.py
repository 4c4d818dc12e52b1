"""A real client of MLflow, in an environment of its own, lists experiments and runs."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from experiments.models import Experiment, Run
from tests.dashboard.api.requests_by_token import log_in
from tests.factories import SeriesFactory
from tests.source_tree import BASE

UV = BASE / ".tools" / "bin" / "uv"
PACKAGE = "mlflow-skinny>=3"
PROGRAM = """
import json
import mlflow
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

client = MlflowClient()
(experiment,) = client.search_experiments()
assert client.get_experiment(experiment.experiment_id).name == experiment.name
assert client.get_experiment_by_name(experiment.name).experiment_id == experiment.experiment_id
assert client.get_experiment_by_name("Nobody asks this") is None
ids = [experiment.experiment_id]
runs, token = [], None
while True:
    part = client.search_runs(ids, max_results=3, page_token=token)
    runs += part
    token = part.token
    if not token:
        break
slowest = client.search_runs(ids, "metrics.step_time > 0", order_by=["metrics.step_time DESC"])
frame = mlflow.search_runs(ids, "attributes.status = 'FINISHED'", output_format="list")
run = client.get_run(slowest[0].info.run_id)
history = client.get_metric_history(run.info.run_id, "loss")
refusals = []
for refused in (
    lambda: client.create_experiment("mine"),
    lambda: client.log_metric(run.info.run_id, "x", 1.0),
    lambda: client.search_runs(ids, "tags.nothing = 'x'"),
    lambda: client.get_run("0" * 32),
):
    try:
        refused()
    except MlflowException as error:
        refusals.append((error.error_code, str(error)))
print(json.dumps({
    "name": experiment.name,
    "runs": [each.info.run_id for each in runs],
    "finished": len(frame),
    "slowest": [each.data.metrics["step_time"] for each in slowest],
    "metrics": run.data.metrics,
    "params": run.data.params,
    "tags": run.data.tags,
    "times": [run.info.start_time, run.info.end_time],
    "history": [[each.step, each.value] for each in history],
    "refusals": refusals,
    "models": len(client.search_registered_models()),
}))
"""


@pytest.fixture(scope="session")
def mlflow_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has MLflow's client and nothing of Tare."""
    folder = tmp_path_factory.mktemp("mlflow")
    python = folder / "bin" / "python"
    commands = [
        [UV, "venv", "--quiet", "--python", str(BASE / ".venv" / "bin" / "python"), folder],
        [UV, "pip", "install", "--quiet", "--python", str(python), PACKAGE],
    ]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"MLflow's client could not be installed: {done.stderr[-300:]}")
    return python


@pytest.mark.django_db(transaction=True)
def test_mlflows_own_client_reads_runs(
    results: Experiment, live_server: LiveServer, mlflow_python: Path, tmp_path: Path
) -> None:
    parameters = {"batch": 256, "mode": "fast", "mixed": True}
    Run.objects.update(spec={"workload": {"parameters": parameters}})
    for run in results.runs.all():
        SeriesFactory(run=run, metric="loss", unit="1", values=[2.0, 1.5])
    answer = ask(live_server.url, mlflow_python, log_in(results.owner), tmp_path)
    runs = list(results.runs.all())
    assert answer["name"] == results.question
    assert sorted(answer["runs"]) == sorted(run.uid for run in runs)
    assert (answer["finished"], answer["models"]) == (len(runs), 0)
    assert answer["slowest"] == sorted(answer["slowest"], reverse=True)
    assert len(answer["slowest"]) == len(runs)
    assert answer["metrics"]["step_time"] == answer["slowest"][0]
    assert answer["params"] == {"batch": "256", "mode": "fast", "mixed": "yes"}
    assert answer["tags"]["environment"] in {row.name for row in results.environments.all()}
    assert answer["history"] == [[1, 2.0], [2, 1.5]]
    assert 0 < answer["times"][0] < answer["times"][1]
    codes = [code for code, _ in answer["refusals"]]
    assert codes == [
        *("PERMISSION_DENIED", "PERMISSION_DENIED"),
        *("INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST"),
    ]
    assert "change nothing" in answer["refusals"][0][1]


def ask(address: str, python: Path, headers: dict[str, str], folder: Path) -> Any:
    """Return what a program with MLflow's client prints, from the site at this address."""
    done = subprocess.run(
        [str(python), "-c", PROGRAM],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "MLFLOW_TRACKING_URI": f"{address}/api/v1/mlflow",
            "MLFLOW_TRACKING_TOKEN": headers["authorization"].removeprefix("Bearer "),
            "DO_NOT_TRACK": "true",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
