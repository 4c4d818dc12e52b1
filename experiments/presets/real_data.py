"""Presets from project 002 whose figures are about ImageNet: against synthetic data, by runtime.

Settings are the project's, texts and code are Tare's. Its figures were printed without numbers.
"""

from __future__ import annotations

from experiments.presets.base import FULL, LAPTOP, Piece, Preset, Size, make_timed
from experiments.presets.papers import BENCHMARKING

IMAGENET = "ImageNet, as TFRecord files or folders"
MNIST = "MNIST, as its four idx files"


def _train(network: str, title: str, batch: int, data: str) -> Piece:
    """Return a network of 002 at full size; `data` is "synthetic" or "imagenet"."""
    return make_timed(
        f"{title}, {'ImageNet' if data == 'imagenet' else data}, batch {batch} per GPU",
        60,
        reads_data=data != "synthetic",
        network=network,
        data=data,
        batch_size=batch,
        batch_per="GPU",
        optimizer="sgd",
        steps=110,
        burn_in=10,
        deterministic=False,
    )


def _train_small(data: str) -> Piece:
    """Return the small network on MNIST, or on synthetic images of the same size."""
    return make_timed(
        f"Small network, {'MNIST' if data == 'mnist' else data}, batch 32 per GPU",
        4,
        reads_data=data != "synthetic",
        network="small",
        data=data,
        image_size=28,
        batch_size=32,
        batch_per="GPU",
        optimizer="sgd",
        steps=60,
        burn_in=10,
    )


SYNTHETIC_AGAINST_REAL = Preset(
    key="synthetic-against-real-data",
    title="Synthetic images against ImageNet on 1, 2 and 4 GPUs",
    source="“Synthetic vs. Real (ImageNet)”",
    paper=BENCHMARKING,
    question="How much slower do ResNet50 and AlexNet train on ImageNet than on synthetic images, "
    "and is it the same in containers?",
    then="Two figures, of ResNet50 and of AlexNet, by GPUs on both machines, in udocker. Their "
    "numbers were not printed.",
    now="Both kinds of data in one experiment, in random order over its jobs, on bare metal too: "
    "so it can be told whether a container costs more where files are read.",
    needs=("tensorflow",),
    metric="images_per_second",
    ends_in="“Between workloads”: real data against synthetic in each environment, and how the "
    "container's cost changes; “Ratios as bars” and scaling besides",
    sizes={
        FULL: Size(
            workloads=tuple(
                _train(network, title, batch, data)
                for network, title, batch in (
                    ("resnet50", "ResNet50", 64),
                    ("alexnet", "AlexNet", 512),
                )
                for data in ("synthetic", "imagenet")
            ),
            scales=("1x1", "1x2", "1x4"),
            data=IMAGENET,
            needs_data=True,
        ),
        LAPTOP: Size(
            workloads=(_train_small("synthetic"), _train_small("mnist")),
            scales=("1x1", "1x2"),
            data=MNIST,
            needs_data=True,
            note="A small network on MNIST and on synthetic images of its size, 50 steps.",
        ),
    },
)

RUNTIMES_ON_IMAGENET = Preset(
    key="runtimes-on-imagenet",
    title="udocker against Singularity on ImageNet",
    source="“udocker vs. singularity”",
    paper=BENCHMARKING,
    question="Do ResNet50 and AlexNet train on ImageNet as fast in udocker as in Singularity?",
    then="Two figures, of ResNet50 and of AlexNet, by GPUs, with no difference to be seen. Their "
    "numbers were not printed.",
    now="Choose udocker as the baseline for the figure's own comparison, or bare metal, with which "
    "both are compared then. Apptainer is what became of Singularity.",
    needs=("tensorflow",),
    metric="images_per_second",
    ends_in="“Ratios as bars” and weak scaling by GPUs, a column for each environment",
    sizes={
        FULL: Size(
            workloads=(
                _train("resnet50", "ResNet50", 64, "imagenet"),
                _train("alexnet", "AlexNet", 512, "imagenet"),
            ),
            scales=("1x1", "1x2", "1x4"),
            data=IMAGENET,
            needs_data=True,
        ),
        LAPTOP: Size(
            workloads=(_train_small("mnist"),),
            scales=("1x1", "1x2", "1x4"),
            data=MNIST,
            needs_data=True,
            note="A small network on MNIST, 50 steps.",
        ),
    },
)
