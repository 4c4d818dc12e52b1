"""Logs of tf_cnn_benchmarks: what is read, and what is refused by its file and line."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.imports import ImportProblem, LoggedRun, list_files, read_logs, tf_cnn
from experiments.imports.layout import (
    Position,
    arrange,
    find_tool,
    list_choices,
    list_positions,
    suggest_position,
)
from runners.workloads.running_rates import compute_seconds_per_step, join_whole_intervals
from tests import tf_cnn_logs as logs

FOLDER = "udocker/resnet50_1_gpu/1"


def read(tree: logs.Tree) -> list[LoggedRun]:
    return read_logs(list_files(logs.as_zip(tree))).runs


def one(tree: logs.Tree) -> LoggedRun:
    (found,) = read(tree)
    return found


def problem(tree: logs.Tree) -> str:
    with pytest.raises(ImportProblem) as caught:
        read(tree)
    return str(caught.value)


def with_lines(change: Any) -> dict[str, str]:
    """A run whose metric.log went through `change`, a function of its lines."""
    tree = dict(logs.run(FOLDER))
    lines = tree[f"{FOLDER}/metric.log"].splitlines()
    tree[f"{FOLDER}/metric.log"] = "".join(f"{line}\n" for line in change(lines))
    return tree


def altered(number: int, **values: Any) -> dict[str, str]:
    """A run with other values in one line of its metric.log, counted from 1."""

    def change(lines: list[str]) -> list[str]:
        lines[number - 1] = json.dumps(json.loads(lines[number - 1]) | values)
        return lines

    return with_lines(change)


@given(
    gaps=st.lists(st.integers(1, 1000), min_size=1, max_size=50),
    data=st.data(),
    batch=st.integers(1, 10_000),
)
def test_taking_the_mean_apart_gives_the_times_that_went_into_it(
    gaps: list[int], data: st.DataObject, batch: int
) -> None:
    steps = [sum(gaps[: index + 1]) for index in range(len(gaps))]
    times = data.draw(st.lists(st.floats(0.05, 5), min_size=len(steps), max_size=len(steps)))
    found = compute_seconds_per_step(steps, logs.cumulated(steps, times, batch), batch)
    # A difference of sums is known to a rounding error of the sums.
    for step, gap, time, back in zip(steps, gaps, times, found, strict=True):
        assert back == pytest.approx(time, rel=1e-9 * max(1, step / gap / 1000))


def test_the_logged_speed_is_a_mean_since_the_first_step() -> None:
    rates = logs.cumulated([1, 10, 20], [2.0, 1.0, 0.5], 64)
    assert compute_seconds_per_step([1, 10, 20], rates, 64) == pytest.approx([2.0, 1.0, 0.5])
    assert rates[-1] < 64 / 0.5 / 1.3  # read as the speed at that step it would be far off


@pytest.mark.parametrize(
    ("steps", "times", "intervals", "means"),
    [
        ([1, 10, 20, 30], [10.0, 1, 2, 3], [10, 20, 30], [1.9, 2, 3]),
        ([10, 20, 30], [1.0, 2, 3], [10, 20, 30], [1.0, 2, 3]),
        ([1, 2, 3], [1.0, 2, 3], [1, 2, 3], [1.0, 2, 3]),
        ([1, 10, 25], [1.0, 2, 3], [1, 10, 25], [1.0, 2, 3]),
        ([1, 10], [1.0, 2], [1, 10], [1.0, 2]),
        ([], [], [], []),
    ],
)
def test_the_first_step_is_part_of_the_first_interval(
    steps: list[int], times: list[float], intervals: list[int], means: list[float]
) -> None:
    assert join_whole_intervals(steps, times) == (intervals, pytest.approx(means))


def test_a_run_is_read() -> None:
    run = one(logs.run(FOLDER, time=0.5, gpus=2, visible=4))
    assert run.scale == "1x2"
    assert run.workload == {
        "model": "resnet50",
        "dataset": "imagenet (synthetic)",
        "mode": "training",
        "batch_size_per_device": 64,
        "num_batches": 30,
        "data_format": "NCHW",
        "optimizer": "sgd",
    }
    assert run.measurements == pytest.approx(
        {
            "wall_images_per_second": 0.99 * 128 / 0.5,
            "step_images_per_second": 256.0,
            "step_time": 0.5,
            "time_to_first_step": 60.5,
            "loss": 7.7,
            "top_1_accuracy": 0.25,
            "top_5_accuracy": 0.5,
            "evaluation_images_per_second": 384.0,
        }
    )
    assert list(run.steps) == [1, 10, 20, 30]
    assert list(run.intervals) == [10, 20, 30]
    assert run.step_times == pytest.approx([0.5] * 3)
    assert list(run.losses) == [7.99, 7.9, 7.8, 7.7]
    assert run.began_at == logs.NOON
    assert run.ended_at == logs.NOON + timedelta(seconds=95)
    assert run.phases == pytest.approx({"first step": 60.5, "training": 15.5, "evaluation": 19})
    assert not run.reason


def test_the_snapshot_holds_what_the_log_says_of_the_machine() -> None:
    tree = dict(logs.run(FOLDER, visible=2))
    tree[f"{FOLDER}/eval.log"] = logs.benchmark(visible=4)
    inside = one(tree).snapshot["inside"]
    assert inside["packages"] == {"tensorflow": "1.10.0"}
    assert (inside["gpus_visible"], inside["gpus_visible_in_evaluation"]) == (2, 4)
    assert (inside["cpu"], inside["cpu_cores"], inside["gpu_model"]) == ("Xeon", 32, "Tesla K80")
    assert inside["day"] == "2019-03-25"
    assert inside["threads"] == {"intra_op": "1", "inter_op": "28"}
    assert inside["tensorflow_variables"] == {"TF_GPU_THREAD_COUNT": "2"}


def test_a_log_without_date_evaluation_and_machine_is_read_as_far_as_it_goes() -> None:
    document = json.loads(logs.benchmark(began=None))
    kept = {name: document[name] for name in ("run_parameters",)}
    lines = [line | {"timestamp": None} for line in logs.metric_lines(accuracy=None)]
    run = one(
        {
            f"{FOLDER}/benchmark.log": json.dumps(kept),
            f"{FOLDER}/metric.log": "".join(json.dumps(line) + "\n" for line in lines),
        }
    )
    assert run.began_at is None
    assert run.ended_at is None
    assert set(run.measurements) == {
        "wall_images_per_second",
        "step_images_per_second",
        "step_time",
        "loss",
    }


def test_a_standard_output_is_read() -> None:
    run = one({"udocker/resnet50/1.txt": logs.output()})
    assert run.parts == ("udocker", "resnet50", "1")
    assert run.scale == "1x1"
    assert run.measurements["wall_images_per_second"] == 127.5
    assert run.measurements["step_images_per_second"] == 128.0
    assert run.measurements["step_time"] == pytest.approx(0.5)
    assert run.snapshot["inside"]["packages"] == {"tensorflow": "1.12"}
    assert run.began_at is None
    assert "total images/sec: 127.50" in run.tail


def test_coarse_digits_give_no_step_trace() -> None:
    fine = one({"a/1.txt": logs.output(rates=[1280.0, 1280.3, 1280.1, 1280.2], total=1279)})
    coarse = one({"a/1.txt": logs.output(rates=[12.8, 12.9, 12.8, 12.8], total=12.7)})
    assert len(fine.step_times) == 3
    assert len(coarse.step_times) == 0
    assert list(coarse.losses) == [7.9] * 4
    assert coarse.measurements["wall_images_per_second"] == 12.7


def test_a_printed_output_beside_the_logs_is_the_tail_of_its_run() -> None:
    tree = dict(logs.run(FOLDER)) | {f"{FOLDER}/stdout.txt": logs.output()}
    assert "Done warm up" in one(tree).tail


def test_what_is_no_log_is_counted_and_left_out() -> None:
    tree = dict(logs.run(FOLDER)) | {
        "README.md": "images/sec: 5",
        "notes.txt": "nothing of interest",
        "__MACOSX/._benchmark.log": "\0",
    }
    found = read_logs(list_files(logs.as_zip(tree)))
    assert (len(found.runs), found.left_out) == (1, 3)


@pytest.mark.parametrize(
    ("tree", "reason", "words"),
    [
        (with_lines(lambda lines: lines[:3]), "unfinished", "ends after step 20 of 30"),
        (
            altered(3, extras=[{"name": "loss", "value": "nan"}]),
            "loss is not a number",
            "metric.log, line 3",
        ),
        (
            altered(3, extras=[{"name": "loss", "value": "1e200"}]),
            "loss is not a number",
            "metric.log, line 3",
        ),
        ({f"{FOLDER}/benchmark.log": logs.benchmark()}, "no metrics", "metric.log is missing"),
        (
            {"a/1.txt": logs.output(total=None)},
            "unfinished",
            "1.txt ends after step 30 of 30, without the mean",
        ),
        ({"a/1.txt": logs.output(loss="nan")}, "loss is not a number", "1.txt, line 17"),
    ],
    ids=["cut short", "NaN", "loss of 1e200", "no metrics", "output cut short", "NaN printed"],
)
def test_a_run_that_did_not_end_well_has_failed(tree: Any, reason: str, words: str) -> None:
    run = one(tree)
    assert run.reason == reason
    assert words in run.message
    assert run.measurements == {}


def test_a_half_written_last_line_is_a_run_that_died() -> None:
    tree = dict(logs.run(FOLDER))
    whole = tree[f"{FOLDER}/metric.log"]
    tree[f"{FOLDER}/metric.log"] = whole[: whole.index("average_examples") + 30]
    run = one(tree)
    assert (run.reason, run.measurements) == ("log cut off", {})
    assert run.message == f"{FOLDER}/metric.log, line 5: the line has no end."


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (
            with_lines(lambda lines: [*lines[:2], "{half", *lines[2:]]),
            "metric.log, line 3: this is",
        ),
        (with_lines(lambda lines: ["[1]", *lines]), "line 1: this is not a JSON object"),
        (altered(2, value=math.nan), "line 2: current_examples_per_sec is nan"),
        (altered(2, value=math.inf), "line 2: current_examples_per_sec is inf"),
        (altered(2, value=1e200), "line 2: current_examples_per_sec is 1e+200, more than is"),
        (altered(2, value=-3), "line 2: current_examples_per_sec is -3; a speed"),
        (altered(2, value="fast"), "line 2: current_examples_per_sec is 'fast', not a number"),
        (altered(2, value=True), "line 2: current_examples_per_sec is True"),
        (altered(2, global_step="ten"), "line 2: the step is 'ten'"),
        (altered(3, global_step=5), "line 3: step 5 after step 10"),
        (altered(2, extras=[{"name": "loss", "value": "low"}]), "line 2: the loss is 'low'"),
        (altered(2, timestamp="yesterday"), "line 2: 'yesterday' is not a time"),
        (altered(2, timestamp="0001-01-01T00:00:00Z"), "line 2: the year 1 is not"),
        (with_lines(lambda lines: lines + lines), "line 9: step 1 after step 30"),
        (with_lines(lambda lines: [*lines, lines[4]]), "line 9: a second average_examples_per_sec"),
        (altered(2, value=1.0), "the steps up to 20 took -"),
        ({f"{FOLDER}/metric.log": logs.metric()}, "metric.log has no benchmark.log beside it"),
        ({"a/b.txt": logs.output() + logs.output()}, "b.txt, line 40: a second run begins here"),
        ({"a/b.txt": logs.output(rates=[0.0] * 4)}, "b.txt, line 17: images/sec is 0.0"),
        ({"README": "x"}, "No run of tf_cnn_benchmarks was found"),
    ],
)
def test_what_cannot_be_true_is_refused_at_its_line(tree: Any, words: str) -> None:
    assert words in problem(tree)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"batch_size": 100}, "the batch size is 100, but 2 devices with 64 each make 128."),
        ({"batch_size": 0}, "the batch size is 0; it must be above zero"),
        ({"batch_size": None}, "the batch size is None"),
        ({"batch_size": "64"}, "the batch size is '64'"),
        ({"batch_size": math.nan}, "the batch size is"),
        ({"devices": None}, "does not say on which devices it ran"),
        (
            {"batch_size": 1280, "batch_size_per_device": 640.0},
            "with a batch size of 1280 the steps 1 to 30 take 145 s; its time stamps say 14 s",
        ),
    ],
)
def test_a_wrong_batch_size_is_refused(parameters: dict[str, Any], words: str) -> None:
    tree = dict(logs.run(FOLDER, gpus=2)) | {
        f"{FOLDER}/benchmark.log": logs.benchmark(gpus=2, **parameters)
    }
    assert words in problem(tree)


def test_two_runs_in_one_benchmark_log_are_refused() -> None:
    tree = dict(logs.run(FOLDER))
    tree[f"{FOLDER}/benchmark.log"] *= 2
    assert problem(tree) == (
        f"{FOLDER}/benchmark.log, line 2: a second run begins here; a file holds one run."
    )


@given(content=st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_whatever_lies_in_a_log_is_read_or_refused(content: bytes) -> None:
    tree = {f"{FOLDER}/benchmark.log": logs.benchmark(), f"{FOLDER}/metric.log": ""}
    archive = logs.as_zip(tree)
    for name in ("benchmark.log", "metric.log", "eval.log", "out.txt"):
        tree = dict(logs.run(FOLDER))
        tree[f"{FOLDER}/{name}"] = content.decode("latin-1")
        archive = logs.as_zip(tree)
        with suppress(ImportProblem):
            for run in read_logs(list_files(archive)).runs:
                json.dumps(run.snapshot, allow_nan=False)
                assert "\0" not in run.tail


def test_a_folder_a_zip_and_a_tar_of_the_same_logs_are_the_same(tmp_path: Path) -> None:
    tree = logs.runs()
    inner = {path.removeprefix("results/"): content for path, content in tree.items()}
    hashes = {
        read_logs(list_files(source)).sha256
        for source in (
            logs.as_folder(tree, tmp_path),
            logs.as_zip(tree),
            logs.as_zip(inner),
            logs.as_tar(tree),
            logs.as_tar(dict(reversed(tree.items())), mode="w"),
        )
    }
    assert len(hashes) == 1
    other = tree | {"results/udocker/synthetic_resnet50_1_gpu/1/metric.log": logs.metric(time=0.6)}
    assert read_logs(list_files(logs.as_zip(other))).sha256 not in hashes


def test_the_paths_say_environment_configuration_and_repeat() -> None:
    runs = read(logs.runs())
    found = list_positions(runs)
    assert [(place.index, place.values) for place in found] == [
        (0, ("singularity", "udocker")),
        (1, ("synthetic_resnet50_1_gpu",)),
        (2, ("1", "2", "3")),
    ]
    place = suggest_position(found)
    assert place is not None
    assert place.index == 0
    placed = arrange(runs, place.index)
    assert {(one.environment, one.workload, one.scale) for one in placed} == {
        ("udocker", "synthetic_resnet50, batch 64", "1x1"),
        ("singularity", "synthetic_resnet50, batch 64", "1x1"),
    }
    assert sorted(one.repeat for one in placed) == [1, 1, 2, 2, 3, 3]


def test_other_parameters_are_another_workload_whatever_the_folder_says() -> None:
    tree = dict(logs.run("udocker/net/1")) | dict(logs.run("singularity/net/1", batch=32))
    placed = arrange(read(tree), 0)
    assert {one.workload for one in placed} == {"net, batch 64", "net, batch 32"}
    tree = dict(logs.run("udocker/net/1")) | dict(logs.run("singularity/net/1", model="alexnet"))
    placed = arrange(read(tree), 0)
    assert {one.workload for one in placed} == {"net, batch 64, resnet50", "net, batch 64, alexnet"}


def test_scales_of_one_folder_name_are_one_workload() -> None:
    tree: dict[str, str] = {}
    for gpus in (1, 2, 4):
        for environment in ("udocker", "singularity"):
            tree |= logs.run(f"{environment}/alexnet_{gpus}_gpu/1", gpus=gpus)
    placed = arrange(read(tree), 0)
    assert {one.workload for one in placed} == {"alexnet, batch 64"}
    assert {one.scale for one in placed} == {"1x1", "1x2", "1x4"}


@pytest.mark.parametrize(
    ("names", "repeats"),
    [
        (("1", "2", "10"), [1, 2, 10]),
        (("run1", "run2", "run10"), [1, 2, 10]),
        (("0", "1", "2"), [1, 2, 3]),  # repeats are counted from 1
        (("20190325", "20190326"), [1, 2]),  # dates
    ],
)
def test_repeats_keep_the_numbers_of_their_folders(names: Any, repeats: list[int]) -> None:
    tree: dict[str, str] = {}
    for name in names:
        for environment in ("udocker", "singularity"):
            tree |= logs.run(f"{environment}/net/{name}")
    placed = arrange(read(tree), 0)
    assert {one.workload for one in placed} == {"net, batch 64"}
    found = {one.run.path: one.repeat for one in placed}
    assert [found[f"udocker/net/{name}"] for name in names] == repeats


def test_a_repeat_that_occurs_twice_is_counted_anew() -> None:
    """Two folders of one configuration, 1 and 2 GPUs by their names, but one by their logs."""
    tree: dict[str, str] = {}
    for folder in ("net_1_gpu", "net_2_gpu"):
        for environment in ("udocker", "singularity"):
            tree |= logs.run(f"{environment}/{folder}/1")
    placed = arrange(read(tree), 0)
    assert {one.scale for one in placed} == {"1x1"}
    assert sorted(one.repeat for one in placed) == [1, 1, 2, 2]


def test_a_crowd_is_no_environment() -> None:
    crowd = Position(0, tuple(f"udocker{number}" for number in range(31)))
    models = Position(1, ("alexnet", "resnet"))
    repeats = Position(2, ("1", "2"))
    assert suggest_position([crowd, models, repeats]) == models
    assert suggest_position([crowd, repeats]) is None
    assert list_choices([crowd, models, repeats]) == [models, repeats]


def test_too_many_runs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf_cnn, "MOST_RUNS", 5)
    assert problem(logs.runs()) == "There are 6 runs; import at most 5 at once."


def test_paths_of_different_depth_are_refused() -> None:
    tree = dict(logs.run("udocker/net/1")) | dict(logs.run("singularity/net"))
    with pytest.raises(ImportProblem, match="are not equally deep"):
        list_positions(read(tree))


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("lsdf_udocker_500batch", "udocker"),
        ("docker", "Docker"),
        ("LSDF_Singularity", "Singularity"),
        ("bare-metal", "bare metal"),
        ("conda", "not known"),
    ],
)
def test_a_folder_s_name_may_speak_of_its_tool(name: str, tool: str) -> None:
    assert find_tool(name) == tool
