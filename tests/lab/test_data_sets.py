"""ImageNet through tf.data, and a segmentation on two GPUs: TensorFlow on the real cluster."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab.client import Lab
from runners.jobs import EnvironmentSpec, JobSpec
from runners.schedulers import Slurm
from runners.workloads import WORKLOADS
from tests.lab.machine import Machine, connected
from tests.runners.data_files import jpeg, write_folders, write_shards

pytestmark = pytest.mark.lab

LABELS = [1 + number % 4 for number in range(24)]
IMAGES = [
    (jpeg(40 + 9 * number, 90 - number, (60 * label, 128, 128)), label)
    for number, label in enumerate(LABELS)
]
SHORT = {"network": "small", "data": "imagenet", "image_size": 32, "batch_size": 8}
TINY = {"samples": 16, "tile_size": 32, "width": 4, "batch_size": 4, "predict_size": 80}


@pytest.fixture(scope="module")
def cluster(lab: Lab) -> Iterator[Machine]:
    with connected(lab, Slurm()) as runner:
        yield Machine(lab, runner)


def sent(cluster: Machine, here: Path, name: str) -> str:
    """A folder of this machine as one of the cluster's."""
    there = f"{cluster.lab.work_directory}/{name}"
    files = {
        path.relative_to(here).as_posix(): path.read_bytes()
        for path in here.rglob("*")
        if path.is_file()
    }
    cluster.send(there, files)
    return there


def job(cluster: Machine, *works: tuple[str, dict[str, object]]) -> JobSpec:
    """Runs on bare metal with TensorFlow, on the two GPUs of a node."""
    software = cluster.lab.images["tensorflow"]
    environment = EnvironmentSpec("bare", "bare_metal", python=software.bare_metal.python)
    made = cluster.job(
        *[environment] * len(works), gpus_per_node=2, time_limit_seconds=600, memory_mb=1600
    )
    runs = [
        replace(run, workload=kind, parameters=WORKLOADS[kind].clean(given))
        for run, (kind, given) in zip(made.runs, works, strict=True)
    ]
    return replace(made, runs=tuple(runs))


def test_imagenet_and_tiles_train_on_two_gpus(cluster: Machine, tmp_path: Path) -> None:
    for split, images in (("train", IMAGES), ("validation", IMAGES[:10])):
        write_shards(tmp_path / "shards", images, split, 2)
        write_folders(tmp_path / "folders", images, split)
    write_shards(tmp_path / "broken", [(IMAGES[0][0], 0)] * 8, "train", 1)
    write_shards(tmp_path / "broken", IMAGES, "validation", 1)
    where = {name: sent(cluster, tmp_path / name, name) for name in ("shards", "folders", "broken")}
    steps, epochs = {"steps": 6, "burn_in": 1}, {"epochs": 2, "burn_in": 1, "evaluate_every": 1}
    work = job(
        cluster,
        ("cnn", {**SHORT, **steps, "threads": 2, "data_directory": where["shards"]}),
        ("cnn", {**SHORT, **epochs, "data_directory": where["folders"]}),
        ("cnn", {**SHORT, **steps, "data_directory": where["broken"]}),
        ("segmentation", {**TINY, "epochs": 2, "burn_in": 1}),
    )
    job_id = cluster.runner.submit(work)
    record = cluster.finished(work, job_id, seconds=600)
    assert record.exit_code == 0, (cluster.failure(record, job_id), record.output_tail)
    runs = [record.runs[run.uid] for run in work.runs]
    assert [run.exit_code for run in runs] == [0, 0, 4, 0], [run.output_tail for run in runs]
    shards, folders, _, tiles = (
        WORKLOADS[sent.workload].read(run.files, sent.parameters) if not run.exit_code else None
        for run, sent in zip(runs, work.runs, strict=True)
    )
    assert "train-00000-of-00001: the label of its first image is 0" in runs[2].failure
    assert runs[2].failure.startswith("data set unusable: ")
    for result in (shards, folders, tiles):
        assert result is not None
        facts = result.facts
        assert (facts["replicas"], facts["stand_in_devices"]) == (2, True)
        assert facts["strategy"] == "MirroredStrategy"
    assert (shards.facts["classes"], folders.facts["classes"]) == (1000, 4)
    assert folders.series["accuracy_step"][1] == [3, 6]
    assert len(tiles.series["epoch_time"][1]) == 2
    assert {"accuracy", "mean_iou", "prediction_accuracy"} <= set(tiles.measurements)
