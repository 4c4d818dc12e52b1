"""`cnn`: training a small convolutional network, the job that the seeds of Tare asked about."""

from collections.abc import Mapping
from typing import ClassVar

from runners.workloads.base import TIMES, Workload, stepping
from runners.workloads.parameters import Parameter
from runners.workloads.results import Metric


class Cnn(Workload):
    kind = "cnn"
    label = "Training a convolutional network"
    description = (
        "A small convolutional network trained with Keras 3 on TensorFlow, on synthetic images "
        "that never leave the device. One step is forward, backward and update, and waits for "
        "the device. With the same seed the losses of two environments can be compared."
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
        *stepping(steps=400, burn_in=40),
    )
    metrics = (
        *TIMES,
        Metric("images_per_second", "images/s", "higher", "Throughput"),
        Metric("loss", "1", "lower", "Loss of the last step"),
    )
    rates: ClassVar[Mapping[str, str]] = {"images_per_second": "step_time"}
