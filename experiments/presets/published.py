"""The experiments of the seeds of Tare. Figures and settings are theirs; words and code are ours.

Where a publication does not say something (a batch size, the length of a burn-in), `now` says what
was taken instead.
"""

from __future__ import annotations

from typing import Any

from experiments.presets.base import FULL, LAPTOP, Piece, Preset, Size

FIVE = "Five repeats of each cell where three were published: fewer allow no firm verdict. "
HOURS = 3600


def _cnn(name: str, minutes: float, **parameters: Any) -> Piece:
    """A training of one network; on synthetic images unless `parameters` say otherwise."""
    return Piece(
        name=name, kind="cnn", parameters=parameters, time_limit_seconds=round(60 * minutes)
    )


TABLE_3 = Preset(
    key="training-time-1-2-4-gpus",
    title="Training time of ResNet50-FCN on 1, 2 and 4 GPUs",
    source="Table 3 of 000_6a74c6ce4cc65545",
    authors="Cavallaro et al.",
    question="What does a container add to the training time of ResNet50-FCN on 1, 2 and 4 GPUs?",
    then="20 epochs of 4166 tiles, batch 16, Adam, on up to four K80; bare metal and uDocker three "
    "times each: 3710 and 3730 s on one GPU, 1860 and 1880 s on four.",
    now=FIVE + "Tiles are made by the workload unless a folder with the prepared Vaihingen tiles "
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
                    parameters={"epochs": 20, "batch_size": 16},
                    time_limit_seconds=3 * HOURS,
                ),
            ),
            scales=("1x1", "1x2", "1x4"),
            data="the Vaihingen tiles, as HDF5",
        ),
        LAPTOP: Size(
            workloads=(
                Piece(
                    name="ResNet50-FCN, 2 short epochs",
                    kind="segmentation",
                    parameters={"epochs": 2, "batch_size": 4},
                    time_limit_seconds=300,
                ),
            ),
            scales=("1x1", "1x2", "1x4"),
            note="Two epochs of a few small tiles, batch 4.",
        ),
    },
)

