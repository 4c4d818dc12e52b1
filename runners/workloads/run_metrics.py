"""Metrics of the run itself, which Tare measures whatever the program is and reports."""

from collections.abc import Sequence

from runners.workloads.results import Metric

RUN_TIME = Metric("run_time", "s", "lower", "Whole run, from its launch to the program's end")
QUEUE_TIME = Metric("queue_time", "s", "lower", "From the submission of its job to the job's start")
PEAK_HOST_MEMORY = Metric(
    "peak_host_memory", "B", "lower", "Most memory that the processes of the run held"
)
PEAK_GPU_MEMORY = Metric(
    "peak_gpu_memory", "B", "lower", "Most memory in use on any one GPU of the run, in samples"
)
GPU_ENERGY = Metric(
    "gpu_energy", "J", "lower", "Energy of all GPUs of the run, idle power included"
)
HOST_ENERGY = Metric("host_energy", "J", "lower", "Energy of the node's CPUs, whoever used them")
RUN_METRICS = (
    *(RUN_TIME, QUEUE_TIME, PEAK_HOST_MEMORY),
    *(PEAK_GPU_MEMORY, GPU_ENERGY, HOST_ENERGY),
)
RUN_METRIC_NAMES = frozenset(metric.name for metric in RUN_METRICS)
OF_JOB = frozenset({QUEUE_TIME.name})
"""Metrics that are the same for all runs of a job."""
NO_SPEEDS = RUN_METRIC_NAMES - {RUN_TIME.name}
"""Metrics that say nothing about how fast a program is, on however many GPUs."""


def add_run_metrics(declared: Sequence[Metric]) -> tuple[Metric, ...]:
    """Return the metrics of a program, then those of its run.

    A program's own metric keeps its name: that of the run is not measured then.
    """
    names = {metric.name for metric in declared}
    return (*declared, *(metric for metric in RUN_METRICS if metric.name not in names))
