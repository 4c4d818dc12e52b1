"""`cnn`: training a small convolutional network, the job that the seeds of Tare asked about."""

from collections.abc import Mapping
from typing import ClassVar

from runners.workloads.base import TIMES, Workload, stepping
from runners.workloads.parameters import Parameter
from runners.workloads.results import Metric


class Cnn(Workload):
    kind = "cnn"
    label = "Training a convolutional network"
    batch = "total"
    description = (
        "A small convolutional network trained with Keras 3 on TensorFlow, on synthetic images "
        "that never leave the device. One step is forward, backward and update, and waits for "
        "the device. With the same seed the losses of two environments can be compared. The "
        "accuracy is measured on images of the same ten patterns that were not trained on."
    )
    parameters = (
        Parameter(
            name="batch_size",
            type="integer",
            default=32,
            minimum=1,
            maximum=65536,
            unit="images",
            help="Images in one step.",
        ),
        Parameter(
            name="image_size",
            type="integer",
            default=32,
            minimum=8,
            maximum=1024,
            unit="pixels",
            help="Height and width of an image.",
        ),
        Parameter(
            name="learning_rate",
            type="number",
            default=0.01,
            minimum=0,
            maximum=1e9,
            help="Of stochastic gradient descent with momentum 0.9.",
        ),
        Parameter(
            name="precision",
            type="choice",
            default="float32",
            choices=("float32", "mixed_float16", "mixed_bfloat16"),
            help="Precision of the layers; the weights stay in float32.",
        ),
        Parameter(
            name="evaluate_every",
            type="integer",
            default=0,
            minimum=0,
            maximum=1_000_000,
            unit="steps",
            help="From one evaluation to the next; 0: only one, after the last step. No step's "
            "time holds any of it.",
        ),
        Parameter(
            name="target_accuracy",
            type="number",
            default=0,
            minimum=0,
            maximum=1,
            help="Share of images to get right: the first evaluation that finds it gives the time "
            "to accuracy. 0: none.",
        ),
        *stepping(steps=400, burn_in=40),
    )
    metrics = (
        *TIMES,
        Metric("images_per_second", "images/s", "higher", "Throughput"),
        Metric("loss", "1", "lower", "Loss of the last step"),
        Metric("accuracy", "1", "higher", "Accuracy on held-out images after the last step"),
        Metric("time_to_accuracy", "s", "lower", "Time in steps to the target accuracy"),
    )
    rates: ClassVar[Mapping[str, str]] = {"images_per_second": "step_time"}