FIGURE_1 = Preset(
    key="five-networks-normalised",
    title="Time per batch of five networks, as a share of bare metal",
    source="Figure 1 of 001_77177f20e2835f20",
    authors="",
    question="Does a container change the time per batch of AlexNet, GoogLeNet, Overfeat, VGG and "
    "a network for MNIST?",
    then="One GTX 980 Ti of a node; 1000 batches of synthetic images after a burn-in, 20,000 steps "
    "for MNIST; bare metal, uDocker (F3) and Singularity, TensorFlow 1.5 and 1.8. No penalty was "
    "seen.",
    now="Five repeats. Batch sizes and burn-in are ours: they were not published. MNIST has "
    "synthetic digits unless a folder is named. Two versions of a framework are two images, so "
    "two environments each.",
    needs=("tensorflow",),
    metric="step_time",
    ends_in="The ratios as bars from zero, normalised to the baseline",
    sizes={
        FULL: Size(
            workloads=(
                *(
                    _cnn(
                        f"{title}, batch {batch}, 1000 batches",
                        30,
                        network=network,
                        batch_size=batch,
                        steps=1010,
                        burn_in=10,
                    )
                    for title, network, batch in (
                        ("AlexNet", "alexnet", 128),
                        ("GoogLeNet", "googlenet", 128),
                        ("Overfeat", "overfeat", 128),
                        ("VGG-11", "vgg11", 64),
                    )
                ),
                _cnn(
                    "MNIST network, batch 50, 20,000 steps",
                    30,
                    network="mnist",
                    batch_size=50,
                    steps=20_010,
                    burn_in=10,
                ),
            ),
            scales=("1x1",),
        ),
        LAPTOP: Size(
            workloads=(
                *(
                    _cnn(
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
                _cnn(
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
    source="“Four containers on four GPUs” of 001_77177f20e2835f20",
    authors="",
    question="Do four trainings at once on one node, each in a container with a GPU of its own, "
    "slow or unsettle each other?",
    then="Four uDocker containers in one job, each on a GPU of its own: the same mean time per "
    "batch, and a clearly larger spread, most of all with MNIST.",
    now="Bare metal is packed in the same way, so that what the neighbours do and what the "
    "container does can be told apart.",
    needs=("tensorflow",),
    metric="step_time",
    ends_in="Packed against alone: mean and variance of each environment",
    sizes={
        FULL: Size(
            workloads=(
                _cnn(
                    "AlexNet, batch 128, 1000 batches",
                    30,
                    network="alexnet",
                    batch_size=128,
                    steps=1010,
                    burn_in=10,
                ),
                _cnn(
                    "MNIST network, batch 50, 20,000 steps",
                    30,
                    network="mnist",
                    batch_size=50,
                    steps=20_010,
                    burn_in=10,
                ),
            ),
            scales=("1x1", "1x4x4"),
        ),
        LAPTOP: Size(
            workloads=(
                _cnn(
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

MULTI_GPU = Preset(
    key="multi-gpu-short-runs",
    title="Images per second of ResNet50 and AlexNet on 1, 2 and 4 GPUs",
    source="“Overview of multi-GPU (short) runs” of 002_3e43610d8f07cd4a",
    authors="Grupp et al.",
    question="How many images per second do ResNet50 and AlexNet train on 1, 2 and 4 GPUs, in and "
    "out of containers?",
    then="Batch 64 (ResNet50) and 512 (AlexNet) on each GPU, SGD. On four K80 in udocker 205 "
    "images/s (x 3.7) and 1998 (x 3.3), on four GTX 980 Ti 426 (x 3.6) and 4006 (x 3.0).",
    now="Synthetic images on the device. Variables are mirrored on the GPUs; then, a parameter "
    "server on the CPU kept them. The spread is measured too.",
    needs=("tensorflow",),
    metric="images_per_second",
    ends_in="Weak scaling: images per second by GPUs with the speed-up, a column for each "
    "environment, as in the overview",
    sizes={
        FULL: Size(
            workloads=(
                _cnn(
                    "ResNet50, batch 64 per GPU",
                    30,
                    network="resnet50",
                    batch_size=64,
                    batch_per="GPU",
                    optimizer="sgd",
                    steps=110,
                    burn_in=10,
                ),
                _cnn(
                    "AlexNet, batch 512 per GPU",
                    30,
                    network="alexnet",
                    batch_size=512,
                    batch_per="GPU",
                    optimizer="sgd",
                    steps=110,
                    burn_in=10,
                ),
            ),
            scales=("1x1", "1x2", "1x4"),
        ),
        LAPTOP: Size(
            workloads=(
                _cnn(
                    "ResNet50, 32 pixels, batch 2 per GPU",
                    5,
                    network="resnet50",
                    image_size=32,
                    batch_size=2,
                    batch_per="GPU",
                    optimizer="sgd",
                    steps=10,
                    burn_in=2,
                ),
                _cnn(
                    "AlexNet, 64 pixels, batch 4 per GPU",
                    5,
                    network="alexnet",
                    image_size=64,
                    batch_size=4,
                    batch_per="GPU",
                    optimizer="sgd",
                    steps=10,
                    burn_in=2,
                ),
            ),
            scales=("1x1", "1x2", "1x4"),
            note="Eight steps of a few small images. Where GPUs are stand-ins, the CPU plays "
            "their part, and no speed-up is to be expected.",
        ),
    },
)

LONG_TRAINING = Preset(
    key="long-training",
    title="Long training of ResNet50: accuracy and training time",
    source="“Long training, ResNet50” of 002_3e43610d8f07cd4a",
    authors="Grupp et al.",
    question="Does ResNet50 learn as well and as fast in a container on 1, 2 and 4 GPUs?",
    then="ImageNet, 5 epochs on K80 (top-1 0.36, top-5 0.63, 33:45 h on one GPU, 8:34 h on four) "
    "and 10 epochs on GTX 980 Ti (0.53, 0.78, 30:23 h and 8:16 h), in udocker.",
    now="Five repeats where there was one run of each: whoever cannot pay for that chooses fewer, "
    "and the verdict is provisional. Top-1, top-5 and loss have panels of their own.",
    needs=("tensorflow",),
    metric="training_time",
    ends_in="Weak scaling by GPUs, and below it accuracy: what was learnt, with its own verdict",
    sizes={
        FULL: Size(
            workloads=(
                _cnn(
                    "ResNet50 on ImageNet, 5 epochs, batch 64 per GPU",
                    48 * 60,
                    network="resnet50",
                    data="imagenet",
                    batch_size=64,
                    batch_per="GPU",
                    optimizer="momentum",
                    epochs=5,
                ),
            ),
            scales=("1x1", "1x2", "1x4"),
            data="ImageNet, as TFRecord files or folders",
            needs_data=True,
        ),
        LAPTOP: Size(
            workloads=(
                _cnn(
                    "Small network, 120 steps, evaluated every 40",
                    4,
                    network="small",
                    batch_size=32,
                    batch_per="GPU",
                    steps=120,
                    burn_in=10,
                    evaluate_every=40,
                ),
            ),
            scales=("1x1", "1x2", "1x4"),
            note="The small network on ten patterns of its own, which it learns within seconds.",
        ),
    },
)


def _distributed(name: str, parallel: str, *, laptop: bool) -> Piece:
    """ResNet50 over several nodes, as in 002; `parallel` says by which means."""
    if laptop:
        return _cnn(
            f"ResNet50 by {name}, 32 pixels, batch 2 per GPU",
            5,
            network="resnet50",
            image_size=32,
            batch_size=2,
            batch_per="GPU",
            optimizer="sgd",
            parallel=parallel,
            steps=8,
            burn_in=2,
        )
    return _cnn(
        f"ResNet50 by {name}, batch 64 per GPU",
        30,
        network="resnet50",
        batch_size=64,
        batch_per="GPU",
        optimizer="sgd",
        parallel=parallel,
        steps=110,
        burn_in=10,
    )


_DISTRIBUTED: dict[str, Any] = {
    "source": "“Distributed training with Horovod” of 002_3e43610d8f07cd4a",
    "authors": "Grupp et al.",
    "then": "ResNet50, batch 64 on each GPU, udocker under mpirun with InfiniBand: 118 images/s on "
    "one GPU, 426 on four of one node, 492 on four of two nodes, 974 on eight, 1413 on twelve, "
    "2437 on twenty-four (batch 32).",
    "metric": "images_per_second",
    "ends_in": "Weak scaling: images per second by GPUs and launcher with the speed-up, as in the "
    "table",
}

HOROVOD = Preset(
    key="horovod-on-several-nodes",
    title="ResNet50 with Horovod on several nodes",
    question="How does training over several nodes with Horovod scale in containers?",
    now="Two nodes, so that small clusters pass; 6x4 and 12x1 are written into the scales where "
    "there are as many. The host's mpirun starts one container for each GPU.",
    needs=("tensorflow", "horovod"),
    sizes={
        FULL: Size(
            workloads=(_distributed("Horovod", "horovod", laptop=False),),
            scales=("1x1 mpirun", "1x4 mpirun", "2x1 mpirun", "2x2 mpirun", "2x4 mpirun"),
        ),
        LAPTOP: Size(
            workloads=(_distributed("Horovod", "horovod", laptop=True),),
            scales=("1x1 mpirun", "2x1 mpirun"),
            note="Six steps of a few small images.",
        ),
    },
    **_DISTRIBUTED,
)

SEVERAL_NODES = Preset(
    key="several-nodes-without-horovod",
    title="ResNet50 on several nodes with TensorFlow alone",
    question="How does training over several nodes scale in containers, where there is no Horovod?",
    now="MultiWorkerMirroredStrategy where images have no Horovod: srun starts one process on each "
    "node. 6x4 and 12x1 are written into the scales where there are as many nodes.",
    needs=("tensorflow",),
    sizes={
        FULL: Size(
            workloads=(_distributed("TensorFlow", "mirrored", laptop=False),),
            scales=("1x1", "1x4", "2x1 srun", "2x2 srun", "2x4 srun"),
        ),
        LAPTOP: Size(
            workloads=(_distributed("TensorFlow", "mirrored", laptop=True),),
            scales=("1x1", "2x1 srun"),
            note="Six steps of a few small images, on one and on two nodes.",
        ),
    },
    **_DISTRIBUTED,
)


def _blas(size: int, precision: str, *, steps: int, minutes: float) -> Piece:
    return Piece(
        name=f"NumPy, {size} x {size}, {precision}",
        kind="blas",
        parameters={
            "matrix_size": size,
            "decomposition_size": size // 2,
            "precision": precision,
            "steps": steps,
            "burn_in": max(1, steps // 10),
        },
        time_limit_seconds=round(60 * minutes),
    )


BLAS = Preset(
    key="numpy-on-tuned-blas",
    title="NumPy on the BLAS that an image brings",
    source="“numpy with MKL and cuBLAS” of 004_fdbe5d3565a754e8",
    authors="source{d}",
    question="What is the BLAS of each environment worth, by size and precision?",
    then="NumPy and SciPy were built against MKL inside the image, with nvBLAS before it, because "
    "speed there was critical. No figures were published.",
    now="Matrix products and decompositions by size and precision; which BLAS answered stands in "
    "the snapshot of each run. Two images with different BLAS are two environments.",
    needs=("numpy",),
    metric="matmul_time",
    ends_in="The forest plot: a row for each size and precision; every number in the table below",
    sizes={
        FULL: Size(
            workloads=tuple(
                _blas(size, precision, steps=steps, minutes=20)
                for size, steps in ((1024, 200), (4096, 40), (8192, 12))
                for precision in ("float32", "float64")
            ),
            scales=("1x1",),
        ),
        LAPTOP: Size(
            workloads=tuple(
                _blas(size, precision, steps=20, minutes=2)
                for size in (128, 512)
                for precision in ("float32", "float64")
            ),
            scales=("1x1",),
            note="Matrices of 128 and 512 rows, 20 steps.",
        ),
    },
)

ALL = (
    TABLE_3,
    FIGURE_1,
    PACKED,
    MULTI_GPU,
    LONG_TRAINING,
    SEVERAL_NODES,
    HOROVOD,
    BLAS,
)
