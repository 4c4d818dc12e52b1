"""`segmentation` as the cluster runs it, with JAX on the CPU: trained, measured, and refused."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.payload.training.tiles import Labelled, Tiles
from runners.workloads import WORKLOADS
from tests.runners.data_files import write_tiles
from tests.runners.payload_runs import IN_A_HURRY, left, run_payload

SEGMENTATION = WORKLOADS["segmentation"]
WIDTH = 4
TINY = {"width": WIDTH, "framework": "jax", "batch_size": 4, "epochs": 2, "burn_in": 1}


def weights_of_fcn(width: int, classes: int = 6) -> int:
    """Worked out by hand from table 1 of He et al. 2015: convolutions without biases, four
    numbers a channel for each normalisation, and a convolution of 1 x 1 with bias at the end of
    each of the last three stages."""

    def convolved(given: int, made: int, size: int) -> int:
        return size * size * given * made + 4 * made

    total, channels = convolved(3, width, 7), width
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner, outer = width << stage, 4 * width << stage
        total += convolved(channels, outer, 1)  # the projection of the first block
        for _ in range(blocks):
            total += convolved(channels, inner, 1) + convolved(inner, inner, 3)
            total += convolved(inner, outer, 1)
            channels = outer
        if stage:
            total += (outer + 1) * classes
    return total


def test_epochs_are_timed_and_the_model_is_measured_and_used(tmp_path: Path) -> None:
    labels = np.arange(6 * 32 * 32).reshape(6, 32, 32) // 200 % 6 + 1
    write_tiles(tmp_path / "tiles", train=labels, test=labels[:3])
    asked = {"data": "hdf5", "data_directory": f"{tmp_path}/tiles", "predict_size": 70}
    parameters = SEGMENTATION.clean({**TINY, **asked})
    ran = run_payload(tmp_path / "run", "segmentation", parameters, variables=IN_A_HURRY)
    assert (ran.returncode, ran.stderr) == (0, "")
    result = SEGMENTATION.read(left(ran.result), parameters)
    epochs = result.series["epoch_time"][1]
    steps = result.series["step_time"][1]
    assert (len(epochs), len(steps)) == (2, 2 * (12 // 4))
    assert sum(epochs) == pytest.approx(sum(steps))
    measured = {name: value for name, (value, _) in result.measurements.items()}
    assert measured["epoch_time"] == pytest.approx(sum(epochs) / 2)
    assert sum(epochs) <= measured["training_time"]
    assert measured["prediction_time"] == pytest.approx(result.phases["prediction"], rel=0.2)
    assert all(0 <= measured[name] <= 1 for name in ("accuracy", "mean_iou", "prediction_accuracy"))
    facts = result.facts
    assert (facts["samples_of_epoch"], facts["held_out_tiles"], facts["tile_size"]) == (12, 3, 32)
    # ResNet50 has 23,508,032 weights without its last layer, and 53,120 of its normalisations
    # are not trained.
    assert weights_of_fcn(64, classes=0) == 23_508_032 + 53_120
    assert facts["parameters_of_model"] == weights_of_fcn(WIDTH)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"data": "hdf5", "data_directory": "/none"}, "data set unusable: /none, the folder of"),
        ({"tile_size": 48}, "data set unusable: tile_size is 48, and the network needs a multiple"),
        ({"predict_size": 63}, "predict_size is 63, and an image is at least one tile of 64"),
    ],
)
def test_what_cannot_be_is_named_before_any_framework_is_loaded(
    tmp_path: Path, asked: dict[str, object], message: str
) -> None:
    """TensorFlow, the default, is not even installed here."""
    ran = run_payload(tmp_path, "segmentation", SEGMENTATION.clean({"samples": 4, **asked}))
    assert ran.returncode in (2, 4)
    assert ran.stderr.startswith(message)


def refused(gpus: int = 1, **given: object) -> list[str]:
    return SEGMENTATION.list_refusals(SEGMENTATION.clean(given), nodes=1, gpus=gpus, processes=1)


def test_refusals_say_before_the_launch_what_the_payload_would_say() -> None:
    assert refused() == refused(4) == []
    assert refused(samples=4166, tile_size=256, width=64, epochs=20, predict_size=1024) == []
    assert refused(3) == [
        "a batch of 16 for the whole job cannot be divided among 3 GPUs: choose a multiple of 3, "
        "or a batch per GPU."
    ]
    assert refused(3, batch_per="GPU") == []
    assert refused(tile_size=100)[0].startswith("A tile_size of 100 cannot be divided")
    assert refused(predict_size=63)[0].startswith("A predict_size of 63 is less than one tile")
    assert refused(samples=15, batch_size=16)[0].startswith("A batch of 16 tiles for the whole")
    assert refused(burn_in=96)[0].startswith("A warm-up of 96 steps leaves none of the 96")
    assert refused(data="hdf5") == ["data=hdf5 needs a data_directory."]


def test_what_is_reported_depends_on_what_was_asked() -> None:
    def names(**parameters: object) -> set[str]:
        return {metric.name for metric in SEGMENTATION.list_metrics(parameters)}

    assert names(predict_size=128) - names() == {"prediction_time", "prediction_accuracy"}
    assert SEGMENTATION.choose_batch({}) == "total"
    assert SEGMENTATION.choose_batch({"batch_per": "GPU"}) == "per GPU"


@settings(deadline=None)
@given(
    tiles=st.integers(2, 12),
    batch=st.integers(1, 2),
    replicas=st.integers(1, 2),
    first=st.integers(0, 40),
)
def test_the_order_of_tiles_goes_on_where_it_stopped(
    tiles: int, batch: int, replicas: int, first: int
) -> None:
    """As a run over several jobs needs it."""
    images = np.arange(tiles * 12, dtype="uint8").reshape(tiles, 2, 2, 3)
    labelled = Labelled(images, images[..., 0])
    data = Tiles(labelled, labelled, "made")
    backend = SimpleNamespace(
        replica_batch=batch, replicas=replicas, local_replicas=replicas, rank=0
    )
    whole, rest = data.make_readings(backend, 7), data.make_readings(backend, 7, first)
    for _ in range(first * replicas):
        next(whole)
    for _ in range(3 * tiles):
        for one, other in zip(next(whole), next(rest), strict=True):
            assert one.tolist() == other.tolist()


def test_several_jobs_for_several_processes_are_refused_before_the_launch() -> None:
    parameters = SEGMENTATION.clean({"segments": 3, "parallel": "ddp", "framework": "pytorch"})
    reasons = SEGMENTATION.list_refusals(parameters, nodes=1, gpus=2, processes=2)
    assert "a run over several jobs has one process" in " ".join(reasons)
    parameters = SEGMENTATION.clean({"segments": 3})
    assert SEGMENTATION.list_refusals(parameters, nodes=1, gpus=1, processes=1) == []
