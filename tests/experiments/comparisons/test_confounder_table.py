"""The table of docs/confounders.md: strict, complete, and shipped with the site."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from dashboard.docs.documents import make_anchor, map_files
from experiments.comparisons.comparison_keys import list_method_files
from experiments.confounder_table import (
    DOCUMENT,
    HEADER,
    Grade,
    TableProblem,
    parse_table,
    read_table,
)
from runners.payload import snapshot
from runners.workloads import WORKLOADS
from tests.experiments.comparisons.confounding import name_member
from tests.runners.payload_runs import run_payload

HEAD = f"| {' | '.join(HEADER)} |\n{'| - ' * len(HEADER)}|\n"
GOOD = "| cpu | CPU | equal | blocking | likely | Another model is another machine. |\n"
IGNORED = "\n| key | reason |\n| --- | --- |\n"


def test_the_table_has_the_facts_that_the_documents_promise() -> None:
    rows = read_table().compared
    assert len(rows) >= 60
    grades = {row.title: row.grade for row in rows}
    for title in ("GPU power limit", "GPU maximum clock", "variable OMP_NUM_THREADS"):
        assert grades[title] is Grade.BLOCKING
    for title in ("memory limit", "file system of the run's folder"):
        assert grades[title] is Grade.LIKELY


def test_every_row_of_a_group_covers_something() -> None:
    for row in read_table().rows:
        if row.patterns:
            assert name_member(row)


def test_a_good_table_is_read() -> None:
    (row,) = parse_table(HEAD + GOOD).rows
    assert (row.key, row.title, row.grade, row.grade_if_unknown) == (
        "cpu", "CPU", Grade.BLOCKING, Grade.LIKELY,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no table of facts"),
        (HEAD, "no table of facts"),
        (HEAD.replace("grade", "grades") + GOOD, "columns are not those known"),
        (HEAD + GOOD + GOOD, "'cpu' stands there twice"),
        (HEAD + GOOD + GOOD.replace("| cpu", "| cpu2"), "'CPU' stands there twice"),
        (HEAD + GOOD.replace("blocking", "grave"), "line 3: 'grave'"),
        (HEAD + GOOD.replace("equal", "alike"), "'alike' is no way to compare"),
        (HEAD + GOOD.replace("equal", "within 100 %"), "is no way to compare"),
        (HEAD + GOOD.replace("| likely", "| blocking"), "cannot be blocking"),
        (HEAD + GOOD.replace("blocking", "cosmetic"), "cannot be graver"),
        (HEAD + GOOD.replace("Another model is another machine.", "So."), "is no sentence"),
        (HEAD + GOOD.replace("| likely |", "|"), "5 cells instead of 6"),
        (HEAD + GOOD.replace("| cpu |", "| c p u |"), "'c p u' is no key"),
        (HEAD + GOOD.replace("| cpu |", "| cpu/* |"), "are not of one kind"),
        (HEAD + GOOD.replace("| CPU |", "| |"), "has no name"),
        (HEAD + GOOD.replace("blocking", "treatment"), "treatment is not compared"),
        (HEAD + GOOD + IGNORED + "| cpu | It stands above. |\n", "'cpu' stands there twice"),
        (HEAD + GOOD + IGNORED + "| a | |\n", "is no sentence"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(TableProblem, match=problem):
        parse_table(text)


def test_it_is_shipped_and_a_part_of_the_method() -> None:
    assert DOCUMENT in list_method_files(), "kept comparisons are computed again when it changes"
    assert map_files()["confounders"] == DOCUMENT
    dockerfile = (DOCUMENT.parents[1] / "Dockerfile").read_text()
    assert "COPY docs docs" in dockerfile


def test_its_sections_have_anchors_of_their_own() -> None:
    rows = read_table().rows
    assert {row.anchor for row in rows} == {make_anchor(row.section, {}) for row in rows}
    assert len({row.anchor for row in rows}) == len({row.section for row in rows}) > 5


@pytest.mark.parametrize("kind", ["blas", "command"])
def test_each_fact_of_a_snapshot_is_in_the_table_or_ignored_with_a_reason(
    kind: str, tmp_path: Path
) -> None:
    small = {"blas": {"matrix_size": 8, "steps": 2, "burn_in": 1, "threads": 1}}
    small["command"] = {"argv": ["true"], "read": "nothing"}
    ran = run_payload(tmp_path / "run", kind, WORKLOADS[kind].clean(small[kind]))
    assert list(list_unlisted(ran.inside)) == []


def test_each_field_of_a_gpu_is_in_the_table() -> None:
    own = {"index", "name", "uuid", "driver_version"}  # of GPU *, GPU model and GPU driver
    fields = {*snapshot.GPU_FIELDS.split(","), *snapshot.MORE_GPU_FIELDS.split(",")} - own
    assert fields == {
        row.key.partition("/")[2] for row in read_table().rows if row.parent == "gpus"
    }


def list_unlisted(inside: dict[str, Any]) -> list[str]:
    """Return the facts of a snapshot that neither table names."""
    table = read_table()
    keys = {row.key for row in table.rows} | set(table.ignored)
    unlisted = []
    for name, value in inside.items():
        if name in keys:
            continue
        for part in value if isinstance(value, dict) else [""]:
            key = f"{name}/{part}"
            if (
                key not in keys
                and not table.find_in_group(name, part)
                and not any(
                    fnmatchcase(key, f"{name}/{pattern}")
                    for ignored in table.ignored
                    if ignored.startswith(f"{name}/")
                    for pattern in ignored.partition("/")[2].strip("{}").split()
                )
            ):
                unlisted.append(key)
    return unlisted
