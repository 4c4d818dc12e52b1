"""What is measured. A new workload is one class here, one program in `runners.payload`."""

from runners.workloads.base import Workload
from runners.workloads.blas import Blas
from runners.workloads.cnn import Cnn
from runners.workloads.parameters import Parameter, ParameterError
from runners.workloads.results import Metric, Result, SanityError

__all__ = [
    "WORKLOADS",
    "Metric",
    "Parameter",
    "ParameterError",
    "Result",
    "SanityError",
    "Workload",
]

WORKLOADS: dict[str, type[Workload]] = {workload.kind: workload for workload in (Blas, Cnn)}
