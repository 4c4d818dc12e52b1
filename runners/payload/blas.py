"""Matrix products, decompositions and transforms with NumPy: the numerical stack of an environment.

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
from .place import Place
from .recorder import Recorder, ResultError

OPERATIONS = ("matmul", "cholesky", "svd", "eigen", "fft")


class Operation(NamedTuple):
    """One thing to do, with what it has to fulfil."""

    name: str
    compute: Callable[[], Any]
    residual: Callable[[Any], float]  # of what `compute` gave, relative
    limit: float  # of the residual
    work: float  # nominal floating-point operations


def run(parameters: dict[str, Any], recorder: Recorder, place: Place) -> None:
    recorder.phase("import")
    set_threads(parameters["threads"])
    numpy = load("numpy", "NumPy")

    recorder.phase("build")
    operations = prepare(numpy, parameters)
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
    check(operations, results, recorder)
    recorder.facts.update(numpy=numpy.__version__, blas=blas_libraries.loaded())


def prepare(numpy: Any, parameters: dict[str, Any]) -> List[Operation]:
    """The chosen operations. Plans of earlier versions have no transform, and all of the others."""
    size, order = parameters["matrix_size"], parameters["decomposition_size"]
    length, chosen = parameters.get("fft_size", 0), parameters.get("operation", "all")
    makers: Dict[str, Callable[[Draw], Operation]] = {
        "matmul": lambda draw: product(numpy, draw, size),
        "cholesky": lambda draw: cholesky(numpy, draw, order),
        "svd": lambda draw: singular_values(numpy, draw, order),
        "eigen": lambda draw: eigenvalues(numpy, draw, order),
        "fft": lambda draw: transform(numpy, draw, length),
    }
    wanted = [name for name in OPERATIONS if chosen in ("all", name) and (name != "fft" or length)]
    draw = Draw(numpy, parameters["seed"], parameters["precision"])
    return [makers[name](draw) for name in wanted]


class Draw:
    """Normally distributed numbers in the precision that was asked for."""

    def __init__(self, numpy: Any, seed: int, precision: str) -> None:
        self._random, self._precision = numpy.random.default_rng(seed), precision
        self.is_complex = precision.startswith("complex")
        self.work = 4 if self.is_complex else 1  # real operations in place of one
        self.epsilon = float(numpy.finfo(precision).eps)

    def __call__(self, *shape: int) -> Any:
        drawn = self._random.standard_normal(shape)
        if self.is_complex:
            drawn = drawn + 1j * self._random.standard_normal(shape)
        return drawn.astype(self._precision)


def product(numpy: Any, draw: Draw, size: int) -> Operation:
    left, right = draw(size, size), draw(size, size)
    out, probe = numpy.empty_like(left), draw(size)

    def residual(result: Any) -> float:
        return distance(numpy, result @ probe, left @ (right @ probe))

    return Operation(
        "matmul",
        lambda: numpy.matmul(left, right, out=out),
        residual,
        100 * size * draw.epsilon,
        2.0 * size**3 * draw.work,
    )


def positive_definite(numpy: Any, draw: Draw, order: int) -> Any:
    """Symmetric (Hermitian), with a condition number near 5 for any order."""
    general = draw(order, order)
    scale = order * (2 if draw.is_complex else 1)
    return general @ general.conj().T / scale + numpy.eye(order, dtype=general.dtype)


def cholesky(numpy: Any, draw: Draw, order: int) -> Operation:
    matrix = positive_definite(numpy, draw, order)
    return Operation(
        "cholesky",
        lambda: numpy.linalg.cholesky(matrix),
        lambda lower: distance(numpy, lower @ lower.conj().T, matrix),
        100 * order * draw.epsilon,
        order**3 / 3 * draw.work,
    )


def singular_values(numpy: Any, draw: Draw, order: int) -> Operation:
    matrix = draw(order, order)
    return Operation(
        "svd",
        lambda: numpy.linalg.svd(matrix),
        lambda parts: distance(numpy, parts[0] * parts[1] @ parts[2], matrix),
        100 * order * draw.epsilon,
        21.0 * order**3 * draw.work,
    )


def eigenvalues(numpy: Any, draw: Draw, order: int) -> Operation:
    matrix = positive_definite(numpy, draw, order)

    def residual(found: Any) -> float:
        values, vectors = found
        return distance(numpy, vectors * values @ vectors.conj().T, matrix)

    return Operation(
        "eigen",
        lambda: numpy.linalg.eigh(matrix),
        residual,
        100 * order * draw.epsilon,
        9.0 * order**3 * draw.work,
    )


def transform(numpy: Any, draw: Draw, length: int) -> Operation:
    """Real numbers by `rfft`, complex ones by `fft`; NumPy before 2.0 computes both in double."""
    signal = draw(length)
    forward = numpy.fft.fft if draw.is_complex else numpy.fft.rfft
    # The second frequency by its definition: an inverse would share the forward's mistakes.
    turns = numpy.exp(-2j * numpy.pi * numpy.arange(length) / length)
    wanted = numpy.sum(signal * turns)
    norm = float(numpy.linalg.norm(signal))

    def residual(spectrum: Any) -> float:
        back = numpy.fft.ifft(spectrum) if draw.is_complex else numpy.fft.irfft(spectrum, length)
        one = float(abs(spectrum[1] - wanted)) / norm
        found = distance(numpy, back, signal)
        return one if math.isnan(one) else max(found, one)

    rounds = math.log2(length)
    return Operation(
        "fft",
        lambda: forward(signal),
        residual,
        100 * (1 + rounds) * draw.epsilon,
        5.0 * length * rounds / (1 if draw.is_complex else 2),
    )


def distance(numpy: Any, got: Any, wanted: Any) -> float:
    """The relative residual ||got - wanted|| / ||wanted||."""
    return float(numpy.linalg.norm(got - wanted) / numpy.linalg.norm(wanted))


def check(operations: List[Operation], results: List[Any], recorder: Recorder) -> None:
    """Report the largest residual; ResultError for one above its limit."""
    largest = 0.0
    for operation, result in zip(operations, results):
        residual, limit = operation.residual(result), operation.limit
        if not residual <= limit:  # also when it is not a number
            raise ResultError(
                f"{operation.name} is wrong: residual {residual:.3g} above {limit:.3g}"
            )
        largest = max(largest, residual)
    recorder.metric("residual", largest, "1")
