"""Presets from project 002: the table of Horovod on several nodes, and two other libraries in it.

Figures and settings are the project's, texts and code are Tare's.
"""

from __future__ import annotations

from typing import Any

from experiments.presets.base import FULL, LAPTOP, Piece, Preset, Size, make_timed
from experiments.presets.papers import BENCHMARKING


def _train(name: str, *, laptop: bool, **library: Any) -> Piece:
    """Return ResNet50 over several nodes, as in 002; `library` are the parameters that name it."""
    if laptop:
        return make_timed(
            f"ResNet50 by {name}, 32 pixels, batch 2 per GPU",
            5,
            network="resnet50",
            image_size=32,
            batch_size=2,
            batch_per="GPU",
            optimizer="sgd",
            steps=8,
            burn_in=2,
            **library,
        )
    return make_timed(
        f"ResNet50 by {name}, batch 64 per GPU",
        30,
        network="resnet50",
        batch_size=64,
        batch_per="GPU",
        optimizer="sgd",
        steps=110,
        burn_in=10,
        deterministic=False,
        **library,
    )


def _make_sizes(name: str, launcher: str, note: str, **library: str) -> dict[str, Size]:
    """Return both sizes: the rows of the table that two nodes of four GPUs can run."""
    scales = ("1x1", "1x2", "1x4", "2x1", "2x2", "2x4")
    return {
        FULL: Size(
            workloads=(_train(name, laptop=False, **library),),
            scales=tuple(f"{scale} {launcher}" for scale in scales),
        ),
        LAPTOP: Size(
            workloads=(_train(name, laptop=True, **library),),
            scales=tuple(f"{scale} {launcher}" for scale in ("1x1", "1x2", "2x1")),
            note=f"Six steps of a few small images, {note}. Where GPUs are stand-ins, no speed-up "
            "is to be expected.",
        ),
    }


_TABLE: dict[str, Any] = {
    "source": "“Distributed training with Horovod”",
    "paper": BENCHMARKING,
    "then": "ResNet50, batch 64 on each GPU, udocker under mpirun with InfiniBand: 118 images/s on "
    "one GPU, 225 on two and 426 on four of one node (TensorFlow alone), 252 on two of two nodes, "
    "492 on four of two nodes, 974 on eight, 1413 on twelve, 2437 on twenty-four (batch 32).",
    "metric": "images_per_second",
    "ends_in": "Weak scaling: images per second by GPUs and nodes with the speed-up, as in the "
    "table",
}

HOROVOD = Preset(
    key="horovod-on-several-nodes",
    title="ResNet50 with Horovod on several nodes",
    question="How does training over several nodes with Horovod scale in containers?",
    now="Two nodes, so that small clusters pass; 6x4 and 12x1 are written into the scales where "
    "there are as many. The host's mpirun starts one container for each GPU, on one node too.",
    needs=("tensorflow", "horovod"),
    sizes=_make_sizes("Horovod", "mpirun", "a process for each GPU", parallel="horovod"),
    **_TABLE,
)

SEVERAL_NODES = Preset(
    key="several-nodes-without-horovod",
    title="ResNet50 on several nodes with TensorFlow alone",
    question="How does training over several nodes scale in containers, where there is no Horovod?",
    now="MultiWorkerMirroredStrategy where images have no Horovod: srun starts one process on each "
    "node. 6x4 and 12x1 are written into the scales where there are as many nodes.",
    needs=("tensorflow",),
    sizes=_make_sizes("TensorFlow", "srun", "a process on each node", parallel="mirrored"),
    **_TABLE,
)

DDP = Preset(
    key="ddp-on-several-nodes",
    title="ResNet50 with PyTorch DDP on several nodes",
    question="How does training over several nodes with PyTorch's DDP scale in containers?",
    now="DistributedDataParallel instead of Horovod, by NCCL on GPUs and by Gloo without: srun "
    "starts one process for each GPU. 6x4 and 12x1 are written into the scales where there are as "
    "many nodes.",
    needs=("torch", "keras"),
    sizes=_make_sizes(
        "PyTorch DDP", "srun", "a process for each GPU", framework="pytorch", parallel="ddp"
    ),
    **_TABLE,
)
