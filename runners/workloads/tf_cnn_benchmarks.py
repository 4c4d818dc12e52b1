"""`tf_cnn_benchmarks`: TensorFlow's own benchmark of convolutional networks, from imported logs."""

from collections.abc import Mapping
from typing import Any, ClassVar

from runners.workloads.base import Workload
from runners.workloads.parameters import ParameterError, Value
from runners.workloads.results import Metric


class TfCnnBenchmarks(Workload):
    """Runs of others. They have two throughputs, which differ by up to 2 %."""

    kind = "tf_cnn_benchmarks"
    label = "TensorFlow's benchmark of convolutional networks"
    batch = "per GPU"
    description = (
        "Runs of tf_cnn_benchmarks whose logs were imported. Throughput by the wall clock holds "
        "what happens between the steps; that of the steps alone does not."
    )
    parameters = ()
    metrics = (
        Metric("wall_images_per_second", "images/s", "higher", "Throughput by the wall clock"),
        Metric("step_images_per_second", "images/s", "higher", "Throughput of the steps alone"),
        Metric("step_time", "s", "lower", "Time per step, mean over all"),
        Metric("time_to_first_step", "s", "lower", "From its log's start to the first step's end"),
        Metric("loss", "1", "lower", "Loss of the last step"),
        Metric("top_1_accuracy", "1", "higher", "Top-1 accuracy in evaluation"),
        Metric("top_5_accuracy", "1", "higher", "Top-5 accuracy in evaluation"),
        Metric("evaluation_images_per_second", "images/s", "higher", "Throughput in evaluation"),
    )
    primary = "wall_images_per_second"
    # Throughput by the wall clock rests on the same steps, and on what lies between them.
    rates: ClassVar[Mapping[str, str]] = {
        "step_images_per_second": "step_time",
        "wall_images_per_second": "step_time",
    }

    @classmethod
    def list_all_metrics(cls, parameters: Mapping[str, Any]) -> tuple[Metric, ...]:
        """Return its own: Tare has run none of these."""
        return cls.metrics

    @classmethod
    def clean(cls, parameters: Mapping[str, object]) -> dict[str, Value]:
        """Raise ParameterError: such a workload cannot be run, and has no parameters."""
        raise ParameterError({"kind": "this workload is only known from imported logs"})
