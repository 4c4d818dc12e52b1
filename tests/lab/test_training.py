"""Networks on the lab's bare-metal TensorFlow: two stand-in GPUs, forward only, epochs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from lab.client import Lab
from runners.jobs import EnvironmentSpec, RunSpec
from runners.records import RunRecord
from runners.schedulers import Slurm
from runners.workloads import WORKLOADS, Result
from tests.lab.machine import Machine, connected

pytestmark = pytest.mark.lab

CNN = WORKLOADS["cnn"]
QUICK: dict[str, dict[str, Any]] = {
    "two GPUs": {"network": "small", "image_size": 8, "steps": 4, "burn_in": 1, "batch_size": 8},
    "forward": {"network": "mnist", "mode": "forward", "steps": 4, "burn_in": 1, "batch_size": 4},
    "epochs": {"network": "resnet56", "image_size": 8, "epochs": 2, "steps": 3, "burn_in": 1},
    "too small": {"network": "vgg16", "image_size": 16},
}


@pytest.fixture(scope="module")
def runs(lab: Lab) -> Iterator[dict[str, RunRecord]]:
    """All of them in one job on a node with two GPUs."""
    with connected(lab, Slurm()) as runner:
        machine = Machine(lab, runner)
        python = lab.images["tensorflow"].bare_metal.python
        bare = EnvironmentSpec("bare", "bare_metal", python=python)
        job = machine.job(gpus_per_node=2, time_limit_seconds=280, memory_mb=4000)
        specs = tuple(
            RunSpec(f"{job.uid}-r{number}", number, "cnn", CNN.clean(given), bare)
            for number, given in enumerate(QUICK.values())
        )
        job = replace(job, runs=specs)
        record = machine.finished(job, machine.runner.submit(job), 280)
        yield dict(zip(QUICK, record.runs.values(), strict=True))


def result(runs: dict[str, RunRecord], name: str) -> Result:
    run = runs[name]
    assert (run.exit_code, run.failure) == (0, ""), run.output_tail
    return CNN.read(run.files, CNN.clean(QUICK[name]))


def test_two_gpus_share_the_batch_and_are_said_to_be_stand_ins(runs: dict[str, RunRecord]) -> None:
    found = result(runs, "two GPUs")
    assert found.facts["strategy"] == "MirroredStrategy"
    assert (found.facts["replicas"], found.facts["stand_in_devices"]) == (2, True)
    assert (found.facts["batch_of_job"], found.facts["batch_of_replica"]) == (8, 4)
    assert 0 <= found.measurements["accuracy"][0] <= found.measurements["top_5_accuracy"][0] <= 1


def test_forward_alone_changes_nothing(runs: dict[str, RunRecord]) -> None:
    found = result(runs, "forward")
    assert len(set(found.series["loss"][1])) == 1, "the same batch through the same weights"
    assert "accuracy" not in found.measurements


def test_epochs_are_timed(runs: dict[str, RunRecord]) -> None:
    found = result(runs, "epochs")
    times = found.series["epoch_time"][1]
    assert len(times) == 2
    assert sum(times) == pytest.approx(sum(found.series["step_time"][1]))
    assert found.measurements["training_time"][0] >= sum(times) * 0.99


def test_an_image_that_is_too_small_ends_the_run_in_words(runs: dict[str, RunRecord]) -> None:
    run = runs["too small"]
    assert run.exit_code == 2
    assert "the smallest that works is 32" in run.output_tail
