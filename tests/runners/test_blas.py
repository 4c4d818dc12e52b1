"""`blas`: right numbers, from the matrices that were asked for."""

import math
import statistics
from pathlib import Path
from typing import Any

import numpy
import pytest

from runners.payload.blas import check
from runners.payload.recorder import Recorder, ResultError
from runners.workloads import WORKLOADS
from runners.workloads.instances import INSTANCE_SPREAD
from tests.runners.payload_runs import left, run_payload

BLAS = WORKLOADS["blas"]
SMALL = {"matrix_size": 96, "decomposition_size": 24, "steps": 12, "burn_in": 3}


def run(directory: Path, **parameters: object) -> Any:
    ran = run_payload(directory, "blas", BLAS.clean({**SMALL, **parameters}))
    assert ran.returncode == 0, ran.stderr
    return BLAS.read(left(ran.result), {})


def test_every_declared_metric_is_reported(tmp_path: Path) -> None:
    result = run(tmp_path, steps=103)  # a hundred after the burn-in have a 99th percentile
    declared = {metric.name for metric in BLAS.metrics}
    assert set(result.measurements) == declared - {INSTANCE_SPREAD.name}  # of packed runs alone
    assert {unit for unit, _ in result.series.values()} == {"s"}
    assert {len(values) for _, values in result.series.values()} == {103}


def test_metrics_follow_from_the_steps_after_the_burn_in(tmp_path: Path) -> None:
    result = run(tmp_path)
    for name, (_, values) in result.series.items():
        assert result.measurements[name][0] == pytest.approx(statistics.fmean(values[3:]))
    spread = statistics.stdev(result.series["step_time"][1][3:])
    assert result.measurements["step_time_sd"][0] == pytest.approx(spread)
    assert "tail_ratio" not in result.measurements, "nine steps have no 99th percentile"
    gflops = 2 * 96**3 / result.measurements["matmul_time"][0] / 1e9
    assert result.measurements["gflops"][0] == pytest.approx(gflops)
    parts = [f"{operation}_time" for operation in ("matmul", "cholesky", "svd", "eigen")]
    for step, whole in enumerate(result.series["step_time"][1]):
        assert sum(result.series[part][1][step] for part in parts) <= whole


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_residual_is_near_the_precision(tmp_path: Path, precision: str) -> None:
    residual = run(tmp_path, precision=precision).measurements["residual"][0]
    assert 0 < residual < 100 * numpy.finfo(precision).eps


@pytest.mark.parametrize(
    "size", [{"matrix_size": 2}, {"decomposition_size": 2}, {"seed": 2**32 - 1}]
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
def test_a_wrong_product_is_no_result(wrong: float) -> None:
    right = numpy.ones((3, 3))
    with pytest.raises(ResultError, match="svd is wrong: residual"):
        check(numpy, {"matmul": (right, right), "svd": (right + wrong, right)}, 1e-9, Recorder())


def test_threads_reach_the_library(tmp_path: Path) -> None:
    program = b"""
import os
from .frameworks import load, set_threads
def run(parameters, recorder, place):
    set_threads(1)
    load("numpy", "NumPy")
    print("threads:", len(os.listdir("/proc/self/task")), flush=True)
    os._exit(0)
"""
    variables = {"OMP_NUM_THREADS": "7", "OPENBLAS_NUM_THREADS": "7"}
    ran = run_payload(tmp_path, "blas", {}, files={"blas.py": program}, variables=variables)
    assert ran.stdout == "threads: 1\n"
