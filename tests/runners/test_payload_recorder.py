"""The recorder: exact, cheap, all or nothing."""

import json
import math
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.payload import read_payload_files
from runners.payload.recorder import Recorder, ResultError, write_json

finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)


def record(values: list[float], burn_in: int) -> Recorder:
    recorder = Recorder()
    recorder.series("loss", "1")
    for number in recorder.steps(len(values), burn_in):
        recorder.step(loss=values[number])
    return recorder


@given(st.lists(finite, min_size=1, max_size=30), st.data())
def test_the_mean_is_over_all_steps_after_the_burn_in(
    values: list[float], data: st.DataObject
) -> None:
    burn_in = data.draw(st.integers(0, len(values) - 1))
    recorder = record(values, burn_in)
    kept = values[burn_in:]
    assert recorder.mean("loss") == math.fsum(kept) / len(kept)
    document = recorder.document()
    assert document["series"]["loss"] == {"unit": "1", "values": values}
    assert document["facts"]["burn_in"] == burn_in


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=150), st.data())
def test_the_spread_of_a_run_is_that_of_its_steps_after_the_burn_in(
    values: list[float], data: st.DataObject
) -> None:
    burn_in = data.draw(st.integers(0, len(values) - 1))
    recorder, kept = record(values, burn_in), values[burn_in:]
    if len(kept) < 2:
        assert recorder.sd("loss") is None
    else:
        assert recorder.sd("loss") == pytest.approx(statistics.stdev(kept), rel=1e-6, abs=1e-9)
    tail = recorder.tail_ratio("loss")
    assert (tail is None) == (len(kept) < 100)
    if tail is not None:
        low = statistics.median_low(kept)
        beyond = sum(value > low * tail * (1 + 1e-12) for value in kept)
        assert beyond <= len(kept) // 100
        assert record([3 * value for value in values], burn_in).tail_ratio("loss") == pytest.approx(
            tail
        )


def test_steps_that_took_no_time_have_no_tail_ratio() -> None:
    assert record([0.0] * 200, 0).tail_ratio("loss") is None


@pytest.mark.parametrize(
    ("burn_in", "phases"),
    [
        (0, ["start", "steady state", "end"]),
        (1, ["start", "first step", "steady state", "end"]),
        (2, ["start", "first step", "burn-in", "steady state", "end"]),
    ],
)
def test_each_step_belongs_to_a_phase(burn_in: int, phases: list[str]) -> None:
    assert list(record([1.0] * 4, burn_in).phases()) == phases


def test_no_time_is_lost_between_the_steps() -> None:
    recorder = Recorder()
    working = 0.0
    began = time.perf_counter()
    for _ in recorder.steps(200, burn_in=0):
        work_began = time.perf_counter()
        sum(range(500))
        working += time.perf_counter() - work_began
        recorder.step()
    passed = time.perf_counter() - began
    assert working < sum(recorder.document()["series"]["step_time"]["values"]) < passed


def test_what_is_done_aside_is_in_no_step() -> None:
    recorder = Recorder()
    recorder.series("accuracy", "1")
    began = time.perf_counter()
    for number in recorder.steps(20, burn_in=5):
        recorder.step()
        with recorder.aside("evaluation"):
            sum(range(20_000))
            recorder.add(accuracy=number / 20)
    passed = time.perf_counter() - began
    phases = recorder.phases()
    assert list(phases) == ["start", "first step", "evaluation", "burn-in", "steady state", "end"]
    assert recorder.time_in_steps() + phases["evaluation"] < passed
    assert recorder.time_in_steps() < phases["evaluation"]
    series = recorder.document()["series"]
    assert series["accuracy"] == {"unit": "1", "values": [number / 20 for number in range(20)]}
    assert len(series["step_time"]["values"]) == 20


def test_time_before_the_program_counts() -> None:
    recorder = Recorder(elapsed_seconds=100.0)
    for _ in recorder.steps(1, burn_in=0):
        recorder.step()
    assert recorder.phases()["start"] >= 100
    assert 100 < recorder.time_to_first_step() < 110


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """A folder with the recorder and nothing else."""
    (tmp_path / "recorder.py").write_bytes(read_payload_files()["recorder.py"])
    return tmp_path


def run(program: str, directory: Path) -> None:
    argv = [sys.executable, "-S", "-c", program]
    subprocess.run(argv, check=True, cwd=directory, timeout=60)


def test_any_program_can_import_the_one_file(alone: Path) -> None:
    program = """
from recorder import Recorder
recorder = Recorder()
for _ in recorder.steps(3, burn_in=1):
    recorder.step()
recorder.write("result.json")
"""
    run(program, alone)
    document = json.loads((alone / "result.json").read_bytes())
    assert len(document["series"]["step_time"]["values"]) == 3


def test_nothing_is_read_or_written_inside_the_steps(alone: Path) -> None:
    program = """
import sys
from recorder import Recorder
events = []
recorder = Recorder()
recorder.series("loss", "1")
sys.addaudithook(lambda event, arguments: events.append(event))
for number in recorder.steps(1000, burn_in=10):
    recorder.step(loss=number)
assert events == [], events
recorder.write("result.json")
assert "open" in events and "os.rename" in events, events
"""
    run(program, alone)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_refused(tmp_path: Path, value: float) -> None:
    metric, series = record([1.0], 0), record([1.0, 2.0, value], 0)
    metric.metric("accuracy", value, "1")
    for recorder, message in ((metric, "accuracy is"), (series, "loss is not finite at step 2")):
        with pytest.raises(ResultError, match=message):
            recorder.write(str(tmp_path / "result.json"))
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_json(str(path), {"old": 1})
    for impossible in ({"new": math.nan}, {"new": object()}):
        with pytest.raises((TypeError, ValueError)):
            write_json(str(path), impossible)
    assert json.loads(path.read_bytes()) == {"old": 1}
