"""Programs of users on both sides: the same, another one, or not inspected."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import program_files
from experiments.comparisons import compare_experiment
from experiments.execution import lifecycle
from experiments.fact_comparison import list_differences
from experiments.models import Cluster, Environment, Run
from experiments.snapshot_facts import list_facts
from runners.workloads import WORKLOADS
from tests.conftest import finish
from tests.experiments.software.test_parity_reports import OLD, seen
from tests.factories import EnvironmentFactory, ExperimentFactory, WorkloadFactory

ONE, OTHER = "a" * 64, "b" * 64
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=10,
)


def of(*files: dict[str, Any], **libraries: str) -> dict[str, str]:
    linked = {f"lib{name}.so.1": {"sha256": value} for name, value in libraries.items()}
    return list_facts({"inside": {"program": {"files": list(files), "libraries": linked}}})


def file(word: str, sha256: str = ONE, path: str = "/opt/bench/program") -> dict[str, Any]:
    return {"word": word, "path": path, "sha256": sha256}


def test_the_same_program_at_another_place_is_the_same() -> None:
    ours, theirs = of(file("hpl"), mpi=ONE), of(file("hpl", path="/usr/bin/hpl"), mpi=ONE)
    assert list_differences([ours], [theirs]) == []
    assert program_files.describe_programs([ours, ours], [theirs]) == (
        "The program was inspected in every run and is the same on both sides: hpl and 1 linked "
        "library."
    )


def test_another_program_or_library_confounds() -> None:
    ours, theirs = of(file("hpl"), mpi=ONE), of(file("hpl", OTHER), mpi=OTHER)
    assert list_differences([ours], [theirs]) == [
        f"library libmpi.so.1: sha256 {ONE[:12]} on the baseline, sha256 {OTHER[:12]} here",
        f"program hpl: sha256 {ONE[:12]} on the baseline, sha256 {OTHER[:12]} here",
    ]
    assert program_files.describe_programs([ours], [theirs]) == (
        "The program is another one on both sides: library libmpi.so.1, program hpl differ."
    )


def test_shells_and_the_c_library_are_what_an_image_is_made_of() -> None:
    shell = {"word": "sh", "path": "/usr/bin/dash"}
    ours = of({**shell, "sha256": ONE}, c=ONE)
    theirs = of({**shell, "sha256": OTHER}, c=OTHER)
    assert list_differences([ours], [theirs]) == []
    assert program_files.describe_programs([ours], [theirs]) == program_files.NOT_INSPECTED


def test_what_nobody_could_read_equals_nothing_else() -> None:
    secret = {"word": "hpl", "path": "/opt/hpl", "bytes": 5, "problem": "Permission denied"}
    (told,) = list_differences([of(file("hpl"))], [of(secret)])
    assert told.endswith("not read: Permission denied (/opt/hpl, 5 bytes) here")


def test_runs_from_before_were_not_inspected() -> None:
    assert program_files.describe_programs([of(file("hpl"))], [{}]) == program_files.NOT_INSPECTED
    assert program_files.describe_programs([], []) == program_files.NOT_INSPECTED


@given(JSON)
def test_no_content_of_a_snapshot_breaks_the_facts(content: Any) -> None:
    assert all(isinstance(text, str) for _, text in program_files.list_facts(content))
    list(program_files.list_facts({"files": [content], "libraries": {"x": content}}))


@pytest.mark.django_db
@pytest.mark.parametrize("same", [True, False])
def test_a_program_of_the_environment_s_own_is_inspected_and_compared(
    same: bool, here: Cluster, bare: Environment, tmp_path: Path
) -> None:
    """Software found the same before the launch says nothing of a program on the cluster."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        program = tmp_path / name / "measure"
        program.write_text(f"#!/bin/sh\necho {'it' if same else name}\n")
        program.chmod(0o755)
    other = EnvironmentFactory(name="other", cluster=here, python=sys.executable)
    for row, name in ((bare, "one"), (other, "other")):
        row.setup_lines = f"export PATH={tmp_path / name}:$PATH"
        row.save()
        seen(row, OLD)
    argv = {"argv": ["measure"], "read": "nothing"}
    workload = WorkloadFactory(kind="command", parameters=WORKLOADS["command"].clean(argv))
    made = ExperimentFactory(
        cluster=here, partition=None, baseline=bare, environments=[bare, other],
        workloads=[workload], scales=["1x0"], repeats=1,
    )  # fmt: skip
    lifecycle.launch(made, made.owner)
    finish(made)
    run = Run.objects.filter(experiment=made, environment=bare).get()
    assert run.snapshot
    (found,) = [
        one for one in run.snapshot.content["inside"]["program"]["files"]
        if one["word"] == "measure"
    ]  # fmt: skip
    assert found["path"] == str(tmp_path / "one" / "measure")
    (pair,) = compare_experiment(made).pairs
    assert "the same software" not in pair.software
    assert "the same Python, packages and libraries were found" in pair.software
    if same:
        assert pair.software.endswith("is the same on both sides: measure.")
    else:
        assert pair.software.endswith("another one on both sides: program measure differs.")
