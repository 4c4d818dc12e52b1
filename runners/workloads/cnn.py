"""`cnn`: networks that classify images, trained or only used."""

from collections.abc import Mapping
from typing import Any, ClassVar

from runners.payload.frameworks import StartError
from runners.payload.training.networks import choose_network
from runners.workloads.base import TIMES, Batch, Processes, Workload
from runners.workloads.cnn_parameters import PARAMETERS, REAL
from runners.workloads.page_cache import PREPARED
from runners.workloads.results import Metric

FRAMEWORKS = {"horovod": "tensorflow", "ddp": "pytorch"}
"""What starts a process for each GPU, and the framework that it is for."""


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
    parameters = (*PARAMETERS, PREPARED)
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
        reasons += why_no_schedule(settings)
        if settings["segments"] > 1 and settings["mode"] != "training":
            reasons.append("mode=forward leaves nothing to go on from: choose segments=1")
        else:
            reasons += why_not_over_several_jobs(settings, processes)
        return [f"{reason}." for reason in reasons] + why_not_on_replicas(settings, replicas)


def why_not_over_several_jobs(settings: Mapping[str, Any], processes: int) -> list[str]:
    """Return why a run with so many processes cannot go over several jobs; each with its cure."""
    if settings["segments"] == 1 or processes <= 1:
        return []
    return ["a run over several jobs has one process: choose segments=1, or a scale with one"]


def why_no_schedule(settings: Mapping[str, Any]) -> list[str]:
    """Return why the learning rate cannot be scheduled so; each with its cure."""
    if settings["mode"] != "training":
        return []
    reasons, rise = [], settings["learning_rate_warm_up"]
    if settings["schedule"] == "step" and not settings["decay_every"]:
        reasons.append("schedule=step needs decay_every: after how long the learning rate drops")
    length, unit = (
        (settings["epochs"], "epochs") if settings["epochs"] else (settings["steps"], "steps")
    )
    if rise and rise >= length:
        reasons.append(
            f"a learning rate that rises for {rise} {unit} leaves none of the {length} {unit}: "
            "choose a smaller learning_rate_warm_up"
        )
    return reasons


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
