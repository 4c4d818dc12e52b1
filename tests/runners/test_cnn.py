"""`cnn`, as far as it goes without TensorFlow; the lab trains for real."""

import math
from pathlib import Path

import pytest

from runners.payload.recorder import Recorder, ResultError
from runners.payload.training.loop import Accuracy, Schedule, train
from runners.workloads import WORKLOADS
from tests.runners.payload_runs import run_payload

CNN = WORKLOADS["cnn"]


def test_every_loss_is_recorded_and_the_last_one_returned() -> None:
    recorder = Recorder()
    losses = [3.0, 2.0, 1.5, 1.25]
    assert train(iter(losses).__next__, 4, 1, recorder) == 1.25
    document = recorder.document()
    assert document["series"]["loss"] == {"unit": "1", "values": losses}
    assert len(document["series"]["step_time"]["values"]) == 4
    assert document["facts"]["burn_in"] == 1


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_training_stops_at_the_step_that_went_wrong(wrong: float) -> None:
    losses = iter([3.0, 2.0, wrong])
    with pytest.raises(ResultError, match=r"^loss is not finite at step 2$"):
        train(losses.__next__, 100, 10, Recorder())


def trained(steps: int, accuracies: list[float], *, every: int, target: float = 0) -> Recorder:
    """Train for some steps; the evaluations find the accuracies given, one after the other."""
    recorder = Recorder()
    planned = Schedule(steps, 1, every)
    measured = ({"accuracy": accuracy} for accuracy in accuracies)
    accuracy = Accuracy(measured.__next__, planned, target, recorder)
    train(lambda: 1.0, steps, 1, recorder, accuracy.evaluate_if_due)
    return recorder


@pytest.mark.parametrize(
    ("every", "at"), [(0, [5]), (1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (5, [5]), (100, [5])]
)
def test_the_accuracy_is_measured_now_and_then_and_after_the_last_step(
    every: int, at: list[int]
) -> None:
    accuracies = [0.25 + 0.125 * number for number in range(len(at))]
    document = trained(5, accuracies, every=every).document()
    assert document["series"]["accuracy"] == {"unit": "1", "values": accuracies}
    assert document["series"]["accuracy_step"] == {"unit": "steps", "values": at}
    assert document["metrics"]["accuracy"] == {"value": accuracies[-1], "unit": "1"}
    assert "time_to_accuracy" not in document["metrics"]


def test_the_time_to_accuracy_is_that_of_the_first_evaluation_that_reached_it() -> None:
    accuracies = [0.1, 0.5, 0.4, 0.8]
    document = trained(4, accuracies, every=1, target=0.5).document()
    times = document["series"]["accuracy_time"]["values"]
    assert times == sorted(times)
    assert document["metrics"]["time_to_accuracy"] == {"value": times[1], "unit": "s"}
    step_times = document["series"]["step_time"]["values"]
    assert times[1] == math.fsum(step_times[:2])


def test_a_target_that_is_never_reached_has_no_time() -> None:
    document = trained(2, [0.1, 0.2], every=1, target=0.5).document()
    assert "time_to_accuracy" not in document["metrics"]


def test_an_old_keras_is_named(tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text("")
    (tmp_path / "keras.py").write_text("__version__ = '2.13.1'")
    variables = {"PYTHONPATH": str(tmp_path)}
    ran = run_payload(tmp_path / "run", "cnn", CNN.clean({}), variables=variables)
    assert (ran.returncode, ran.result) == (2, None)
    assert ran.stderr == "Keras 3 is needed (TensorFlow 2.16 or later), not 2.13.1\n"
