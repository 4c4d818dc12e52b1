"""`blas`: matrix products, decompositions and transforms with an environment's NumPy.

One step does each of the chosen operations once: it multiplies two general matrices, takes one
Cholesky factorisation, one singular value decomposition and one eigendecomposition of smaller
ones, and one discrete Fourier transform. Every result is checked once, after the last step.

Operations a second are nominal: the usual counts for n x n matrices, whatever algorithm the
library uses. Golub and Van Loan, Matrix Computations, 4th edition: product 2 n^3, Cholesky n^3 / 3
(section 4.2.5), singular values with both sets of vectors 21 n^3 (8.6.4), symmetric eigenvalues
with vectors 9 n^3 (8.3.5). Transform: 5 n log2 n, half of it for real numbers, as benchFFT counts
(Frigo and Johnson). A complex multiplication and addition are four real ones of each.
"""

from __future__ import annotations

import math
import time
from typing import Any, Callable, Dict, List, NamedTuple

from . import blas_libraries
from .frameworks import load, set_threads
from .place import RunProcess
from .recorder import Recorder, ResultError

OPERATIONS = ("matmul", "cholesky", "svd", "eigen", "fft")


class Operation(NamedTuple):
    """One numerical operation, and the limit that its error has to keep."""

    name: str
    compute: Callable[[], Any]
    residual: Callable[[Any], float]  # relative, of the result of `compute`
    limit: float  # of the residual
    work: float  # nominal floating-point operations


def run(parameters: dict[str, Any], recorder: Recorder, process: RunProcess) -> None:
    recorder.phase("import")
    set_threads(parameters["threads"])
    numpy = load("numpy", "NumPy")

    recorder.phase("build")
    operations = prepare_operations(numpy, parameters)
    for operation in operations:
        recorder.series(f"{operation.name}_time", "s")
    results: List[Any] = [None] * len(operations)
    clock = time.perf_counter
    for _ in recorder.steps(parameters["steps"], parameters["burn_in"]):
        times = {}
        for index, operation in enumerate(operations):
            began = clock()
            results[index] = operation.compute()
            times[f"{operation.name}_time"] = clock() - began
        recorder.step(**times)

    for operation in operations:
        mean = recorder.mean(f"{operation.name}_time")
        recorder.metric(f"{operation.name}_time", mean, "s")
        rate = "gflops" if operation.name == "matmul" else f"{operation.name}_gflops"
        recorder.metric(rate, 1e-9 * operation.work / mean, "Gflop/s")
    check_residuals(operations, results, recorder)
    recorder.facts.update(numpy=numpy.__version__, blas=blas_libraries.list_loaded())


def prepare_operations(numpy: Any, parameters: dict[str, Any]) -> List[Operation]:
    """Return the chosen operations; plans of earlier versions choose all but the transform."""
    size, order = parameters["matrix_size"], parameters["decomposition_size"]
    length, chosen = parameters.get("fft_size", 0), parameters.get("operation", "all")
    makers: Dict[str, Callable[[Draw], Operation]] = {
        "matmul": lambda draw: make_product(numpy, draw, size),
        "cholesky": lambda draw: make_cholesky(numpy, draw, order),
        "svd": lambda draw: make_singular_values(numpy, draw, order),
        "eigen": lambda draw: make_eigenvalues(numpy, draw, order),
        "fft": lambda draw: make_transform(numpy, draw, length),
    }
    names = [name for name in OPERATIONS if chosen in ("all", name) and (name != "fft" or length)]
    draw = Draw(numpy, parameters["seed"], parameters["precision"])
    return [makers[name](draw) for name in names]


class Draw:
    """A source of normally distributed numbers in the chosen precision."""

    def __init__(self, numpy: Any, seed: int, precision: str) -> None:
        self._random, self._precision = numpy.random.default_rng(seed), precision
        self.is_complex = precision.startswith("complex")
        self.work = 4 if self.is_complex else 1  # real operations for each operation
        self.epsilon = float(numpy.finfo(precision).eps)

    def __call__(self, *shape: int) -> Any:
        numbers = self._random.standard_normal(shape)
        if self.is_complex:
            numbers = numbers + 1j * self._random.standard_normal(shape)
        return numbers.astype(self._precision)


