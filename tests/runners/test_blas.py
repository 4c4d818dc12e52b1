"""`blas`: right numbers, from the matrices that were asked for."""

import math
import statistics
from pathlib import Path
from typing import Any

import numpy
import pytest

from runners.payload.blas import check_residuals, prepare_operations
from runners.payload.recorder import Recorder, ResultError
from runners.workloads import WORKLOADS
from runners.workloads.instances import INSTANCE_SPREAD
from tests.runners.payload_runs import left, run_payload

BLAS = WORKLOADS["blas"]
SMALL = {
    "matrix_size": 96,
    "decomposition_size": 24,
    "fft_size": 96,
    "steps": 12,
    "burn_in": 3,
}
ALL = ("matmul", "cholesky", "svd", "eigen", "fft")


def run(directory: Path, **parameters: object) -> Any:
    cleaned = BLAS.clean({**SMALL, **parameters})
    ran = run_payload(directory, "blas", cleaned)
    assert ran.returncode == 0, ran.stderr
    return BLAS.read(left(ran.result), cleaned)


def test_every_declared_metric_is_reported(tmp_path: Path) -> None:
    result = run(tmp_path, steps=103)  # a hundred after the warm-up have a 99th percentile
    declared = {metric.name for metric in BLAS.metrics}
    assert set(result.measurements) == declared - {INSTANCE_SPREAD.name}  # of packed runs alone
    assert {unit for unit, _ in result.series.values()} == {"s"}
    assert set(result.series) == {"step_time", *(f"{name}_time" for name in ALL)}
    assert {len(values) for _, values in result.series.values()} == {103}


def test_metrics_follow_from_the_steps_after_the_burn_in(tmp_path: Path) -> None:
    result = run(tmp_path)
    for name, (_, values) in result.series.items():
        assert result.measurements[name][0] == pytest.approx(statistics.fmean(values[3:]))
    spread = statistics.stdev(result.series["step_time"][1][3:])
    assert result.measurements["step_time_sd"][0] == pytest.approx(spread)
    assert "tail_ratio" not in result.measurements, "nine steps have no 99th percentile"
    counts = {
        "": ("matmul", 2 * 96**3),
        "cholesky_": ("cholesky", 24**3 / 3),
        "svd_": ("svd", 21 * 24**3),
        "eigen_": ("eigen", 9 * 24**3),
        "fft_": ("fft", 2.5 * 96 * math.log2(96)),
    }
    for name, (operation, count) in counts.items():
        gflops = count / result.measurements[f"{operation}_time"][0] / 1e9
        assert result.measurements[f"{name}gflops"][0] == pytest.approx(gflops)
    parts = [f"{operation}_time" for operation in ALL]
    for step, whole in enumerate(result.series["step_time"][1]):
        assert sum(result.series[part][1][step] for part in parts) <= whole


@pytest.mark.parametrize("operation", ALL)
def test_one_operation_can_be_timed_alone(tmp_path: Path, operation: str) -> None:
    result = run(tmp_path, operation=operation)
    assert set(result.series) == {"step_time", f"{operation}_time"}
    declared = {metric.name for metric in BLAS.list_metrics({"operation": operation})}
    assert declared - set(result.measurements) == {"tail_ratio", "instance_spread"}


def test_a_plan_from_before_there_was_a_choice_is_run_as_it_was_meant(tmp_path: Path) -> None:
    cleaned = BLAS.clean(SMALL)
    old = {name: cleaned[name] for name in cleaned if name not in ("operation", "fft_size")}
    ran = run_payload(tmp_path, "blas", old)
    assert ran.returncode == 0, ran.stderr
    assert "fft_time" not in BLAS.read(left(ran.result), old).measurements


@pytest.mark.parametrize("precision", ["float32", "float64", "complex64", "complex128"])
def test_the_residual_is_near_the_precision(tmp_path: Path, precision: str) -> None:
    residual = run(tmp_path, precision=precision).measurements["residual"][0]
    assert 0 < residual < 100 * numpy.finfo(precision).eps


@pytest.mark.parametrize(
    "size",
    [
        *({"matrix_size": 2}, {"decomposition_size": 2}, {"seed": 2**32 - 1}),
        *({"fft_size": 2}, {"fft_size": 2, "precision": "complex64"}, {"fft_size": 99991}),
    ],
)
def test_the_smallest_and_the_largest_values_run(tmp_path: Path, size: dict[str, int]) -> None:
    run(tmp_path, **size, burn_in=0)


def test_the_same_seed_computes_the_same(tmp_path: Path) -> None:
    first, again, other = (
        run(tmp_path / str(number), seed=seed).measurements["residual"]
        for number, seed in enumerate((5, 5, 6))
    )
    assert first == again != other


@pytest.mark.parametrize("wrong", [1e-3, math.nan, math.inf])
@pytest.mark.parametrize("precision", ["float64", "complex128"])
@pytest.mark.parametrize("operation", ALL)
def test_a_wrong_result_is_no_result(operation: str, precision: str, wrong: float) -> None:
    (only,) = prepare_operations(
        numpy, BLAS.clean({**SMALL, "operation": operation, "precision": precision})
    )
    right = only.compute()
    check_residuals([only], [right], Recorder())
    spoilt = [part.copy() for part in right] if isinstance(right, tuple) else right.copy()
    (spoilt[0] if isinstance(spoilt, list) else spoilt).flat[1] += wrong
    wrong_here = pytest.raises(ResultError, match=f"{operation} is wrong: residual")
    with wrong_here, numpy.errstate(all="ignore"):
        check_residuals([only], [spoilt], Recorder())


def test_the_library_that_answered_says_its_version_and_its_threads(tmp_path: Path) -> None:
    ran = run_payload(tmp_path, "blas", BLAS.clean({**SMALL, "threads": 1}))
    (answered,) = ran.inside["blas_loaded"]
    assert answered["name"] == "OpenBLAS"
    assert answered["version"].count(".") >= 2
    assert (answered["threads"], Path(answered["file"]).exists()) == (1, True)
    assert answered["kernels"] in answered["build"]


def test_threads_reach_the_library(tmp_path: Path) -> None:
    program = b"""
import os
from .frameworks import load, set_threads
def run(parameters, recorder, process):
    set_threads(1)
    load("numpy", "NumPy")
    print("threads:", len(os.listdir("/proc/self/task")), flush=True)
    os._exit(0)
"""
    variables = {"OMP_NUM_THREADS": "7", "OPENBLAS_NUM_THREADS": "7"}
    ran = run_payload(tmp_path, "blas", {}, files={"blas.py": program}, variables=variables)
    assert ran.stdout == "threads: 1\n"
