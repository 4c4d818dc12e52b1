"""Tests that share what is slow to make stay together, and every file that is named is there."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.processes import (
    LAB,
    LABS,
    ORDER,
    TOGETHER,
    group_of,
    list_share,
    pytest_collection_modifyitems,
)
from tests.thorough import (
    BUDGET_S,
    EVERY,
    KEPT,
    LEFT_TO_ALL,
    is_left_to_all,
    list_beyond_budgets,
    read_costs,
    write_costs,
)

BASE = Path(__file__).resolve().parent.parent
FILES = [
    *TOGETHER,
    *(str(LAB / name) for name in LABS),
    "tests/lab/test_cluster.py",
    "tests/test_docs.py",  # in no group
    "tests/runners/test_ssh.py",
]


def test_every_file_that_is_named_is_there() -> None:
    assert {name for name in FILES if not (BASE / name).is_file()} == set()


@given(st.permutations([f"{file}::test_{name}" for file in FILES for name in "ab"]))
def test_groups_come_first_and_each_of_their_files_in_one_piece(nodeids: list[str]) -> None:
    items: list[Any] = [SimpleNamespace(nodeid=nodeid) for nodeid in nodeids]
    pytest_collection_modifyitems(items)
    groups = [group_of(item.nodeid) for item in items]
    assert [group for group, _ in groupby(groups)][: len(ORDER)] == [*ORDER]
    grouped = [item.nodeid.partition("::")[0] for item in items if group_of(item.nodeid) in ORDER]
    assert len([*groupby(grouped)]) == len(set(grouped))
    alone = [nodeid for nodeid in nodeids if group_of(nodeid) not in ORDER]
    assert [item.nodeid for item in items][-len(alone) :] == alone, "in the order drawn"


@pytest.mark.parametrize("count", [1, 3, 4])
def test_every_test_file_is_in_the_share_of_one_process(count: int) -> None:
    folders = [BASE / "tests"]
    shares = [list_share(folders, number, count) for number in range(count)]
    files = sorted(path for share in shares for path in share)
    assert files == sorted((BASE / "tests").rglob("test_*.py"))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_what_is_left_to_all_or_kept_is_there() -> None:
    for name in (*LEFT_TO_ALL, *EVERY, *KEPT):
        file, _, test = name.partition("::")
        word = "class" if test.startswith("Test") else "def"
        assert f"{word} {test.partition('[')[0]}" in (BASE / file).read_text(), name


@given(st.sampled_from(sorted(EVERY)), st.integers(0, 10**6))
def test_of_a_sweep_some_tests_are_kept_and_what_is_no_sweep(file: str, first: int) -> None:
    sweep = [f"{file}::test_a[{number}]" for number in range(first, first + 200)]
    kept = [nodeid for nodeid in sweep if not is_left_to_all(nodeid)]
    assert 0.5 / EVERY[file] < len(kept) / len(sweep) < 2 / EVERY[file]
    assert not is_left_to_all(f"{file}::test_a")


# Names as they are, with the letters that values bring into them.
NAMES = st.builds(
    "tests/test_{}.py::test_{}[{}]".format,
    st.sampled_from("ab"),
    st.sampled_from("xyz"),
    st.text(st.characters(exclude_categories=["C", "Z"])),
)
COSTS = st.dictionaries(NAMES, st.integers(10, 400).map(lambda hundredths: hundredths / 100))


@given(COSTS)
def test_each_file_keeps_its_cheapest_tests_within_its_budget(costs: dict[str, float]) -> None:
    beyond = list_beyond_budgets(costs)
    for file in ("tests/test_a.py", "tests/test_b.py"):
        kept = sorted(costs[name] for name in costs if name.startswith(file) and name not in beyond)
        left = sorted(costs[name] for name in beyond if name.startswith(file))
        assert sum(kept) <= BUDGET_S + 1e-9
        assert not left or (not kept or kept[-1] <= left[0])
        assert not left or sum(kept) + left[0] > BUDGET_S - 1e-9, "none is left out that fits"


def test_what_is_kept_stays_whatever_it_costs() -> None:
    dear = {f"{name} and more": 100.0 for name in KEPT}
    assert list_beyond_budgets(dear) == set()


@given(COSTS)
def test_costs_are_read_as_they_were_written(costs: dict[str, float]) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "costs.txt"
        write_costs(costs, file)
        assert read_costs(file) == costs


MEASURED = """
import subprocess, sys, time
import pytest

def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

@pytest.fixture(scope="session")
def shared():
    work(2)

@pytest.fixture
def own():
    work(0.3)

def test_that_shares(shared): work(0.3)
def test_that_makes_its_own(own): work(0.3)
def test_cheap(): pass
def test_with_a_child():
    subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.5: pass"])
"""


@pytest.mark.parametrize("processes", [0, 2])
def test_costs_are_a_tests_own_with_its_children(tmp_path: Path, processes: int) -> None:
    (tmp_path / "test_measured.py").write_text(MEASURED)
    (tmp_path / "pytest.ini").touch()
    file = tmp_path / "costs.txt"
    write_costs({"test_measured.py::test_cheap": 3.0, "test_other.py::test_not_tried": 7.0}, file)
    command = [sys.executable, "-m", "pytest", "-q", f"-n{processes}", f"--costs={file}"]
    plugins = ["-p", "tests.measure_costs", "-p", "no:randomly", "-p", "no:django"]
    environment = os.environ | {"PYTHONPATH": str(BASE)}
    subprocess.run([*command, *plugins, str(tmp_path)], cwd=tmp_path, env=environment, check=True)
    costs = read_costs(file)
    assert costs.pop("test_other.py::test_not_tried") == 7
    measured = {name.partition("::")[2]: seconds for name, seconds in costs.items()}
    assert measured.keys() == {"test_that_shares", "test_that_makes_its_own", "test_with_a_child"}
    assert 0.3 <= measured["test_that_shares"] < 1.5, "without the 2 s of what it shares"
    assert measured["test_that_makes_its_own"] >= 0.6
    assert measured["test_with_a_child"] >= 0.4, "0.5 s, counted in ticks of 10 ms"
