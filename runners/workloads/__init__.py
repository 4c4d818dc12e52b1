"""The workloads. A new one is one class here, and one program in `runners.payload`."""

from runners.workloads.base import OTHER_SEEDS, SAME_SEED, Workload, choose_repeat_seed
from runners.workloads.blas import Blas
from runners.workloads.cnn import Cnn
from runners.workloads.command import Command
from runners.workloads.files import Files
from runners.workloads.parameters import Parameter, ParameterError
from runners.workloads.results import Metric, Result, SanityError
from runners.workloads.segmentation import Segmentation
from runners.workloads.startup import Startup
from runners.workloads.tf_cnn_benchmarks import TfCnnBenchmarks

__all__ = [
    "KNOWN_WORKLOADS",
    "OTHER_SEEDS",
    "SAME_SEED",
    "WORKLOADS",
    "Metric",
    "Parameter",
    "ParameterError",
    "Result",
    "SanityError",
    "Workload",
    "choose_repeat_seed",
]

WORKLOADS: dict[str, type[Workload]] = {
    workload.kind: workload for workload in (Blas, Cnn, Segmentation, Files, Startup, Command)
}
KNOWN_WORKLOADS: dict[str, type[Workload]] = {
    **WORKLOADS,
    TfCnnBenchmarks.kind: TfCnnBenchmarks,
}
"""These and the workloads of imported logs, which are compared but never launched."""
