"""`blas`: how fast the numerical libraries of an environment are, without any framework."""

from collections.abc import Mapping
from typing import Any, ClassVar

from runners.workloads.base import TIMES, Workload, make_step_parameters
from runners.workloads.page_cache import PREPARED
from runners.workloads.parameters import Parameter
from runners.workloads.results import Metric

OPERATIONS = {
    "matmul": "Matrix product",
    "cholesky": "Cholesky factorisation",
    "svd": "Singular value decomposition",
    "eigen": "Symmetric eigendecomposition",
    "fft": "Fourier transform",
}


def name_rate(operation: str) -> str:
    return "gflops" if operation == "matmul" else f"{operation}_gflops"


class Blas(Workload):
    kind = "blas"
    label = "Matrix products and decompositions"
    batch = "total"
    description = (
        "NumPy on the BLAS and LAPACK of the environment. One step multiplies two matrices, "
        "takes a Cholesky factorisation, a singular value decomposition and a symmetric "
        "eigendecomposition of smaller ones, and one Fourier transform; or one of these alone. "
        "Every result is checked. Which BLAS answered, its version, kernels and threads are in the "
        "snapshot, and stamp the verdict where they differ."
    )
    parameters = (
        Parameter(
            name="operation",
            type="choice",
            default="all",
            choices=("all", *OPERATIONS),
            help="What one step does: all of them once, or one of them alone.",
        ),
        Parameter(
            name="matrix_size",
            type="integer",
            default=512,
            minimum=2,
            maximum=32768,
            help="Rows and columns of the matrices that are multiplied.",
            when=("operation", ("all", "matmul")),
        ),
        Parameter(
            name="decomposition_size",
            type="integer",
            default=192,
            minimum=2,
            maximum=8192,
            help="Rows and columns of the matrices that are decomposed.",
            when=("operation", ("all", "cholesky", "svd", "eigen")),
        ),
        Parameter(
            name="fft_size",
            type="integer",
            default=65536,
            minimum=2,
            maximum=2**28,
            help="Numbers that are transformed. Powers of two are the fastest, large primes the "
            "slowest. NumPy brings its own transform; tuned builds replace it.",
            label="FFT size",
            when=("operation", ("all", "fft")),
        ),
        Parameter(
            name="precision",
            type="choice",
            default="float64",
            choices=("float32", "float64", "complex64", "complex128"),
            help="Precision of every matrix and signal.",
        ),
        *make_step_parameters(steps=250, warm_up=25),
        PREPARED,
    )
    metrics = (
        *TIMES,
        Metric("gflops", "Gflop/s", "higher", OPERATIONS["matmul"]),
        *(
            Metric(name_rate(name), "Gflop/s", "higher", f"{label}, nominal")
            for name, label in OPERATIONS.items()
            if name != "matmul"
        ),
        *(Metric(f"{name}_time", "s", "lower", label) for name, label in OPERATIONS.items()),
        Metric("residual", "1", "lower", "Largest relative residual"),
    )
    rates: ClassVar[Mapping[str, str]] = {name_rate(name): f"{name}_time" for name in OPERATIONS}

    @classmethod
    def list_metrics(cls, parameters: Mapping[str, Any]) -> tuple[Metric, ...]:
        chosen = parameters.get("operation", "all")
        left_out = {
            metric
            for name in OPERATIONS
            if chosen not in ("all", name)
            for metric in (name_rate(name), f"{name}_time")
        }
        return tuple(metric for metric in cls.metrics if metric.name not in left_out)
