"""A packed run is one run: what its instances left becomes one result."""

import json
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.workloads import WORKLOADS, SanityError
from runners.workloads.blas import Blas

times = st.floats(1e-6, 1e3)


def result(step_time: float, gflops: float = 5.0, phases: float = 1.0) -> bytes:
    document = {
        "schema": 1,
        "metrics": {
            "step_time": {"value": step_time, "unit": "s"},
            "gflops": {"value": gflops, "unit": "Gflop/s"},
        },
        "series": {"step_time": {"unit": "s", "values": [step_time, step_time]}},
        "phases": {"start": phases},
        "facts": {"burn_in": 1},
    }
    return json.dumps(document).encode()


def packed(*results: bytes, asked: int | None = None) -> dict[str, bytes]:
    spec = {"schema": 1, "instances": asked or len(results)}
    left = {"spec.json": json.dumps(spec).encode(), "output.txt": b""}
    return left | {f"instance-{n}/result.json": result for n, result in enumerate(results)}


@given(st.lists(times, min_size=2, max_size=6))
def test_metrics_are_means_and_their_spread_is_told(values):
    read = Blas.read(packed(*map(result, values)), {})
    mean, unit = read.measurements["step_time"]
    assert math.isclose(mean, statistics.fmean(values))
    assert unit == "s"
    spread, unit = read.measurements["instance_spread"]
    assert math.isclose(spread, statistics.stdev(values) / mean, abs_tol=1e-12)
    assert unit == "1"
    assert read.facts["by instance"] == {"step_time": values}


def test_rates_series_and_phases():
    left = packed(result(1, 10, phases=3), result(3, 20, phases=9))
    read = Blas.read(left, {})
    assert read.measurements["gflops"] == (15, "Gflop/s")
    assert read.series["step_time"] == ("s", [1, 1])
    assert read.series["step_time of instance 1"] == ("s", [3, 3])
    assert read.phases == {"start": 9}
    assert read.facts["instances"] == 2
    assert read.facts["burn_in"] == 1


@pytest.mark.parametrize(
    ("left", "message"),
    [
        (packed(result(1), result(2), asked=3), "instance 2: the run left no result"),
        (packed(result(1), b"{"), "instance 1: the result is not JSON"),
        (packed(result(1), result(-2)), "instance 1: step_time is -2 s"),
        (packed(result(1), result(2)) | {"instance-2/output.txt": b""}, "instance 2: the run left"),
    ],
)
def test_an_instance_that_has_no_result_is_named(left, message):
    with pytest.raises(SanityError, match=message):
        Blas.read(left, {})


def test_a_run_that_was_not_packed_is_read_as_ever():
    left = {"result.json": result(2), "rank-1/result.json": result(9)}
    read = Blas.read({**left, "spec.json": b'{"instances": 1}'}, {})
    assert read.measurements["step_time"] == (2, "s")
    assert "instance_spread" not in read.measurements


@pytest.mark.parametrize("kind", sorted(WORKLOADS))
def test_workloads_on_several_nodes_say_how(kind):
    """Bounds that contradict each other would refuse every scale."""
    workload = WORKLOADS[kind]
    assert workload.most_nodes >= 1
    given = {"argv": ["true"]} if kind == "command" else {}
    assert workload.choose_processes(workload.clean(given)) in ("one", "node", "gpu")