def make_product(numpy: Any, draw: Draw, size: int) -> Operation:
    left, right = draw(size, size), draw(size, size)
    out, probe = numpy.empty_like(left), draw(size)

    def compute_residual(result: Any) -> float:
        return compute_relative_residual(numpy, result @ probe, left @ (right @ probe))

    return Operation(
        "matmul",
        lambda: numpy.matmul(left, right, out=out),
        compute_residual,
        100 * size * draw.epsilon,
        2.0 * size**3 * draw.work,
    )


def draw_positive_definite(numpy: Any, draw: Draw, order: int) -> Any:
    """Return a symmetric (Hermitian) matrix with a condition number near 5 for any order."""
    general = draw(order, order)
    scale = order * (2 if draw.is_complex else 1)
    return general @ general.conj().T / scale + numpy.eye(order, dtype=general.dtype)


def make_cholesky(numpy: Any, draw: Draw, order: int) -> Operation:
    matrix = draw_positive_definite(numpy, draw, order)
    return Operation(
        "cholesky",
        lambda: numpy.linalg.cholesky(matrix),
        lambda lower: compute_relative_residual(numpy, lower @ lower.conj().T, matrix),
        100 * order * draw.epsilon,
        order**3 / 3 * draw.work,
    )


def make_singular_values(numpy: Any, draw: Draw, order: int) -> Operation:
    matrix = draw(order, order)
    return Operation(
        "svd",
        lambda: numpy.linalg.svd(matrix),
        lambda parts: compute_relative_residual(numpy, parts[0] * parts[1] @ parts[2], matrix),
        100 * order * draw.epsilon,
        21.0 * order**3 * draw.work,
    )


def make_eigenvalues(numpy: Any, draw: Draw, order: int) -> Operation:
    matrix = draw_positive_definite(numpy, draw, order)

    def compute_residual(result: Any) -> float:
        values, vectors = result
        return compute_relative_residual(numpy, vectors * values @ vectors.conj().T, matrix)

    return Operation(
        "eigen",
        lambda: numpy.linalg.eigh(matrix),
        compute_residual,
        100 * order * draw.epsilon,
        9.0 * order**3 * draw.work,
    )


def make_transform(numpy: Any, draw: Draw, length: int) -> Operation:
    """Transform real numbers by `rfft`, complex ones by `fft`.

    NumPy before 2.0 computes both in double precision.
    """
    signal = draw(length)
    forward = numpy.fft.fft if draw.is_complex else numpy.fft.rfft
    # The second frequency by its definition: an inverse would share mistakes of the transform.
    turns = numpy.exp(-2j * numpy.pi * numpy.arange(length) / length)
    expected = numpy.sum(signal * turns)
    norm = float(numpy.linalg.norm(signal))

    def compute_residual(spectrum: Any) -> float:
        inverse = numpy.fft.ifft(spectrum) if draw.is_complex else numpy.fft.irfft(spectrum, length)
        of_frequency = float(abs(spectrum[1] - expected)) / norm
        of_inverse = compute_relative_residual(numpy, inverse, signal)
        return of_frequency if math.isnan(of_frequency) else max(of_inverse, of_frequency)

    rounds = math.log2(length)
    return Operation(
        "fft",
        lambda: forward(signal),
        compute_residual,
        100 * (1 + rounds) * draw.epsilon,
        5.0 * length * rounds / (1 if draw.is_complex else 2),
    )


def compute_relative_residual(numpy: Any, actual: Any, expected: Any) -> float:
    """Return ||actual - expected|| / ||expected||."""
    return float(numpy.linalg.norm(actual - expected) / numpy.linalg.norm(expected))


def check_residuals(operations: List[Operation], results: List[Any], recorder: Recorder) -> None:
    """Record the largest residual. Raises ResultError for one above its limit."""
    largest = 0.0
    for operation, result in zip(operations, results):
        residual, limit = operation.residual(result), operation.limit
        if not residual <= limit:  # also when it is not a number
            raise ResultError(
                f"{operation.name} is wrong: residual {residual:.3g} above {limit:.3g}"
            )
        largest = max(largest, residual)
    recorder.metric("residual", largest, "1")
