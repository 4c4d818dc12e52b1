"""Presets from project 002: several GPUs of a node, and a training to the end.

Figures and settings are the project's, texts and code are Tare's.
"""

from __future__ import annotations

from experiments.presets.base import FULL, LAPTOP, Piece, Preset, Size, make_cnn, make_timed
from experiments.presets.commands import FOLDER_OF_AUTHORS, SCRIPT_NAME, make_tf_cnn
from experiments.presets.papers import BENCHMARKING

MULTI_GPU = Preset(
    key="multi-gpu-short-runs",
    title="Images per second of ResNet50 and AlexNet on 1, 2 and 4 GPUs",
    source="“Overview of multi-GPU (short) runs”",
    paper=BENCHMARKING,
    question="How many images per second do ResNet50 and AlexNet train on 1, 2 and 4 GPUs, in and "
    "out of containers?",
    then="Batch 64 (ResNet50) and 512 (AlexNet) on each GPU, SGD. On four K80 in udocker 205 "
    "images/s (x 3.7) and 1998 (x 3.3), on four GTX 980 Ti 426 (x 3.6) and 4006 (x 3.0).",
    now="Synthetic images on the device, unless a folder with ImageNet is named, which the "
    "overview read. Variables are mirrored on the GPUs; then, a parameter server on the CPU kept "
    "them. The spread is measured too.",
    needs=("tensorflow",),
    metric="images_per_second",
    ends_in="Weak scaling: images per second by GPUs with the speed-up, a column for each "
    "environment, as in the overview",
    sizes={
        FULL: Size(
            workloads=(
                make_timed(
                    "ResNet50, batch 64 per GPU",
                    30,
                    network="resnet50",
                    batch_size=64,
                    batch_per="GPU",
                    optimizer="sgd",
                    steps=110,
                    burn_in=10,
                    deterministic=False,
                ),
                make_timed(
                    "AlexNet, batch 512 per GPU",
                    30,
                    network="alexnet",
                    batch_size=512,
                    batch_per="GPU",
                    optimizer="sgd",
                    steps=110,
                    burn_in=10,
                    deterministic=False,
                ),
            ),
            scales=("1x1", "1x2", "1x4"),
            data="ImageNet, as TFRecord files or folders",
            with_data={"data": "imagenet"},
        ),
        LAPTOP: Size(
            workloads=(
                make_timed(
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
                make_timed(
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
    source="“Long training, ResNet50”",
    paper=BENCHMARKING,
    question="Does ResNet50 learn as well and as fast in a container on 1, 2 and 4 GPUs?",
    then="ImageNet, 5 epochs on K80 (top-1 0.36, top-5 0.63, 33:45 h on one GPU, 8:34 h on four) "
    "and 10 epochs on GTX 980 Ti (0.53, 0.78, 30:23 h and 8:16 h), in udocker.",
    now="Five repeats where there was one run of each: choose fewer where that costs too much, "
    "and the verdict is provisional. Top-1 and top-5 after each epoch, and loss, have panels of "
    "their own. A run goes over up to six jobs of eight hours each, from checkpoints.",
    needs=("tensorflow",),
    metric="training_time",
    ends_in="Weak scaling by GPUs, and below it accuracy: what was learnt, with its own verdict",
    sizes={
        FULL: Size(
            workloads=(
                make_cnn(
                    "ResNet50 on ImageNet, 5 epochs, batch 64 per GPU",
                    8 * 60,
                    network="resnet50",
                    data="imagenet",
                    batch_size=64,
                    batch_per="GPU",
                    optimizer="momentum",
                    epochs=5,
                    evaluate_every=1,
                    segments=6,
                    checkpoint_every=1,
                    deterministic=False,
                ),
            ),
            scales=("1x1", "1x2", "1x4"),
            data="ImageNet, as TFRecord files or folders",
            needs_data=True,
        ),
        LAPTOP: Size(
            workloads=(
                make_cnn(
                    "Small network on made images, 8 epochs, in up to 4 jobs",
                    4,
                    network="small",
                    data="made",
                    batch_size=20,
                    batch_per="GPU",
                    epochs=8,
                    burn_in=10,
                    evaluate_every=1,
                    target_accuracy=0.9,
                    learning_rate=0.02,
                    schedule="cosine",
                    learning_rate_warm_up=1,
                    segments=4,
                    checkpoint_every=1,
                ),
            ),
            scales=("1x1", "1x2", "1x4"),
            note="The small network on 2,000 images of ten patterns under noise, of which it gets "
            "90 % of the held-out ones right. With a time limit shorter than the training a run "
            "goes over several jobs.",
        ),
    },
)


def _tf_cnn(model: str, batch: int, *, batches: int, minutes: float, cpu: bool = False) -> Piece:
    """Return the program of 002 itself, with its own options."""
    options = {
        "model": model,
        "batch_size": batch,
        "num_batches": batches,
        "num_warmup_batches": 10,
        "display_every": 10,
        "optimizer": "sgd",
        "variable_update": "parameter_server",
        "local_parameter_device": "cpu",
        "num_gpus": "{gpus}",
        **({"device": "cpu", "data_format": "NHWC"} if cpu else {}),
    }
    name = f"tf_cnn_benchmarks, {model}, batch {batch} per GPU{', on the CPU' if cpu else ''}"
    return make_tf_cnn(name, minutes, *(f"--{option}={value}" for option, value in options.items()))


TF_CNN = Preset(
    key="tf-cnn-benchmarks",
    title="tf_cnn_benchmarks itself on 1, 2 and 4 GPUs",
    source="“TensorFlow Benchmarks”",
    paper=BENCHMARKING,
    question="How many images per second does tf_cnn_benchmarks itself train on 1, 2 and 4 GPUs?",
    then="The same figures as in the multi-GPU runs: this is the program that they were made with, "
    "from an image for TensorFlow 1.10.",
    now="The program as it is. It lies in one folder in every environment, /benchmarks as in that "
    "image unless you name another, or Tare puts its code on the cluster: a git commit, or an "
    "archive that you send. It runs on TensorFlow 2.21 too: from 2.16 on it needs tf_keras, "
    "installed or unpacked beside it; the command sets TF_USE_LEGACY_KERAS=1. A draft "
    "names the environments that are known to lack the script or tf_keras.",
    needs=("tensorflow",),
    script=SCRIPT_NAME,
    usual_folder=FOLDER_OF_AUTHORS,
    metric="wall_images_per_second",
    ends_in="Weak scaling: images per second by GPUs with the speed-up, a column for each "
    "environment",
    sizes={
        FULL: Size(
            workloads=(
                _tf_cnn("resnet50", 64, batches=500, minutes=60),
                _tf_cnn("alexnet", 512, batches=500, minutes=60),
            ),
            scales=("1x1", "1x2", "1x4"),
        ),
        LAPTOP: Size(
            workloads=(_tf_cnn("trivial", 4, batches=20, minutes=5, cpu=True),),
            scales=("1x1",),
            note="Its trivial model on the CPU, 20 batches of 4; one scale, so a verdict without "
            "scaling.",
        ),
    },
)
