"""What the program sees from inside its environment."""

import json
import os
import platform
import re
import shutil
import socket
import sys
import sysconfig
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.payload import snapshot
from runners.payload.executables import find_executable
from runners.workloads import WORKLOADS
from tests.runners.payload_runs import Ran, run_payload

CHOSEN = {
    "OMP_PLACES": "cores",
    "CUDA_VISIBLE_DEVICES": "0,1",
    "LD_LIBRARY_PATH": "/opt/läufe/lib",
    "SLURM_JOB_PARTITION": "gpu",
    "PYTHONNOUSERSITE": "1",
}
OF_ONE_JOB = {"SLURM_JOB_ID": "7", "SLURM_JOBID": "7", "SLURM_JOB_NAME": "tare-7-1"}
OF_ONE_JOB |= {"SLURM_JOB_START_TIME": "7", "SLURM_JOB_END_TIME": "8", "SLURM_TASK_PID": "9"}
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
    return run_payload(directory, "blas", parameters, variables={**CHOSEN, **SECRET, **OF_ONE_JOB})


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


def test_it_tells_what_the_standard_library_would(ran: Ran) -> None:
    inside = ran.inside
    assert inside["kernel"] == " ".join((platform.system(), platform.release(), platform.version()))
    assert inside["machine"] == platform.machine()
    assert inside["libc"] == " ".join(platform.libc_ver())
    assert inside["python"]["implementation"] == platform.python_implementation()
    assert inside["python"]["compiler"] == platform.python_compiler()
    assert inside["python"]["build_flags"] == sysconfig.get_config_var("CONFIG_ARGS")


def list_known_packages() -> dict[str, str]:
    """The packages that `importlib.metadata` finds, the first of each name."""
    versions: dict[str, str] = {}
    for distribution in metadata.distributions():
        fields = distribution.metadata
        if fields["Name"] and fields["Version"]:
            versions.setdefault(re.sub(r"[-_.]+", "-", fields["Name"]).lower(), fields["Version"])
    return versions


def test_packages_are_those_that_python_finds() -> None:
    assert snapshot.find_packages() == list_known_packages()


@pytest.mark.parametrize("has_an_egg", [False, True])
def test_packages_are_found_in_all_their_forms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_an_egg: bool
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for file, text in {
        "first/My.Package-2.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: My.Package\n"
        "Version: 2.0\nSummary: Größe\n\nVersion: 9\n",
        "second/my_package-1.0.dist-info/METADATA": "Name: my_package\nVersion: 1.0\n",
        "second/half_removed-1.0.dist-info/RECORD": "",
        "second/nameless-1.0.dist-info/METADATA": "Summary: x\n\nName: nameless\n",
        "second/old.egg-info/PKG-INFO": "Name: old\nVersion: 0.1\n",
        "second/older-3-py3.8.egg-info": "Name: older\nVersion: 3\n",
        "second/code.py": "",
    }.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text, encoding="utf-8")
    paths = [str(first), str(tmp_path / "not there"), str(second)]
    expected = {"my-package": "2.0", "old": "0.1", "older": "3"}
    if has_an_egg:
        with zipfile.ZipFile(tmp_path / "zipped-5-py3.8.egg", "w") as egg:
            egg.writestr("EGG-INFO/PKG-INFO", "Name: zipped\nVersion: 5\n")
        paths.append(str(tmp_path / "zipped-5-py3.8.egg"))
        expected["zipped"] = "5"
    monkeypatch.setattr(sys, "path", paths)
    assert snapshot.find_packages() == expected == list_known_packages()


def test_programs_are_those_that_a_shell_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    (tmp_path / "a" / "folder").mkdir()
    (tmp_path / "a" / "text").write_text("")
    for name in ("a/program", "b/program", "b/other", "b/text"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    searched = f"{tmp_path}/a:{tmp_path}/b"
    for name in ("program", "other", "text", "folder", "none", "a/program", "./a/text", "a/none"):
        for path in (searched, "", None):
            assert find_executable(name, path) == shutil.which(name, path=path)


def test_it_tells_what_the_workload_loaded(ran: Ran) -> None:
    assert ran.inside["blas"]["blas"]["name"]
    assert any("blas" in os.path.basename(path) for path in ran.inside["libraries"])


def test_it_tells_the_variables_as_they_were_given(ran: Ran) -> None:
    variables = ran.inside["variables"]
    assert CHOSEN.items() <= variables.items()
    assert "OMP_NUM_THREADS" not in variables, "what the workload itself sets is a parameter"


def test_what_names_one_job_stays_out(ran: Ran) -> None:
    assert not OF_ONE_JOB.keys() & ran.inside["variables"].keys(), "no two would be the same"


def test_secrets_stay_out(ran: Ran) -> None:
    assert "s3cret" not in json.dumps(ran.inside)


@given(st.text(st.sampled_from("ABKEYSLURMTOKEN_"), min_size=1))
def test_only_names_of_the_list_are_kept(name: str) -> None:
    kept = snapshot.select_variables({name: "value", "SLURM_JOB_PARTITION": "gpu"})
    assert kept["SLURM_JOB_PARTITION"] == "gpu"
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
