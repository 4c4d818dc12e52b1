"""Known programs for the workload `command`: their arguments, and how to read their results.

Only data. The command of Horovod is that of Grupp et al. (2019); the code of tf_cnn_benchmarks lies
in an image or in a folder of the cluster, and is not ours to bring.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from experiments.presets.base import Piece
from experiments.presets.benchmarks import BENCHMARKS
from experiments.presets.programs import GROUPS, NUMBER, Ready, compute_sha256

FOLDER = "/benchmarks"
"""Where programs lie that have a folder, as in the image of Grupp et al."""
SCRIPT_NAME = "tf_cnn_benchmarks.py"
SCRIPT = f"{FOLDER}/{SCRIPT_NAME}"
FOLDER_OF_AUTHORS = "scripts/tf_cnn_benchmarks"
"""Where the script lies in its repository, github.com/tensorflow/benchmarks."""
NUMBERS = (
    {
        "name": "wall_images_per_second",
        "unit": "images/s",
        "better": "higher",
        "find": rf"^total images/sec: {NUMBER}",
        "take": "last",
    },
    {
        "name": "step_images_per_second",
        "unit": "images/s",
        "better": "higher",
        "find": rf"^(?P<step>\d+)\s+images/sec: {NUMBER} \+/-",
        "take": "running_rate",
    },
    {
        "name": "loss",
        "unit": "1",
        "better": "lower",
        "find": rf"^\d+\s+images/sec: .*\(jitter = \S+\)\s+{NUMBER}",
        "take": "last",
    },
)


def make_tf_cnn(name: str, minutes: float, *options: str, processes: str = "one") -> Piece:
    """Return tf_cnn_benchmarks with these options; its metric is throughput by the wall clock.

    From TensorFlow 2.16 on it needs Keras 2, which is the package tf_keras: installed, or unpacked
    beside the script, whose folder Python searches first. Earlier ones ignore the variable.
    """
    return Piece(
        name=name,
        kind="command",
        parameters={
            "argv": ["env", "TF_USE_LEGACY_KERAS=1", "{python}", SCRIPT, *options],
            "read": "patterns",
            "metrics": [dict(row) for row in NUMBERS],
            "batch": "per GPU",
            "processes": processes,
        },
        time_limit_seconds=round(60 * minutes),
    )


USUAL = ("--batch_size=64", "--optimizer=sgd", "--model=resnet50", "--data_name=imagenet")
NEEDS = (
    "TensorFlow, from 2.16 on with tf_keras, installed or unpacked beside the script; the script "
    "in one folder in every environment, or as code that Tare puts on the cluster"
)


def _make_ready(piece: Piece, summary: str) -> Ready:
    return Ready(
        piece=piece,
        measures="machine learning",
        summary=summary,
        needs=NEEDS,
        has_folder=True,
    )


COMMANDS: Mapping[str, Ready] = {
    **BENCHMARKS,
    "tf-cnn-benchmarks": _make_ready(
        make_tf_cnn(
            "tf_cnn_benchmarks, ResNet50, batch 64 per GPU",
            30,
            *USUAL,
            "--num_gpus={gpus}",
            "--num_batches=100",
            "--display_every=10",
        ),
        "Trains ResNet50 on synthetic images; --data_dir reads ImageNet.",
    ),
    "tf-cnn-benchmarks-horovod": _make_ready(
        make_tf_cnn(
            "tf_cnn_benchmarks, Horovod, ResNet50, batch 64 per GPU",
            30,
            *USUAL,
            "--variable_update=horovod",
            "--num_gpus=1",
            "--num_batches=100",
            "--display_every=10",
            processes="gpu",
        ),
        "The same by Horovod, a process for each GPU, at scales such as 2x4 mpirun.",
    ),
    "tf-cnn-benchmarks-on-cpu": _make_ready(
        make_tf_cnn(
            "tf_cnn_benchmarks, trivial network on the CPU",
            5,
            "--device=cpu",
            "--data_format=NHWC",
            "--model=trivial",
            "--batch_size=8",
            "--num_batches=20",
            "--num_warmup_batches=2",
            "--display_every=2",
        ),
        "Small enough for a laptop without a GPU.",
    ),
}
SENT: Mapping[str, bytes] = {
    compute_sha256(text): text.encode()
    for ready in COMMANDS.values()
    for text in ready.files.values()
}
"""Files that known programs send, by their sha256."""


def group_commands() -> Iterator[tuple[str, list[tuple[str, Ready]]]]:
    """Yield what is measured, with the key and data of each known program that measures it."""
    for group in GROUPS:
        yield group, [(key, ready) for key, ready in COMMANDS.items() if ready.measures == group]


def place_in_folder(ready: Ready, folder: str) -> Ready:
    """Return the known program with its code in another folder, a path without a last slash."""
    parameters = place_script(ready.piece.parameters, folder)
    return replace(ready, piece=replace(ready.piece, parameters=parameters))


def place_script(parameters: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Return the parameters of a command whose script lies in `folder` and not in FOLDER."""
    argv = [word.replace(f"{FOLDER}/", f"{folder}/", 1) for word in parameters["argv"]]
    return {**parameters, "argv": argv}
