"""`cnn`, as far as it goes without TensorFlow; the lab trains for real."""

import math
from pathlib import Path

import pytest

from runners.payload.cnn import train
from runners.payload.recorder import Recorder, ResultError
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
    assert document["facts"] == {"burn_in": 1}


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_training_stops_at_the_step_that_went_wrong(wrong: float) -> None:
    losses = iter([3.0, 2.0, wrong])
    with pytest.raises(ResultError, match=r"^loss is not finite at step 2$"):
        train(losses.__next__, 100, 10, Recorder())


def test_an_old_keras_is_named(tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text("")
    (tmp_path / "keras.py").write_text("__version__ = '2.13.1'")
    variables = {"PYTHONPATH": str(tmp_path)}
    ran = run_payload(tmp_path / "run", "cnn", CNN.clean({}), variables=variables)
    assert (ran.returncode, ran.result) == (2, None)
    assert ran.stderr == "Keras 3 is needed (TensorFlow 2.16 or later), not 2.13.1\n"
