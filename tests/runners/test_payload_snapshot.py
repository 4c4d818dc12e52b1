"""What the program sees from inside its environment."""

import json
import os
import platform
import socket
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.payload import snapshot
from runners.workloads import WORKLOADS
from tests.runners.payload_runs import Ran, run_payload

CHOSEN = {
    "OMP_PLACES": "cores",
    "CUDA_VISIBLE_DEVICES": "0,1",
    "LD_LIBRARY_PATH": "/opt/läufe/lib",
    "SLURM_JOB_ID": "7",
    "PYTHONNOUSERSITE": "1",
}
SECRET = {
    "SLURM_JWT": "s3cret",
    "TF_API_TOKEN": "s3cret",
    "NVIDIA_API_KEY": "s3cret",
    "APPTAINER_DOCKER_PASSWORD": "s3cret",
    "AWS_SECRET_ACCESS_KEY": "s3cret",
    "DATABASE_URL": "postgres://me:s3cret@host/db",
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    parameters = WORKLOADS["blas"].clean({"matrix_size": 8, "steps": 2, "burn_in": 1, "threads": 1})
    directory = tmp_path_factory.mktemp("run") / "run"
    return run_payload(directory, "blas", parameters, variables={**CHOSEN, **SECRET})


def test_it_tells_where_the_program_ran(ran: Ran) -> None:
    inside = ran.inside
    assert inside["hostname"] == socket.gethostname()
    assert platform.release() in inside["kernel"]
    assert inside["python"]["version"] == platform.python_version()
    assert inside["packages"]["numpy"] == metadata.version("numpy")
    assert inside["cpus"] == sorted(os.sched_getaffinity(0))
    assert inside["memory_bytes"] > 2**20
    assert inside["os"]
    assert inside["cpu"]


def test_it_tells_what_the_workload_loaded(ran: Ran) -> None:
    assert ran.inside["blas"]["blas"]["name"]
    assert any("blas" in os.path.basename(path) for path in ran.inside["libraries"])


def test_it_tells_the_variables_as_they_were_given(ran: Ran) -> None:
    variables = ran.inside["variables"]
    assert CHOSEN.items() <= variables.items()
    assert "OMP_NUM_THREADS" not in variables, "what the workload itself sets is a parameter"


def test_secrets_stay_out(ran: Ran) -> None:
    assert "s3cret" not in json.dumps(ran.inside)


@given(st.text(st.sampled_from("ABKEYSLURMTOKEN_"), min_size=1))
def test_only_names_of_the_list_are_kept(name: str) -> None:
    kept = snapshot.select_variables({name: "value", "SLURM_JOB_ID": "7"})
    assert kept["SLURM_JOB_ID"] == "7"
    if name in kept:
        assert name.startswith("SLURM_")
        assert "TOKEN" not in name


def put_nvidia_smi(directory: Path, script: str) -> None:
    program = directory / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_gpus_are_listed_as_nvidia_smi_shows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "0, NVIDIA A100, GPU-1, 550.54, 40960 MiB, 1410 MHz, 1215 MHz, 400.00 W"
    put_nvidia_smi(tmp_path, f"echo '{rows}'; echo '{rows.replace('0, N', '1, N')}'")
    monkeypatch.setenv("PATH", str(tmp_path))
    first, second = snapshot.list_gpus()
    assert first == {
        "index": "0",
        "name": "NVIDIA A100",
        "uuid": "GPU-1",
        "driver_version": "550.54",
        "memory.total": "40960 MiB",
        "clocks.max.sm": "1410 MHz",
        "clocks.max.memory": "1215 MHz",
        "power.limit": "400.00 W",
    }
    assert second["index"] == "1"


@pytest.mark.parametrize("script", [None, "exit 9", "echo NVIDIA-SMI has failed; exit 1"])
def test_no_gpus_where_nvidia_smi_finds_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None
) -> None:
    if script:
        put_nvidia_smi(tmp_path, script)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert snapshot.list_gpus() == []
