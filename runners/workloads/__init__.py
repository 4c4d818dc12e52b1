"""What is measured. A new workload is one class here, one program in `runners.payload`."""

from runners.workloads.base import OTHER_SEEDS, SAME_SEED, Workload, in_repeat
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
    "in_repeat",
]

WORKLOADS: dict[str, type[Workload]] = {
    workload.kind: workload for workload in (Blas, Cnn, Segmentation, Files, Startup, Command)
}
KNOWN_WORKLOADS: dict[str, type[Workload]] = {
    **WORKLOADS,
    TfCnnBenchmarks.kind: TfCnnBenchmarks,
}
"""With those that only imported logs know: read and compared, never launched."""
