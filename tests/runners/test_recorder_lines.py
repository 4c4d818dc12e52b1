"""The recorder in users' loops: loaders, epochs, and what a program leaves that is not done."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.payload import read_payload_files
from runners.payload.recorder import Recorder, ResultError
from runners.workloads import SanityError
from runners.workloads.reports import read_partial_series, read_report

REPORT = "tare-result.json"


def run(folder: Path, program: str, code: int = 0, **variables: str) -> str:
    """Run `program` in `folder`, beside the recorder, and return all that it printed."""
    (folder / "tare.py").write_bytes(read_payload_files()["recorder.py"])
    argv = [sys.executable, "-S", "-c", "from tare import Recorder\n" + program]
    environ = {name: os.environ[name] for name in ("PATH",)} | variables
    done = subprocess.run(
        argv, cwd=folder, env=environ, timeout=60, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert done.returncode == code, done.stdout
    return done.stdout.decode()


def left(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.json*")}


def test_a_loader_is_gone_through_and_a_pass_without_step_ends_by_itself() -> None:
    recorder = Recorder()
    assert list(recorder.steps(iter("abc"))) == ["a", "b", "c"]
    assert len(recorder.document()["series"]["step_time"]["values"]) == 3


def test_epochs_go_on_counting_and_what_lies_between_is_in_no_step() -> None:
    recorder = Recorder()
    for _ in range(2):
        for number in recorder.steps(3, burn_in=4):
            recorder.step(loss=number)
        sum(range(200_000))
    recorder.phase("evaluation")
    document = recorder.document()
    assert document["series"]["loss"]["values"] == [0, 1, 2, 0, 1, 2]
    assert recorder.mean("loss") == 1.5
    assert {"first step", "burn-in", "steady state", "end"} <= document["phases"].keys()
    assert recorder.time_in_steps() < document["phases"]["end"]


def test_a_loop_that_is_left_early_is_at_its_end() -> None:
    recorder = Recorder()
    for number in recorder.steps(10):
        recorder.step(loss=number)
        if number == 3:
            break
    assert list(recorder.phases())[-1] == "end"


def test_what_is_no_number_is_named() -> None:
    recorder = Recorder()
    with pytest.raises(ResultError, match="accuracy is 'high'"):
        recorder.metric("accuracy", "high")  # type: ignore[arg-type]


def test_alone_it_leaves_one_file_and_prints_nothing(tmp_path: Path) -> None:
    program = (
        "with Recorder() as recorder:\n    for _ in recorder.steps(3): recorder.step(loss=1)\n"
    )
    assert run(tmp_path, program) == ""
    assert set(left(tmp_path)) == {REPORT}
    assert read_report(left(tmp_path), REPORT, {})["series"]["loss"]["values"] == [1, 1, 1]


def test_without_write_and_awaited_the_lines_stay(tmp_path: Path) -> None:
    program = (
        "recorder = Recorder()\nfor n in recorder.steps(5): recorder.step(loss=n)\n"
        "recorder.metric('a', 2, 's')\nraise SystemExit(3)\n"
    )
    run(tmp_path, program, code=3, TARE_RESULT=str(tmp_path / REPORT), TARE_BURN_IN="2")
    document = read_report(left(tmp_path), REPORT, {})
    assert document["series"]["loss"]["values"] == [0, 1, 2, 3, 4]
    assert document["metrics"] == {"a": {"value": 2.0, "unit": "s"}}
    assert document["facts"]["burn_in"] == 2


def test_what_is_written_again_and_again_is_read_once(tmp_path: Path) -> None:
    """A program that writes after each epoch, and is ended in the middle of one."""
    program = """
import tare
recorder = Recorder()
for epoch in range(3):
    for n in recorder.steps(2): recorder.step(loss=epoch)
    if epoch < 2: recorder.write()
recorder.save()
import os; os._exit(9)
"""
    run(tmp_path, program, code=9)
    assert set(left(tmp_path)) == {REPORT, REPORT + "l"}
    assert read_partial_series(left(tmp_path), REPORT, {})["loss"] == ("1", [0, 0, 1, 1, 2, 2])


def test_a_place_that_cannot_be_written_ends_no_program(tmp_path: Path) -> None:
    run(
        tmp_path,
        "recorder = Recorder()\nfor n in recorder.steps(5): recorder.step()\n",
        TARE_RESULT=str(tmp_path / "no" / "such" / "folder.json"),
    )


def test_numbers_that_are_not_finite_end_a_series_that_is_looked_at(tmp_path: Path) -> None:
    recorder = Recorder(path=str(tmp_path / REPORT))
    for value in (1.0, 2.0, float("nan"), 3.0):
        recorder.step(loss=value)
    recorder.save()
    assert read_partial_series(left(tmp_path), REPORT, {})["loss"] == ("1", [1.0, 2.0])
    assert b"NaN" not in left(tmp_path)[REPORT + "l"]


@given(st.binary(max_size=200), st.integers(0, 200))
def test_whatever_was_left_is_read_or_refused_in_words(noise: bytes, cut: int) -> None:
    lines = (
        b'{"step": {"step_time": 0.5}}\n{"metric": "a", "value": 1}\n{"phase": "x", "seconds": 1}\n'
    )
    for content in (noise, lines[:cut], lines[:cut] + noise):
        series = read_partial_series({REPORT: content}, REPORT, {})
        assert all(isinstance(value, float) for _, values in series.values() for value in values)
        with suppress(SanityError):
            read_report({REPORT: content}, REPORT, {})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 of tare-result.json is not one of a report: the result is not JSON"),
        ("[1]", "a JSON list, not an object"),
        ('{"loss": 1}', "it has none of facts, metric, phase, phases, series, step"),
        ('{"step": 1}', "a step is a table"),
        ('{"metric": ""}', "'' is no name"),
        ('{"phase": "x", "seconds": "1"}', "the length of the phase 'x' is '1'"),
        ('{"series": "a", "from": 2, "values": [1]}', "'a' goes on at 2, and has 0 values so far"),
    ],
)
def test_a_line_that_is_none_is_named(line: str, message: str) -> None:
    content = json.dumps({"metric": "a", "value": 1}) + "\n" + line + "\n"
    with pytest.raises(SanityError) as refusal:
        read_report({REPORT: content.encode()}, REPORT, {})
    assert message in str(refusal.value)


@pytest.mark.parametrize("part", ["metrics", "series", "phases"])
@pytest.mark.parametrize("name", ["a\0b", "x" * 101, ""])
def test_a_name_that_no_row_could_hold_is_refused(part: str, name: str) -> None:
    entry = {"metrics": {"value": 1}, "series": {"values": [1]}, "phases": 1}[part]
    document = json.dumps({"schema": 1, part: {name: entry}}).encode()
    with pytest.raises(SanityError, match="is no name"):
        read_report({REPORT: document}, REPORT, {})
    assert read_partial_series({REPORT: document}, REPORT, {}) == {}
