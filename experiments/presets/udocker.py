"""Presets from projects 000 and 001, with uDocker: one training on several GPUs, five networks.

Figures and settings are the projects', texts and code are Tare's. Where a publication leaves
something out (a batch size, the length of a warm-up), `now` names the value that is used instead.
"""

from __future__ import annotations

from experiments.presets.base import FULL, LAPTOP, Piece, Preset, Size, make_timed
from experiments.presets.papers import REMOTE_SENSING, UDOCKER_GPU

TABLE_3 = Preset(
    key="training-time-1-2-4-gpus",
    title="Training time of ResNet50-FCN on 1, 2 and 4 GPUs",
    source="Table 3",
    paper=REMOTE_SENSING,
    question="What does a container add to the training time of ResNet50-FCN on 1, 2 and 4 GPUs?",
    then="20 epochs of 4166 tiles, batch 16, Adam, on up to four K80; bare metal and uDocker three "
    "times each: 3710 and 3730 s on one GPU, 1860 and 1880 s on four.",
    now="Five repeats of each configuration where three were published: fewer allow no firm "
    "verdict. Tiles are made by the workload unless a folder with the prepared Vaihingen tiles "
    "is named. MirroredStrategy stands for the multi_gpu_model of that Keras.",
    needs=("tensorflow",),
    metric="training_time",
    ends_in="Strong scaling: the training time by GPUs with the speed-up, a column for each "
    "environment, as in Table 3",
    sizes={
        FULL: Size(
            workloads=(
                Piece(
                    name="ResNet50-FCN, 20 epochs, batch 16",
                    kind="segmentation",
                    parameters={
                        "epochs": 20,
                        "batch_size": 16,
                        "samples": 4166,
                        "tile_size": 256,
                        "width": 64,
                        "deterministic": False,
                    },
                    time_limit_seconds=10_800,
                ),
            ),
            scales=("1x1", "1x2", "1x4"),
            data="the Vaihingen tiles, as two HDF5 files",
            with_data={"data": "hdf5"},
        ),
        LAPTOP: Size(
            workloads=(
                Piece(
                    name="ResNet50-FCN, thin, 2 epochs of 32 tiles",
                    kind="segmentation",
                    parameters={
                        "epochs": 2,
                        "batch_size": 4,
                        "samples": 32,
                        "tile_size": 32,
                        "width": 8,
                        "burn_in": 2,
                    },
                    time_limit_seconds=300,
                ),
            ),
            scales=("1x1", "1x2", "1x4"),
            note="Two epochs of 32 tiles of 32 pixels, batch 4; as deep, and an eighth as wide.",
        ),
    },
)

FIGURE_1 = Preset(
    key="five-networks-normalised",
    title="Time per batch of five networks, as a share of bare metal",
    source="Figure 1",
    paper=UDOCKER_GPU,
    question="Does a container change the time per batch of AlexNet, GoogLeNet, Overfeat, VGG and "
    "a network for MNIST?",
    then="One GTX 980 Ti of a node; 1000 batches of synthetic images after a warm-up, 20,000 steps "
    "for MNIST; bare metal, uDocker (F3) and Singularity, TensorFlow 1.5 and 1.8. No penalty was "
    "seen.",
    now="Five repeats. Batch sizes and warm-up are ours: they were not published. MNIST has "
    "synthetic digits unless a folder is named. Two versions of a framework are two images, so "
    "two environments each.",
    needs=("tensorflow",),
    metric="step_time",
    ends_in="“Ratios as bars”: the ratios as bars from zero, normalised to the baseline",
    sizes={
        FULL: Size(
            workloads=(
                *(
                    make_timed(
                        f"{title}, batch {batch}, 1000 batches",
                        30,
                        reads_data=False,
                        network=network,
                        batch_size=batch,
                        steps=1010,
                        burn_in=10,
                        deterministic=False,
                    )
                    for title, network, batch in (
                        ("AlexNet", "alexnet", 128),
                        ("GoogLeNet", "googlenet", 128),
                        ("Overfeat", "overfeat", 128),
                        ("VGG-11", "vgg11", 64),
                    )
                ),
                make_timed(
                    "MNIST network, batch 50, 20,000 steps",
                    30,
                    network="mnist",
                    batch_size=50,
                    steps=20_010,
                    burn_in=10,
                    deterministic=False,
                ),
            ),
            scales=("1x1",),
            data="MNIST, as its four idx files",
            with_data={"data": "mnist"},
        ),
        LAPTOP: Size(
            workloads=(
                *(
                    make_timed(
                        f"{title}, {pixels} pixels, 12 batches",
                        4,
                        network=network,
                        image_size=pixels,
                        batch_size=2,
                        steps=14,
                        burn_in=2,
                    )
                    for title, network, pixels in (
                        ("AlexNet", "alexnet", 64),
                        ("GoogLeNet", "googlenet", 64),
                        ("Overfeat", "overfeat", 96),
                        ("VGG-11", "vgg11", 32),
                    )
                ),
                make_timed(
                    "MNIST network, batch 50, 60 steps",
                    4,
                    network="mnist",
                    batch_size=50,
                    steps=64,
                    burn_in=4,
                ),
            ),
            scales=("1x1",),
            note="12 batches of two small images; 60 steps for MNIST.",
        ),
    },
)

PACKED = Preset(
    key="four-containers-on-four-gpus",
    title="Four containers on four GPUs of one node",
    source="“Four containers on four GPUs”",
    paper=UDOCKER_GPU,
    question="Do four trainings at once on one node, each in a container with a GPU of its own, "
    "slow or unsettle each other?",
    then="Four uDocker containers in one job, each on a GPU of its own: the same mean time per "
    "batch, and a clearly larger spread, most of all with MNIST.",
    now="Bare metal is packed in the same way, so that what the neighbours do and what the "
    "container does can be told apart.",
    needs=("tensorflow",),
    metric="step_time",
    ends_in="“Steadiness”: packed against alone, the mean and the spread of each environment",
    sizes={
        FULL: Size(
            workloads=(
                make_timed(
                    "AlexNet, batch 128, 1000 batches",
                    30,
                    network="alexnet",
                    batch_size=128,
                    steps=1010,
                    burn_in=10,
                    deterministic=False,
                ),
                make_timed(
                    "MNIST network, batch 50, 20,000 steps",
                    30,
                    network="mnist",
                    batch_size=50,
                    steps=20_010,
                    burn_in=10,
                    deterministic=False,
                ),
            ),
            scales=("1x1", "1x4x4"),
        ),
        LAPTOP: Size(
            workloads=(
                make_timed(
                    "MNIST network, batch 50, 60 steps",
                    4,
                    network="mnist",
                    batch_size=50,
                    steps=64,
                    burn_in=4,
                ),
            ),
            scales=("1x1", "1x4x4"),
            note="The network for MNIST alone, 60 steps. Four at once share two cores here, which "
            "GPUs of their own would not.",
        ),
    },
)
