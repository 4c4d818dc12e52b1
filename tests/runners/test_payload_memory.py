"""Memory of real processes that allocate a known amount, alone, as children and together."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runners.payload import memory
from runners.records import read_record
from runners.run_measures import MARKS, MARKS_AND_TREE, measure_host_memory
from runners.workloads import WORKLOADS
from tests.runners.payload_runs import run_payload

MIB = 2**20
SIZE = 96 * MIB
INTERPRETER = 40 * MIB
"""More than a Python that does nothing holds."""
HOLD = "import sys; block = b'x' * int(sys.argv[1])"


def hold(size: int) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", HOLD, str(size)]


def run_command(tmp_path: Path, *argv: str) -> Any:
    parameters = WORKLOADS["command"].clean({"argv": list(argv), "read": "nothing"})
    ran = run_payload(tmp_path, "command", parameters)
    assert ran.returncode == 0, ran.stderr
    return ran.inside["memory"]


def test_the_mark_of_a_process_keeps_what_it_has_given_back() -> None:
    script = (
        "from runners.payload import memory\n"
        "before = memory.measure_own_peak()\n"
        f"block = b'x' * {SIZE}\n"
        "del block\n"
        "print(memory.measure_own_peak() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    # The kernel adds up a few pages late, so that both readings may be some kB too small.
    assert SIZE - MIB < int(done.stdout) < SIZE + 8 * MIB


def test_a_child_of_a_known_size_is_measured(tmp_path: Path) -> None:
    account = run_command(tmp_path, *hold(SIZE))
    assert SIZE <= account["child_bytes"] < SIZE + INTERPRETER
    assert 0 < account["own_bytes"] < INTERPRETER
    measure = measure_host_memory({"": account})
    assert SIZE < measure.value < SIZE + 2 * INTERPRETER
    assert measure.source == (MARKS_AND_TREE if account["samples"] else MARKS)


def test_a_grandchild_of_a_known_size_is_measured(tmp_path: Path) -> None:
    account = run_command(tmp_path, "/bin/sh", "-c", '"$@"; exit 0', "sh", *hold(SIZE))
    assert SIZE <= account["child_bytes"] < SIZE + INTERPRETER


def test_a_child_from_before_the_program_counts_only_if_a_larger_one_came() -> None:
    subprocess.run(hold(SIZE), check=True)
    before = memory.measure_largest_child()
    assert before >= SIZE
    subprocess.run(hold(MIB), check=True)
    assert memory.describe_memory(before)["child_bytes"] == 0
    subprocess.run(hold(before + 8 * MIB), check=True)
    assert memory.describe_memory(before)["child_bytes"] >= before + 8 * MIB


def test_processes_that_run_at_once_are_added_up() -> None:
    script = f"{HOLD}; print('held', flush=True); sys.stdin.read()"
    children = [
        subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", script, str(SIZE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    try:
        for child in children:
            assert child.stdout
            child.stdout.readline()
        sizes = memory.measure_tree(os.getpid())
        held = sorted(sizes)[-4:]
        assert sum(size >= SIZE for size in held) >= 3
        assert sum(held) >= 3 * SIZE
        assert sum(memory.measure_tree(children[0].pid)) < SIZE + INTERPRETER
    finally:
        for child in children:
            child.communicate()


def test_a_tree_that_ends_meanwhile_is_no_error() -> None:
    with subprocess.Popen(["sleep", "100"]) as child:
        os.kill(child.pid, signal.SIGKILL)
    assert memory.measure_tree(child.pid) == []


def test_the_tree_is_sampled_at_a_cost_of_less_than_a_thousandth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    clock = iter(range(100))

    class Enough(Exception):
        pass

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 8:
            raise Enough

    monkeypatch.setattr(memory.time, "sleep", sleep)
    monkeypatch.setattr(memory.time, "perf_counter", lambda: float(next(clock)))
    tree = memory.Tree()
    with pytest.raises(Enough):
        tree._sample()
    # By this clock each sample takes a second.
    first = len(memory.FIRST_PAUSES)
    assert slept == [*memory.FIRST_PAUSES, *[memory.PAUSES] * (8 - first)]
    described = tree.describe()
    later = described["sampling_seconds"] - first
    assert later / sum(slept[first:]) < 0.001
    assert (described["samples"], described["processes"] >= 1) == (7, True)


def test_a_program_of_less_than_a_second_is_sampled() -> None:
    moments = list(itertools.accumulate(memory.FIRST_PAUSES))
    assert moments == pytest.approx([0.05, 0.1, 0.2, 0.5, 1.0])


def test_a_kernel_that_tells_no_children_leaves_marks_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "CHILDREN", "/proc/%d/task/%s/none")
    tree = memory.Tree()
    tree.begin()
    assert tree.describe() == {}
    account = {**memory.describe_memory(0), **tree.describe()}
    assert measure_host_memory({"": account}).source == MARKS


def test_the_account_is_no_fact_of_the_snapshot_and_every_process_has_one() -> None:
    inside = b'{"cpu": "EPYC", "memory": {"own_bytes": 7}}'
    silent = b'{"cpu": "EPYC"}'
    files = {
        "runs/0-a/inside.json": inside,
        "runs/0-a/rank-0/exit_code": b"0\n",
        "runs/0-a/rank-1/inside.json": inside,
        "runs/0-a/rank-2/exit_code": b"0\n",
        "runs/1-b/instance-0/inside.json": inside,
        "runs/1-b/instance-1/inside.json": silent,
        "runs/2-c/inside.json": silent,
        "runs/3-d/command": b"x",
    }
    runs = read_record(files).runs
    assert runs["a"].memory == {"": {"own_bytes": 7}, "rank 1": {"own_bytes": 7}, "rank 2": {}}
    assert runs["b"].memory == {"instance 0": {"own_bytes": 7}, "instance 1": {}}
    assert runs["c"].memory == {"": {}}
    assert runs["d"].memory == {}
    for run in runs.values():
        assert "memory" not in run.snapshot
        assert all("memory" not in other for other in run.others.values())


def test_every_workload_leaves_an_account(tmp_path: Path) -> None:
    small = WORKLOADS["blas"].clean(
        {"matrix_size": 16, "decomposition_size": 8, "steps": 3, "burn_in": 1}
    )
    account = run_payload(tmp_path, "blas", small).inside["memory"]
    assert account["own_bytes"] > 5 * MIB
    assert measure_host_memory({"": account}).value >= account["own_bytes"]
