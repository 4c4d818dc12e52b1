"""Known programs for the workload `command`: their arguments, and how to read their results.

Only data. The command of Horovod is that of Grupp et al. (2019); the program's code lies where
their image has it, and is not ours to bring.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from experiments.presets.base import Piece

SCRIPT = "/benchmarks/tf_cnn_benchmarks.py"
NUMBER = r"([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf))"
"""Also matches nan and inf: the run then fails, with a message about the number."""
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


@dataclass(frozen=True)
class Ready:
    """A known program, and a note for whoever starts it."""

    piece: Piece
    note: str


def make_tf_cnn(name: str, minutes: float, *options: str, processes: str = "one") -> Piece:
    """Return tf_cnn_benchmarks with these options; its metric is throughput by the wall clock."""
    return Piece(
        name=name,
        kind="command",
        parameters={
            "argv": ["{python}", SCRIPT, *options],
            "read": "patterns",
            "metrics": [dict(row) for row in NUMBERS],
            "batch": "per GPU",
            "processes": processes,
        },
        time_limit_seconds=round(60 * minutes),
    )


USUAL = ("--batch_size=64", "--optimizer=sgd", "--model=resnet50", "--data_name=imagenet")
WHERE = (
    f"Its code lies in the image, as {SCRIPT}. Where it lies elsewhere, in the image or on the "
    "cluster, write that path. Bare metal needs it at the same place."
)
COMMANDS: Mapping[str, Ready] = {
    "tf-cnn-benchmarks": Ready(
        make_tf_cnn(
            "tf_cnn_benchmarks, ResNet50, batch 64 per GPU",
            30,
            *USUAL,
            "--num_gpus={gpus}",
            "--num_batches=100",
            "--display_every=10",
        ),
        f"Synthetic images; --data_dir reads ImageNet. {WHERE}",
    ),
    "tf-cnn-benchmarks-horovod": Ready(
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
        f"A process for each GPU, at scales such as 2x4 mpirun. {WHERE}",
    ),
    "tf-cnn-benchmarks-on-cpu": Ready(
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
        f"Small enough for a laptop without a GPU. {WHERE}",
    ),
}
