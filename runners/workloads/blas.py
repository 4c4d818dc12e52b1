"""`blas`: what the numerical stack of an environment is worth, without any framework."""

from collections.abc import Mapping
from typing import ClassVar

from runners.workloads.base import TIMES, Workload, stepping
from runners.workloads.parameters import Parameter
from runners.workloads.results import Metric


class Blas(Workload):
    kind = "blas"
    label = "Matrix products and decompositions"
    batch = "total"
    description = (
        "NumPy on the BLAS and LAPACK of the environment. One step multiplies two matrices and "
        "takes a Cholesky factorisation, a singular value decomposition and a symmetric "
        "eigendecomposition of smaller ones. Every result is checked."
    )
    parameters = (
        Parameter(
            name="matrix_size",
            type="integer",
            default=512,
            minimum=2,
            maximum=32768,
            help="Rows and columns of the matrices that are multiplied.",
        ),
        Parameter(
            name="decomposition_size",
            type="integer",
            default=192,
            minimum=2,
            maximum=8192,
            help="Rows and columns of the matrices that are decomposed.",
        ),
        Parameter(
            name="precision",
            type="choice",
            default="float64",
            choices=("float32", "float64"),
            help="Precision of every matrix.",
        ),
        *stepping(steps=250, burn_in=25),
    )
    metrics = (
        *TIMES,
        Metric("gflops", "Gflop/s", "higher", "Matrix product"),
        Metric("matmul_time", "s", "lower", "Matrix product"),
        Metric("cholesky_time", "s", "lower", "Cholesky factorisation"),
        Metric("svd_time", "s", "lower", "Singular value decomposition"),
        Metric("eigen_time", "s", "lower", "Symmetric eigendecomposition"),
        Metric("residual", "1", "lower", "Largest relative residual"),
    )
    rates: ClassVar[Mapping[str, str]] = {"gflops": "matmul_time"}
