"""Checkpoints: what is read back, what is passed over, and a training that goes over three jobs."""

from __future__ import annotations

import json
import os
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runners.payload.place import RunProcess, find_process
from runners.payload.recorder import AFTER_RESUME, RESUMED_STEP_TIME, Recorder
from runners.payload.resumed import ResumableRecorder
from runners.payload.training.checkpoints import (
    FOLDER,
    SEGMENT_FILE,
    find_checkpoint,
    list_described,
    remove_older,
    write_checkpoint,
)
from runners.payload.training.datasets import Arrays
from runners.payload.training.small_images import Split
from runners.workloads import WORKLOADS
from tests.runners.payload_runs import IN_A_HURRY, Ran, left, run_payload

CNN = WORKLOADS["cnn"]


def saved(directory: Path, *steps: int) -> str:
    """Write a checkpoint at each of these steps, with the step as its only variable."""
    folder = directory / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for step in steps:
        arrays = [numpy.full(3, step, "float32")]
        write_checkpoint(str(folder), step, arrays, {"step": step}, time.perf_counter())
    return str(directory)


def found_step(*directories: str) -> tuple[int | None, list[str]]:
    passed_over: list[str] = []
    found = find_checkpoint(directories, passed_over)
    if found is None:
        return None, passed_over
    assert found.exported == {"step": found.step}
    assert found.arrays[0].tolist() == [found.step] * 3
    assert found.arrays[0].dtype == "float32"
    return found.step, passed_over


def test_the_last_checkpoint_of_the_latest_job_is_taken(tmp_path: Path) -> None:
    first, second = saved(tmp_path / "1", 5, 10), saved(tmp_path / "2", 15)
    assert found_step(second, first) == (15, [])
    assert found_step(first) == (10, [])


def test_a_job_that_was_killed_before_its_first_leaves_those_of_the_jobs_before(
    tmp_path: Path,
) -> None:
    (tmp_path / "2").mkdir()
    gone = str(tmp_path / "3")
    assert found_step(gone, str(tmp_path / "2"), saved(tmp_path / "1", 5)) == (5, [])
    assert found_step(gone) == (None, [])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(
    tmp_path: Path, data: st.DataObject
) -> None:
    directory = saved(tmp_path, 5, 10)
    path = tmp_path / FOLDER / "step-10.npz"
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[place] ^= data.draw(st.integers(1, 255))
    else:
        del content[place:]
    path.write_bytes(bytes(content))
    step, passed_over = found_step(directory)
    assert step == 5
    assert len(passed_over) == 1
    assert passed_over[0].startswith("step-10.npz: it ")


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "7", '{"step": 10}', '{"step": 10, "bytes": "x", "sha256": 1}'),
        *("\x00", '{"bytes": NaN}', "{" * 5000),
    ],
)
def test_a_description_that_is_none_is_passed_over(tmp_path: Path, text: str) -> None:
    directory = saved(tmp_path, 5, 10)
    (tmp_path / FOLDER / "step-10.json").write_text(text)
    assert found_step(directory)[0] == 5
    (tmp_path / FOLDER / "step-10.json").write_bytes(b"\xff\xfe")
    assert found_step(directory)[0] == 5


def test_without_its_description_there_is_no_checkpoint(tmp_path: Path) -> None:
    """As after a kill between the two files."""
    directory = saved(tmp_path, 5, 10)
    os.unlink(tmp_path / FOLDER / "step-10.json")
    (tmp_path / FOLDER / "step-12.npz.part").write_bytes(b"half")
    assert found_step(directory) == (5, [])


def test_two_checkpoints_of_a_job_are_kept(tmp_path: Path) -> None:
    saved(tmp_path, *range(1, 12))
    remove_older(str(tmp_path / FOLDER))
    assert list(list_described(str(tmp_path / FOLDER))) == [11, 10]
    assert len(os.listdir(tmp_path / FOLDER)) == 4


# --- The numbers of several processes together


def record(recorder: Any, first: int, steps: int, warm_up: int) -> None:
    for number in recorder.steps(range(first, steps), warm_up):
        recorder.step(loss=float(number))


def adopted(elapsed: float = 1.0) -> ResumableRecorder:
    return ResumableRecorder.adopt(Recorder(elapsed, "container start"))


@given(
    cuts=st.lists(st.integers(1, 29), unique=True, max_size=4).map(sorted),
    warm_up=st.integers(0, 12),
)
def test_steps_are_counted_once_and_each_start_has_a_warm_up(cuts: list[int], warm_up: int) -> None:
    exported: dict[str, Any] = {}
    ends = [*cuts, 30]
    for first, end in zip([0, *cuts], ends, strict=True):
        recorder = adopted()
        if first:
            recorder.restore(json.loads(json.dumps(exported)))
        record(recorder, first, end, warm_up)
        exported = recorder.export()
    values = exported["values"]
    assert values["loss"] == list(range(30)), "in order, none twice"
    left_out = sum(min(warm_up, end - cut) for cut, end in pairwise([*cuts, 30]))
    assert len(values.get(RESUMED_STEP_TIME, [])) == left_out
    assert len(values["step_time"]) == 30 - left_out
    assert recorder.time_in_steps() == pytest.approx(
        sum(values["step_time"]) + sum(values.get(RESUMED_STEP_TIME, []))
    )
    assert exported["phases"]["container start"] == pytest.approx(len(ends), abs=0.5)
    assert exported["first_phases"]["container start"] == pytest.approx(1, abs=0.1)
    assert (exported["phases"].get(AFTER_RESUME, 0) > 0) == (left_out > 0)


