"""`cnn`: networks that classify images, trained or only used."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from runners.payload.frameworks import StartError
from runners.payload.training.networks import NETWORKS, choose_network
from runners.workloads.base import TIMES, Batch, Processes, Workload, make_step_parameters
from runners.workloads.page_cache import PREPARED
from runners.workloads.parameters import Parameter
from runners.workloads.results import Metric

NETWORK, BATCH, LENGTH, MACHINE = "Network and data", "Step", "Length", "Framework and machine"
REAL = ("mnist", "cifar10", "imagenet")
FRAMEWORKS = {"horovod": "tensorflow", "ddp": "pytorch"}
"""What starts a process for each GPU, and the framework that it is for."""

# The parameters of all workloads with steps; here each gets a heading.
STEPPING = {parameter.name: parameter for parameter in make_step_parameters(steps=400, warm_up=40)}


class Cnn(Workload):
    kind = "cnn"
    label = "Training a convolutional network"
    description = (
        "Networks from AlexNet to Inception v3 in Keras 3, trained or used on TensorFlow, JAX or "
        "PyTorch, on images that are made on the device or read from a data set. One step is "
        "forward, backward and update, and ends when its loss has been fetched, so that the "
        "device is waited for. With the same seed the losses of two environments can be compared. "
        "The accuracy is measured on images that were not trained on, at no step's expense."
    )
    parameters = (
        Parameter(
            name="network",
            group=NETWORK,
            type="choice",
            default="small",
            choices=tuple(NETWORKS),
            help="small: three convolutions, for a laptop. mnist: the network of TensorFlow's "
            "tutorial. resnet56 is for CIFAR-10, the others for ImageNet.",
        ),
        Parameter(
            name="data",
            group=NETWORK,
            type="choice",
            default="synthetic",
            choices=("synthetic", *REAL),
            help="synthetic: one batch of patterns under noise, made on the device and trained on "
            "again and again; nothing is read. The others are read from data_directory.",
        ),
        Parameter(
            name="data_directory",
            group=NETWORK,
            type="text",
            default="",
            when=("data", REAL),
            help="Where the files of the data set lie, as the program sees them: an environment's "
            "mounts decide what a container sees.",
        ),
        Parameter(
            name="image_size",
            group=NETWORK,
            type="integer",
            default=0,
            minimum=0,
            maximum=1024,
            unit="pixels",
            help="Height and width of an image. 0: the network's own, from 28 to 299.",
        ),
        Parameter(
            name="batch_size",
            group=BATCH,
            type="integer",
            default=32,
            minimum=1,
            maximum=65536,
            unit="images",
            help="Images in one step.",
        ),
        Parameter(
            name="batch_per",
            group=BATCH,
            type="choice",
            default="job",
            choices=("job", "GPU"),
            help="Whose batch it is. job: all GPUs share it, more GPUs have less to do each "
            "(strong scaling). GPU: each has so many, more GPUs do more (weak scaling).",
        ),
        Parameter(
            name="mode",
            group=BATCH,
            type="choice",
            default="training",
            choices=("training", "forward"),
            help="training: forward, backward and update. forward: the network is only used.",
        ),
        Parameter(
            name="optimizer",
            group=BATCH,
            type="choice",
            default="momentum",
            choices=("sgd", "momentum", "rmsprop", "adam"),
            when=("mode", ("training",)),
            help="momentum: stochastic gradient descent with momentum 0.9; sgd: without.",
        ),
        Parameter(
            name="learning_rate",
            group=BATCH,
            type="number",
            default=0.01,
            minimum=0,
            maximum=1e9,
            when=("mode", ("training",)),
            help="Of the optimizer, the same from the first step to the last.",
        ),
        Parameter(
            name="precision",
            group=BATCH,
            type="choice",
            default="float32",
            choices=("float32", "mixed_float16", "mixed_bfloat16"),
            help="Precision of the layers; the weights stay in float32.",
        ),
        replace(
            STEPPING["steps"],
            group=LENGTH,
            help="Steps in all, the warm-up among them; with epochs of synthetic data, those of "
            "one epoch. Epochs of a data set are as long as it is.",
        ),
        replace(STEPPING["burn_in"], group=LENGTH),
        Parameter(
            name="epochs",
            group=LENGTH,
            type="integer",
            default=0,
            minimum=0,
            maximum=100_000,
            help="How often to go through the data set. 0: the number of steps decides.",
        ),
        Parameter(
            name="evaluate",
            group=LENGTH,
            type="flag",
            default=True,
            when=("mode", ("training",)),
            help="Measure the accuracy on images that were not trained on, after the last step. "
            "With a large network that takes longer than a short run: choose no where only the "
            "speed is asked for, and nothing is evaluated at all.",
        ),
        Parameter(
            name="evaluate_every",
            group=LENGTH,
            type="integer",
            default=0,
            minimum=0,
            maximum=1_000_000,
            when=("mode", ("training",)),
            help="Steps from one evaluation to the next, or epochs where the length is given in "
            "epochs; 0: only one, at the end. No step's time holds any of it.",
        ),
        Parameter(
            name="target_accuracy",
            group=LENGTH,
            type="number",
            default=0,
            minimum=0,
            maximum=1,
            when=("mode", ("training",)),
            help="Share of images to get right: the first evaluation that finds it gives the time "
            "to accuracy. 0: none.",
        ),
        Parameter(
            name="framework",
            group=MACHINE,
            type="choice",
            default="tensorflow",
            choices=("tensorflow", "jax", "pytorch"),
            help="What Keras computes with. The environment has to bring it, and Keras 3.",
        ),
        Parameter(
            name="parallel",
            group=MACHINE,
            type="choice",
            default="mirrored",
            choices=("mirrored", "horovod", "ddp"),
            when=("framework", ("tensorflow", "pytorch")),
            help="How several GPUs work together. mirrored: one process on all GPUs of a node, "
            "TensorFlow alone. horovod: one process a GPU, TensorFlow in an image with Horovod. "
            "ddp: one process a GPU, PyTorch's DistributedDataParallel.",
        ),
        Parameter(
            name="deterministic",
            group=MACHINE,
            type="flag",
            default=True,
            help="Same seed, bitwise the same losses: this proves that environments compute "
            "the same. It costs GPUs speed (no XLA on TensorFlow, fewer kernels to choose from); "
            "choose no for throughput as users see it.",
        ),
        *(replace(STEPPING[name], group=MACHINE) for name in ("threads", "seed", "seeds")),
        PREPARED,
    )
    metrics = (
        *TIMES,
        Metric("images_per_second", "images/s", "higher", "Throughput"),
        Metric("training_time", "s", "lower", "All steps and what lies between, no evaluation"),
        Metric("epoch_time", "s", "lower", "Time per epoch"),
        Metric("loss", "1", "lower", "Loss of the last step"),
        Metric("accuracy", "1", "higher", "Accuracy on held-out images after the last step"),
        Metric("top_5_accuracy", "1", "higher", "Right class among the first five"),
        Metric("time_to_accuracy", "s", "lower", "Time in steps to the target accuracy"),
    )
    rates: ClassVar[Mapping[str, str]] = {"images_per_second": "step_time"}
    batch = "total"
    most_gpus = 16
    most_nodes = 256

    @classmethod
    def choose_batch(cls, parameters: Mapping[str, Any]) -> Batch:
        return "per GPU" if parameters.get("batch_per") == "GPU" else "total"

    @classmethod
    def choose_processes(cls, parameters: Mapping[str, Any]) -> Processes:
        return "gpu" if parameters.get("parallel") in FRAMEWORKS else "node"

    @classmethod
    def list_metrics(cls, parameters: Mapping[str, Any]) -> tuple[Metric, ...]:
        unused: set[str] = set()
        if parameters.get("mode") == "forward" or not parameters.get("evaluate", True):
            unused |= {"accuracy", "top_5_accuracy", "time_to_accuracy"}
        if not parameters.get("epochs"):
            unused |= {"epoch_time"}
        return tuple(metric for metric in cls.metrics if metric.name not in unused)

    @classmethod
    def list_refusals(
        cls, parameters: Mapping[str, Any], *, nodes: int, gpus: int, processes: int
    ) -> list[str]:
        """Return why a job with these parameters cannot run at this scale; each with its cure."""
        settings = {parameter.name: parameter.default for parameter in cls.parameters} | dict(
            parameters
        )
        framework, replicas = settings["framework"], max(nodes * gpus, processes, 1)
        reasons = []
        try:
            choose_network(settings)
        except StartError as error:
            reasons.append(str(error))
        if settings["data"] in REAL and not settings["data_directory"]:
            reasons.append(f"data={settings['data']} needs a data_directory")
        if framework != "tensorflow" and settings["data"] == "imagenet":
            reasons.append(
                f"data=imagenet is read by TensorFlow: choose framework=tensorflow, not {framework}"
            )
        return [f"{reason}." for reason in reasons] + why_not_on_replicas(settings, replicas)


def why_not_on_replicas(settings: Mapping[str, Any], replicas: int) -> list[str]:
    """Return why so many replicas of the network cannot share a training; each with its cure."""
    framework, reasons = settings["framework"], []
    parallel = settings["parallel"]
    if framework != FRAMEWORKS.get(parallel, framework):
        reasons.append(
            f"parallel={parallel} needs framework={FRAMEWORKS[parallel]}, not {framework}"
        )
    elif framework == "pytorch" and parallel == "mirrored" and replicas > 1:
        reasons.append(
            "framework=pytorch trains on one GPU unless parallel=ddp: choose that, or scale 1x1"
        )
    if settings["batch_per"] == "job" and settings["batch_size"] % replicas:
        reasons.append(
            f"a batch of {settings['batch_size']} for the whole job cannot be divided among "
            f"{replicas} GPUs: choose a multiple of {replicas}, or a batch per GPU"
        )
    return [f"{reason}." for reason in reasons]
