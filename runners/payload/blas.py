"""Matrix products and decompositions with NumPy: the numerical stack of an environment.

One step multiplies two general matrices and takes one Cholesky factorisation, one singular
value decomposition and one symmetric eigendecomposition of smaller ones.
"""

from __future__ import annotations

import time
from typing import Any

from .frameworks import load, set_threads
from .place import Place
from .recorder import Recorder, ResultError

OPERATIONS = ("matmul", "cholesky", "svd", "eigen")


def run(parameters: dict[str, Any], recorder: Recorder, place: Place) -> None:
    recorder.phase("import")
    set_threads(parameters["threads"])
    numpy = load("numpy", "NumPy")

    recorder.phase("build")
    size, precision = parameters["matrix_size"], parameters["precision"]
    random = numpy.random.default_rng(parameters["seed"])
    left, right = random.standard_normal((2, size, size)).astype(precision)
    product = numpy.empty_like(left)
    order = parameters["decomposition_size"]
    general = random.standard_normal((order, order)).astype(precision)
    # Symmetric, and positive definite with a condition number near 5 for any order.
    symmetric = general @ general.T / order + numpy.eye(order, dtype=precision)

    for operation in OPERATIONS:
        recorder.series(f"{operation}_time", "s")
    clock = time.perf_counter
    for _ in recorder.steps(parameters["steps"], parameters["burn_in"]):
        began = clock()
        numpy.matmul(left, right, out=product)
        multiplied = clock()
        lower = numpy.linalg.cholesky(symmetric)
        factorised = clock()
        u, sigma, vt = numpy.linalg.svd(general)
        decomposed = clock()
        values, vectors = numpy.linalg.eigh(symmetric)
        diagonalised = clock()
        recorder.step(
            matmul_time=multiplied - began,
            cholesky_time=factorised - multiplied,
            svd_time=decomposed - factorised,
            eigen_time=diagonalised - decomposed,
        )

    for operation in OPERATIONS:
        recorder.metric(f"{operation}_time", recorder.mean(f"{operation}_time"), "s")
    recorder.metric("gflops", 2e-9 * size**3 / recorder.mean("matmul_time"), "Gflop/s")

    probe = random.standard_normal(size).astype(precision)
    residuals = {
        "matmul": (product @ probe, left @ (right @ probe)),
        "cholesky": (lower @ lower.T, symmetric),
        "svd": (u * sigma @ vt, general),
        "eigen": (vectors * values @ vectors.T, symmetric),
    }
    check(numpy, residuals, 100 * max(size, order) * numpy.finfo(precision).eps, recorder)
    recorder.facts["numpy"] = numpy.__version__


def check(numpy: Any, residuals: dict[str, Any], limit: float, recorder: Recorder) -> None:
    """Report the largest relative residual ||got - wanted|| / ||wanted||; above the limit, fail."""
    largest = 0.0
    for operation, (got, wanted) in residuals.items():
        residual = float(numpy.linalg.norm(got - wanted) / numpy.linalg.norm(wanted))
        if not residual <= limit:  # also when it is not a number
            raise ResultError(f"{operation} is wrong: residual {residual:.3g} above {limit:.3g}")
        largest = max(largest, residual)
    recorder.metric("residual", largest, "1")
