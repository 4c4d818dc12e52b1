"""Known programs on this machine, for seconds each; those that are not installed are skipped."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.execution import lifecycle
from experiments.models import Cluster, Environment, Experiment, SentFile, Workload
from experiments.presets.commands import COMMANDS, place_in_folder
from experiments.presets.programs import Ready
from runners.workloads import WORKLOADS
from tests import tf_cnn_stand_in
from tests.conftest import finish
from tests.factories import EnvironmentFactory, ExperimentFactory, WorkloadFactory

pytestmark = pytest.mark.django_db

SHORTER = {
    "--time=10": "--time=1",
    "--runtime=20": "--runtime=1",
    "--size=256m": "--size=8m",
    "10": "1",
    "--values=20": "--values=3",
}
PACKAGES = {"pyperf": ("pyperf",), "pytest-benchmark": ("pytest_benchmark",)}
RUN = (
    "sysbench-cpu",
    "sysbench-memory",
    "hpcc",
    "fio-random",
    "fio-sequential",
    "iperf3",
    *PACKAGES,
)


def skip_unless_installed(key: str) -> None:
    for program in COMMANDS[key].programs:
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed: apt-get install {key.partition('-')[0]}")
    for package in PACKAGES.get(key, ()):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed in this Python: pip install {key}")


def make_workload(ready: Ready) -> Workload:
    """Return the workload of a known program, shortened, with its files stored."""
    parameters: dict[str, Any] = dict(ready.piece.parameters)
    parameters["argv"] = [SHORTER.get(word, word) for word in parameters["argv"]]
    texts = {name: text.replace("2000     N", "200      N") for name, text in ready.files.items()}
    parameters["files"] = {
        name: SentFile.objects.keep(text.encode()).sha256 for name, text in texts.items()
    }
    made: Workload = WorkloadFactory(
        name=ready.piece.name, kind="command", parameters=WORKLOADS["command"].clean(parameters)
    )
    return made


def launched(here: Cluster, bare: Environment, workload: Workload) -> Experiment:
    made: Experiment = ExperimentFactory(
        cluster=here,
        partition=None,
        baseline=bare,
        environments=[bare, EnvironmentFactory(name="other", cluster=here, python=sys.executable)],
        workloads=[workload],
        scales=["1x0"],
        repeats=1,
    )
    lifecycle.launch(made, made.owner)
    return made


@pytest.mark.parametrize("key", RUN)
def test_a_known_program_runs_and_all_its_metrics_are_read(
    key: str, here: Cluster, bare: Environment
) -> None:
    skip_unless_installed(key)
    workload = make_workload(COMMANDS[key])
    made = launched(here, bare, workload)
    finish(made)
    runs = made.runs.all()
    assert {(run.state, run.message) for run in runs} == {("succeeded", "")}
    for run in runs:
        for row in workload.parameters["metrics"]:
            assert run.measurements.get(metric=row["name"]).value > 0


def test_hpl_with_too_large_a_residual_ends_with_0_and_is_not_sane(
    here: Cluster, bare: Environment
) -> None:
    skip_unless_installed("hpcc")
    ready = COMMANDS["hpcc"]
    settings = ready.files["hpccinf.txt"].replace("16.0     largest", "1e-9     largest")
    assert settings != ready.files["hpccinf.txt"]
    files = {**ready.files, "hpccinf.txt": settings}
    made = launched(here, bare, make_workload(replace(ready, files=files)))
    finish(made)
    for run in made.runs.all():
        assert (run.state, run.exit_code) == ("failed", 0)
        assert "matches the failure pattern" in run.message
        assert not run.measurements.exists()


def test_a_program_that_says_it_failed_and_ends_with_0_is_not_sane(
    here: Cluster, bare: Environment
) -> None:
    """The same with a program that is everywhere."""
    parameters = WORKLOADS["command"].clean(
        {
            "argv": ["sh", "-c", "echo checked; echo 2 errors"],
            "read": "nothing",
            "success_pattern": "^checked$",
            "failure_pattern": "^[1-9][0-9]* errors?$",
        }
    )
    made = launched(here, bare, WorkloadFactory(kind="command", parameters=parameters))
    finish(made)
    runs = list(made.runs.all())
    assert runs
    for run in runs:
        assert run.state == "failed"
        assert "line 2 of output.txt matches the failure pattern" in run.message
        assert run.message.endswith("2 errors")


@pytest.fixture
def program_folder(tmp_path: Path) -> Path:
    """A folder as on a cluster: the program, and tf_keras unpacked beside it."""
    folder = tmp_path / "tf_cnn"
    (folder / "tf_keras").mkdir(parents=True)
    (folder / "tf_keras" / "__init__.py").touch()
    shutil.copy(tf_cnn_stand_in.__file__, folder / "tf_cnn_benchmarks.py")
    return folder


def test_tf_cnn_benchmarks_in_a_folder_finds_keras_2_beside_it(
    here: Cluster, bare: Environment, program_folder: Path
) -> None:
    ready = place_in_folder(COMMANDS["tf-cnn-benchmarks-on-cpu"], str(program_folder))
    made = launched(here, bare, make_workload(ready))
    finish(made)
    assert {(run.state, run.message) for run in made.runs.all()} == {("succeeded", "")}
    run = made.runs.first()
    values = {row.metric: row.value for row in run.measurements.all()}
    assert 0 < values["wall_images_per_second"] <= 8 / 0.005
    assert values["loss"] == pytest.approx(7.8)
    steps = run.series.get(metric="step_images_per_second")
    assert len(steps.values) > 3


def test_without_keras_2_it_fails_with_what_it_prints(
    here: Cluster, bare: Environment, program_folder: Path
) -> None:
    shutil.rmtree(program_folder / "tf_keras")
    ready = place_in_folder(COMMANDS["tf-cnn-benchmarks-on-cpu"], str(program_folder))
    made = launched(here, bare, make_workload(ready))
    finish(made)
    runs = list(made.runs.all())
    assert runs
    for run in runs:
        assert run.state == "failed"
        assert "No module named 'tf_keras'" in run.message
