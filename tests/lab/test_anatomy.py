"""What the parts of a container's cost are, measured for real: no number is held to another's
time, only to what has to be true on any machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from lab.client import Lab
from runners.jobs import RunSpec
from runners.records import RunRecord
from runners.schedulers import Slurm
from runners.workloads import WORKLOADS, Result
from tests.lab.machine import Machine, connected

pytestmark = pytest.mark.lab

QUICK = {
    "blas": {"steps": 4, "burn_in": 1, "matrix_size": 64, "decomposition_size": 16},
    "files": {
        "steps": 3,
        "burn_in": 1,
        "small_files": 40,
        "large_file_mb": 2,
        "random_reads": 20,
        "software_files": 60,
        "cache": "dropped",
    },
    "startup": {"steps": 3, "burn_in": 1, "forks": 5, "module": "numpy"},
    "missing": {"steps": 1, "burn_in": 0, "forks": 0, "module": "tensorflow"},
}
ENVIRONMENTS = ("bare", "sif", "udocker P1")
Cells = dict[tuple[str, str], RunRecord]


@pytest.fixture(scope="module")
def cells(lab: Lab) -> Iterator[Cells]:
    """Every workload in every environment, in one job."""
    with connected(lab, Slurm()) as runner:
        machine = Machine(lab, runner)
        places = {one.label: one for one in machine.environments()}
        asked = [(kind, label) for kind in QUICK for label in ENVIRONMENTS]
        job = machine.job()
        runs = [
            RunSpec(
                f"{job.uid}-r{position}",
                position,
                "startup" if kind == "missing" else kind,
                WORKLOADS["startup" if kind == "missing" else kind].clean(QUICK[kind]),
                places[label],
            )
            for position, (kind, label) in enumerate(asked)
        ]
        job = replace(job, runs=tuple(runs))
        record = machine.finished(job, machine.runner.submit(job), 180)
        assert (record.exit_code, record.bad_checksums) == (0, [])
        yield dict(zip(asked, record.runs.values(), strict=True))


def result(cells: Cells, kind: str, environment: str) -> Result:
    run = cells[kind, environment]
    assert (run.exit_code, run.failure) == (0, ""), run.output_tail
    return WORKLOADS[kind].read(run.files, WORKLOADS[kind].clean(QUICK[kind]))


@pytest.mark.parametrize("kind", ["blas", "files", "startup"])
def test_every_run_knows_what_its_container_cost(cells: Cells, kind: str) -> None:
    for environment in ENVIRONMENTS:
        found = result(cells, kind, environment)
        seconds, unit = found.measurements["container_start"]
        assert (found.phases["container start"], unit) == (seconds, "s")
        assert "start" not in found.phases
        run = cells[kind, environment]
        assert sum(found.phases.values()) < (run.ended or 0) - (run.began or 0)


def test_the_same_blas_answers_everywhere(cells: Cells) -> None:
    answers = [cells["blas", name].snapshot["blas_loaded"] for name in ENVIRONMENTS]
    assert {(one["name"], one["threads"]) for (one,) in answers} == {("OpenBLAS", 1)}
    assert len({(one["version"], one["kernels"]) for (one,) in answers}) == 1
    residuals = {result(cells, "blas", name).measurements["residual"] for name in ENVIRONMENTS}
    assert len(residuals) == 1


def test_files_are_measured_where_the_environment_keeps_them(cells: Cells) -> None:
    kinds = {name: cells["files", name].snapshot["file_systems"] for name in ENVIRONMENTS}
    assert all(found["python"] for found in kinds.values())
    assert kinds["bare"]["python"] == kinds["udocker P1"]["python"], "PRoot mounts nothing"
    assert len({found["run"] for found in kinds.values()}) == 1, "the run's directory is bound"
    for name in ENVIRONMENTS:
        rates = result(cells, "files", name).measurements
        assert {"create_rate", "large_read_rate", "software_read_rate"} <= set(rates)
        left = cells["files", name].files
        assert not [file for file in left if "tare-" in file or file.endswith(".dat")]


def test_a_start_up_has_parts(cells: Cells) -> None:
    for name in ENVIRONMENTS:
        numbers = result(cells, "startup", name).measurements
        # The second holds the first: a Python that imports has to start, too.
        assert numbers["interpreter_start"][0] < numbers["step_time"][0]
        assert numbers["import_time"][0] < numbers["step_time"][0]
        assert numbers["modules_loaded"][0] > 50


def test_a_framework_that_is_missing_is_named_with_the_cure(cells: Cells) -> None:
    for name in ENVIRONMENTS:
        run = cells["missing", name]
        assert run.exit_code == 2
        assert "TensorFlow is not installed in this environment" in run.output_tail
        assert "Choose an environment that brings it" in run.output_tail


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_what_a_run_had_loaded_is_known_in_every_environment(
    cells: Cells, environment: str
) -> None:
    """Under PRoot the kernel names files by their paths outside: they are found inside."""
    run = cells["blas", environment]
    files = run.snapshot["loaded"]["files"]
    assert not {path: facts for path, facts in files.items() if facts.get("problem")}
    (libc,) = [facts for facts in files.values() if facts.get("soname", "").startswith("libc.so")]
    assert libc["build_id"]
    assert libc.get("sha256") or libc["ends_sha256"]
    if environment == "sif":
        assert "mount" not in libc, "it is the image's own"
    assert run.own_facts["argv"][-1].endswith("/spec.json")
