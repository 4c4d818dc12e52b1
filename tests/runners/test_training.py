"""The loop of a training, what is refused early, and JAX training for real on stand-in GPUs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest

from runners.payload.frameworks import Failure, StartError
from runners.payload.place import RunProcess
from runners.payload.recorder import Recorder, ResultError
from runners.payload.training.backends import Backend, explain_out_of_memory, group_readings
from runners.payload.training.loop import Epochs, Schedule, count_correct, plan_training, train
from runners.workloads import WORKLOADS
from tests.runners.payload_runs import left, run_payload

CNN = WORKLOADS["cnn"]
OLD = {"batch_size": 32, "image_size": 32, "learning_rate": 0.01, "precision": "float32"}


@pytest.mark.parametrize(
    ("given", "images", "planned"),
    [
        ({"steps": 10, "burn_in": 2}, 0, Schedule(10, 2)),
        ({"steps": 10, "burn_in": 2, "evaluate_every": 3}, 0, Schedule(10, 2, 3)),
        ({"steps": 10, "burn_in": 2, "epochs": 3}, 0, Schedule(30, 2, 0, 10)),
        ({"steps": 10, "burn_in": 2, "epochs": 3}, 107, Schedule(39, 2, 0, 13)),
        (
            {"steps": 10, "burn_in": 2, "epochs": 3, "evaluate_every": 2},
            80,
            Schedule(30, 2, 20, 10),
        ),
    ],
)
def test_steps_or_epochs(given: dict[str, Any], images: int, planned: Schedule) -> None:
    assert plan_training(given, images, 8) == planned


def test_epochs_that_have_no_step_after_the_burn_in_are_refused() -> None:
    with pytest.raises(ResultError, match=r"leaves none of the 4 steps of 2 epochs; choose a sh"):
        plan_training({"steps": 10, "burn_in": 4, "epochs": 2}, 16, 8)
    with pytest.raises(ResultError, match=r"a batch of 8 is more than the 7 images of an epoch"):
        plan_training({"steps": 10, "burn_in": 4, "epochs": 2}, 7, 8)


def test_the_time_of_an_epoch_is_that_of_its_steps() -> None:
    recorder = Recorder()
    epochs = Epochs(Schedule(6, 1, 0, 3), recorder)
    train(lambda: 1.0, 6, 1, recorder, epochs.record_epoch)
    document = recorder.document()
    steps = document["series"]["step_time"]["values"]
    times = document["series"]["epoch_time"]["values"]
    assert times == pytest.approx([sum(steps[:3]), sum(steps[3:])])
    assert document["metrics"]["epoch_time"]["value"] == pytest.approx(sum(steps) / 2)


def test_labels_are_counted_among_the_first_and_the_first_five() -> None:
    outputs = numpy.array([[0, 1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1, 0], [1, 0, 0, 0, 0, 0, 0]])
    assert count_correct(outputs, numpy.array([6, 4, 6])) == {"accuracy": 1, "top_5_accuracy": 2}


def test_readings_are_taken_a_step_at_a_time() -> None:
    readings = [(number, -number) for number in range(5)]
    assert list(group_readings(readings, 2)) == [readings[:2], readings[2:4]]


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 123 bytes."),
        type("ResourceExhaustedError", (Exception,), {})("OOM when allocating tensor"),
        type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory. Tried to allocate"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_too_little_memory_is_named_with_the_cure(error: Exception) -> None:
    message = r"^out of memory: a batch of 9 images does not fit; choose a smaller batch"
    with pytest.raises(Failure, match=message), explain_out_of_memory("a batch of 9 images"):
        raise error


def test_other_errors_keep_their_names() -> None:
    with pytest.raises(ValueError, match="shapes"), explain_out_of_memory("a batch"):
        raise ValueError("shapes do not match")


def shared(batch: int, replicas: int, per: str = "job") -> tuple[int, int]:
    given = {"batch_size": batch, "batch_per": per, "threads": 1}
    backend = Backend.__new__(Backend)
    backend.parameters, backend.replicas = given, replicas
    backend.divide_batch()
    return backend.replica_batch, backend.job_batch


def test_a_batch_is_the_jobs_or_each_gpus() -> None:
    assert shared(32, 4) == (8, 32)
    assert shared(32, 4, "GPU") == (32, 128)
    with pytest.raises(StartError, match="cannot be divided among 3 GPUs; choose a multiple of 3"):
        shared(32, 3)


@pytest.mark.parametrize(
    ("given", "scale", "message"),
    [
        ({}, (1, 1, 1), ""),
        (OLD, (1, 1, 1), ""),
        ({}, (1, 3, 1), "a batch of 32 for the whole job cannot be divided among 3 GPUs"),
        ({"batch_per": "GPU"}, (1, 3, 1), ""),
        ({"framework": "pytorch"}, (1, 2, 1), "trains on one GPU unless parallel=ddp"),
        ({"framework": "pytorch", "parallel": "ddp"}, (2, 2, 4), ""),
        ({"parallel": "ddp"}, (1, 1, 1), "parallel=ddp needs framework=pytorch, not tensorflow"),
        ({"framework": "jax", "parallel": "horovod"}, (1, 1, 1), "needs framework=tensorflow"),
        ({"network": "vgg16", "image_size": 16}, (1, 1, 1), "the smallest that works is 32"),
        ({"data": "mnist"}, (1, 1, 1), "data=mnist needs a data_directory"),
        (
            {"data": "imagenet", "data_directory": "/x", "framework": "jax"},
            (1, 1, 1),
            "read by TensorFlow",
        ),
    ],
)
def test_what_cannot_run_at_a_scale_is_refused_before_it_is_sent(
    given: dict[str, Any], scale: tuple[int, int, int], message: str
) -> None:
    nodes, gpus, processes = scale
    refusals = CNN.list_refusals(CNN.clean(given), nodes=nodes, gpus=gpus, processes=processes)
    assert len(refusals) == bool(message)
    assert message in "".join(refusals)


def test_pytorch_on_two_gpus_is_refused_by_the_payload_too() -> None:
    from runners.payload.training.backends import open_backend

    given = {"framework": "pytorch", "batch_size": 4, "threads": 1, "seed": 1}
    for process in (RunProcess(".", gpus=2), RunProcess(".", rank=1, size=2)):
        with pytest.raises(StartError, match="on one GPU unless parallel=ddp: choose that, or one"):
            open_backend(given, process)


@pytest.mark.parametrize(
    ("given", "processes"),
    [
        ({}, "node"),
        ({"parallel": "horovod"}, "gpu"),
        ({"framework": "pytorch", "parallel": "ddp"}, "gpu"),
    ],
)
def test_horovod_and_ddp_have_a_process_for_each_gpu(given: dict[str, Any], processes: str) -> None:
    for kind in ("cnn", "segmentation"):
        workload = WORKLOADS[kind]
        assert workload.choose_processes(workload.clean(given)) == processes


def test_jax_trains_in_epochs_on_two_stand_in_gpus_and_says_so(tmp_path: Path) -> None:
    given = {"framework": "jax", "batch_size": 8, "steps": 3, "burn_in": 1, "epochs": 2}
    given |= {"image_size": 8, "evaluate_every": 1, "optimizer": "adam"}
    cleaned = CNN.clean(given)
    variables = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}
    ran = run_payload(tmp_path, "cnn", cleaned, gpus=2, variables=variables)
    assert ran.returncode == 0, ran.stderr
    result = CNN.read(left(ran.result), cleaned)
    facts = json.loads(ran.result or b"")["facts"]
    assert (facts["replicas"], facts["stand_in_devices"]) == (2, True)
    assert (facts["batch_of_job"], facts["batch_of_replica"]) == (8, 4)
    assert len(result.series["loss"][1]) == 6
    assert result.series["accuracy_step"][1] == [3, 6]
    assert len(result.series["epoch_time"][1]) == 2
    assert result.series["loss"][1][-1] < result.series["loss"][1][0]
    assert {"top_5_accuracy", "training_time", "epoch_time"} <= set(result.measurements)
    steps = result.series["step_time"][1]
    assert result.measurements["training_time"][0] == pytest.approx(sum(steps), rel=0.05)
    for phase in ("import", "build", "first step", "steady state", "evaluation"):
        assert result.phases[phase] > 0


def test_a_training_of_which_only_the_speed_is_asked_evaluates_nothing(tmp_path: Path) -> None:
    given = {"framework": "jax", "batch_size": 4, "steps": 3, "burn_in": 1, "image_size": 8}
    cleaned = CNN.clean(given | {"evaluate": False, "target_accuracy": 0.5})
    assert "accuracy" not in {metric.name for metric in CNN.list_metrics(cleaned)}
    variables = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}
    ran = run_payload(tmp_path, "cnn", cleaned, variables=variables)
    assert ran.returncode == 0, ran.stderr
    result = CNN.read(left(ran.result), cleaned)
    assert "evaluation" not in result.phases
    assert set(result.series) == {"step_time", "loss"}