def test_a_recorder_that_is_not_resumed_is_one_like_any_other() -> None:
    plain, resumable = Recorder(1.0), adopted()
    record(plain, 0, 5, 2)
    record(resumable, 0, 5, 2)
    one, other = plain.document(), resumable.document()
    assert one["series"].keys() == other["series"].keys()
    assert one["series"]["loss"] == other["series"]["loss"]


# --- The order of a data set


class Replicas:
    name, rank = "jax", 0

    def __init__(self, batch: int, replicas: int) -> None:
        self.replica_batch, self.replicas, self.local_replicas = batch, replicas, replicas


@settings(deadline=None)
@given(
    images=st.integers(4, 40),
    batch=st.integers(1, 2),
    replicas=st.integers(1, 2),
    first=st.integers(0, 60),
)
def test_the_order_of_images_goes_on_where_it_stopped(
    images: int, batch: int, replicas: int, first: int
) -> None:
    split = Split(
        numpy.arange(images, dtype="uint8")[:, None, None, None],
        numpy.arange(images, dtype="int32"),
    )
    data, backend = Arrays(split, split, image_size=0, augment=False), Replicas(batch, replicas)
    whole, rest = data.draw_batches(backend, 7), data.draw_batches(backend, 7, first)
    for _ in range(first * replicas):
        next(whole)
    for _ in range(12):
        assert next(whole)[1].tolist() == next(rest)[1].tolist()


# --- A training


def test_a_spec_without_segments_has_none() -> None:
    assert find_process({}, "/x", {}).segment is None
    assert RunProcess("/x").segment is None


SHORT: dict[str, object] = {
    "framework": "jax",
    "network": "mnist",  # it has dropout: what layers draw goes on, too
    "batch_size": 4,
    "steps": 4,
    "burn_in": 1,
    "schedule": "cosine",
    "optimizer": "adam",
    "epochs": 0,
    "evaluate_every": 2,
    "segments": 4,
}


def run_segment(directory: Path, number: int, *, most: int = 4, limit: float = 1e-3) -> Ran:
    """Run one job's part in a folder of its own; with such a limit it stops after each step."""
    earlier = [str(directory / str(n) / "runs" / "0-x") for n in range(number - 1, 0, -1)]
    segment = {"number": number, "most": most, "limit_seconds": limit, "earlier": earlier}
    parameters = CNN.clean(SHORT)
    return run_payload(
        directory / str(number), "cnn", parameters, variables=IN_A_HURRY, segment=segment
    )


def read_segment_file(directory: Path, number: int) -> dict[str, Any]:
    path = directory / str(number) / "runs" / "0-x" / SEGMENT_FILE
    described: dict[str, Any] = json.loads(path.read_text())
    return described


@pytest.mark.timeout(300)
def test_a_training_over_several_jobs_learns_bitwise_what_one_job_learns(tmp_path: Path) -> None:
    whole = run_payload(tmp_path / "whole", "cnn", CNN.clean(SHORT), variables=IN_A_HURRY)
    assert whole.result, whole.stderr
    for number in (1, 2):
        ran = run_segment(tmp_path, number)
        assert (ran.returncode, ran.result) == (75, None), ran.stderr
        assert f"job {number + 1} of at most 4 goes on" in ran.stderr
        assert ran.inside["segments"] == number
        assert ran.inside["memory"]
    last_checkpoint = tmp_path / "2" / "runs" / "0-x" / FOLDER / "step-2.npz"
    last_checkpoint.write_bytes(last_checkpoint.read_bytes()[:-1])
    ran = run_segment(tmp_path, 3, limit=0)
    assert ran.result, ran.stderr

    one, several = json.loads(whole.result), json.loads(ran.result)
    for name in ("loss", "learning_rate", "accuracy", "top_5_accuracy", "accuracy_step"):
        assert several["series"][name] == one["series"][name], name
    assert len(several["series"]["loss"]["values"]) == 4
    assert len(several["series"]["step_time"]["values"]) == 3
    assert len(several["series"][RESUMED_STEP_TIME]["values"]) == 1
    assert several["metrics"].keys() == one["metrics"].keys()
    assert {"checkpoint", "resume", AFTER_RESUME} <= several["phases"].keys()
    result = CNN.read(left(ran.result), CNN.clean(SHORT))
    in_steps = sum(sum(result.series[name][1]) for name in ("step_time", RESUMED_STEP_TIME))
    assert result.measurements["training_time"][0] == pytest.approx(in_steps, rel=0.05)

    described = [read_segment_file(tmp_path, number) for number in (1, 2, 3)]
    assert [part["ended"] for part in described] == ["unfinished", "unfinished", "finished"]
    assert [part["first_step"] for part in described] == [0, 1, 1], "the damaged one is passed over"
    assert [part["steps"] for part in described] == [1, 2, 4]
    (reason,) = described[2]["passed_over"]
    assert reason.startswith("step-2.npz: it has ")
    assert described[2]["restoring_seconds"] > 0
    assert described[0]["saving_seconds"] > 0


@pytest.mark.timeout(120)
def test_the_last_job_that_a_run_may_take_says_how_far_it_came(tmp_path: Path) -> None:
    ran = run_segment(tmp_path, 1, most=1)
    assert ran.returncode == 4
    assert "time limit reached: 1 of 4 steps were done in 1 jobs" in ran.stderr
