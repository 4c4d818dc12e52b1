"""The demo's experiment by the command `tare`: from a file to its verdict and bundle, on the lab.

As a researcher has it: an address, a token, and the client installed by pip from that address into
an environment of its own, without Django.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from experiments.definitions.described_experiments import write_file
from experiments.imports.imported_bundles import import_bundle
from experiments.models import Cluster, Experiment
from experiments.models.api_token import make_token
from tests.conftest import finish
from tests.factories import ExperimentFactory, WorkloadFactory

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

PARAMETERS = {"steps": 8, "burn_in": 2, "matrix_size": 64, "decomposition_size": 16}
Tare = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def tare(live_server: LiveServer, registered: Cluster, tmp_path: Path) -> Tare:
    """Install the client from the site alone, and return a function that runs it there."""
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    links = ("--no-index", "--find-links", f"{live_server.url}/client/")
    pip = [environment / "bin" / "python", "-m", "pip", "install", "-q", *links, "tare-client"]
    subprocess.run([str(word) for word in pip], check=True)
    expires_at = timezone.now() + timedelta(days=1)
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TARE_URL": live_server.url,
        "TARE_TOKEN": make_token(registered.owner, "lab", ["experiments"], expires_at)[1],
    }

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(environment / "bin" / "tare"), *words]
        return subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)

    return run


def test_an_experiment_is_launched_from_a_file_followed_compared_exported_and_imported(
    registered: Cluster, tare: Tare, tmp_path: Path
) -> None:
    numpy = registered.environments.filter(staged_image__image__reference__contains="numpy")
    bare = registered.environments.filter(runtime=None).earliest("pk")
    container = numpy.get(name__startswith="Apptainer SIF")
    pattern = ExperimentFactory(
        cluster=registered,
        partition=registered.partitions.get(name="gpu"),
        owner=registered.owner,
        baseline=bare,
        environments=[bare, container],
        workloads=[WorkloadFactory(kind="blas", parameters=PARAMETERS, owner=registered.owner)],
        repeats=2,
        margin=1.0,
    )
    (tmp_path / "study.yaml").write_text(write_file(pattern, registered.owner, "yaml"))
    assert tare("check", "study.yaml").returncode == 0
    launched = tare("launch", "study.yaml", "--json")
    assert launched.returncode == 0, launched.stderr
    key = str(json.loads(launched.stdout)["id"])
    finish(Experiment.objects.get(pk=key))
    followed = tare("follow", key)
    assert "Verdict: " in followed.stdout
    compared = json.loads(tare("compare", key, "--json").stdout)
    assert compared["comparison"][0]["n_blocks"] == 2
    runs = json.loads(tare("results", key, "--json").stdout)
    assert {run["state"] for run in runs} == {"succeeded"}
    assert tare("export", key, "--bundle", "-o", "study.zip").returncode == 0
    Experiment.objects.get(pk=key).delete()
    bundle = tmp_path / "study.zip"
    imported = import_bundle(bundle, registered.owner, file_name="study.zip").experiment
    assert imported.runs.count() == len(runs)
