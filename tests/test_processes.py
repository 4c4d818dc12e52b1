"""Tests that share what is slow to make stay together, and every file that is named is there."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.processes import (
    LAB,
    LABS,
    ORDER,
    SLOW,
    TOGETHER,
    group_of,
    list_share,
    pytest_collection_modifyitems,
)
from tests.thorough import EVERY, LEFT_TO_ALL, is_left_to_all

BASE = Path(__file__).resolve().parent.parent
FILES = [
    *TOGETHER,
    *(str(LAB / name) for name in LABS),
    "tests/lab/test_cluster.py",
    *sorted(SLOW - {*TOGETHER}),
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


def test_what_is_left_to_all_is_there() -> None:
    for name in (*LEFT_TO_ALL, *EVERY):
        file, _, test = name.partition("::")
        assert f"def {test.partition('[')[0]}" in (BASE / file).read_text(), name


@given(st.sampled_from(sorted(EVERY)), st.integers(0, 10**6))
def test_of_a_sweep_some_tests_are_kept_and_what_is_no_sweep(file: str, first: int) -> None:
    sweep = [f"{file}::test_a[{number}]" for number in range(first, first + 200)]
    kept = [nodeid for nodeid in sweep if not is_left_to_all(nodeid)]
    assert 0.5 / EVERY[file] < len(kept) / len(sweep) < 2 / EVERY[file]
    assert not is_left_to_all(f"{file}::test_a")
