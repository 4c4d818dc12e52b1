"""Parameters of workloads as text, and which workloads can still be changed or deleted."""

from __future__ import annotations

import math
from typing import Any

import pytest

from experiments.planning.free_names import find_free_name
from experiments.planning.workloads import (
    Setting,
    describe_limits,
    describe_parameters,
    describe_settings,
    format_value,
    make_label,
    why_not_delete,
    why_not_edit,
)
from runners.workloads import Parameter
from tests.factories import NOON, ExperimentFactory, LaunchedFactory, WorkloadFactory


def parameter(**columns: Any) -> Parameter:
    return Parameter(**({"name": "n", "type": "integer", "default": 1, "help": ""} | columns))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "yes"),
        (False, "no"),
        ([], "none"),
        (["cat", "a file"], "cat 'a file'"),
        ([{"path": "ö"}], '[{"path": "ö"}]'),
        ({}, "none"),
        ({"A": "1"}, '{"A": "1"}'),
        (None, "none"),
        ("", "none"),
        (0, "0"),
        (0.5, "0.5"),
        ("text", "text"),
    ],
)
def test_a_value_is_written_as_people_write_it(value: Any, text: str) -> None:
    assert format_value(value) == text


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"type": "choice", "choices": ("a", "", "b")}, "a, none, b"),
        ({"type": "flag"}, "yes or no"),
        ({"minimum": 1, "maximum": 20_000}, "from 1 to 20\N{NARROW NO-BREAK SPACE}000"),
        ({"type": "number", "minimum": 0.5}, "from 0.5 on"),
        ({"maximum": 9}, "at most 9"),
        ({"minimum": -math.inf, "maximum": math.inf}, ""),
        ({"type": "text", "longest": 1000}, "at most 1\N{NARROW NO-BREAK SPACE}000 characters"),
        ({"type": "words"}, "at most 500 characters"),
    ],
)
def test_limits_are_told(columns: dict[str, Any], text: str) -> None:
    assert describe_limits(parameter(**columns)) == text


def test_a_parameter_is_called_by_its_label_or_its_name() -> None:
    assert make_label(parameter(name="matrix_size")) == "Matrix size"
    assert make_label(parameter(name="matrix_size", label="Order")) == "Order"


def test_settings_that_differ_come_with_their_defaults() -> None:
    row = WorkloadFactory.build(parameters={"steps": 77, "old": [1]})
    settings = describe_settings(row)
    steps, old = settings.differing
    assert (steps.name, steps.label, steps.value) == ("steps", "Steps", "77")
    assert steps.default not in ("", "77")
    assert steps.help
    assert old == Setting("old", "old", "[1]", "", "", "")
    assert all(setting.value == setting.default for setting in settings.others)
    unknown = WorkloadFactory.build(kind="forgotten", parameters={"a": 1})
    assert describe_settings(unknown).differing == [Setting("a", "a", "1", "")]
    assert describe_settings(unknown).others == []


def test_the_parameters_of_a_run_are_those_it_was_started_with() -> None:
    spec = {"kind": "blas", "parameters": {"steps": 77, "gone": ""}}
    assert describe_parameters(spec) == [("steps", "77"), ("gone", "none")]
    assert describe_parameters({}) == []
    assert describe_parameters({"parameters": {"a": True}}) == [("a", "yes")]


@pytest.mark.django_db
def test_a_workload_that_was_measured_stays_as_it_was() -> None:
    row = WorkloadFactory(name="W")
    ExperimentFactory(workloads=[row])
    assert why_not_edit(row) == ""
    LaunchedFactory(workloads=[row])
    kept = "W: it stays as it was measured. Copy it, and change the copy."
    assert why_not_edit(row) == f"A launched experiment holds {kept}"
    ExperimentFactory(workloads=[row], imported_at=NOON, import_hash="1" * 64, design="independent")
    assert why_not_edit(row) == f"2 launched experiments hold {kept}"
    imported = WorkloadFactory(name="old", kind="tf_cnn_benchmarks")
    assert why_not_edit(imported) == "old is only known from imported logs, and stays as it was."


@pytest.mark.django_db
def test_a_workload_that_an_experiment_names_is_not_deleted() -> None:
    row = WorkloadFactory(name="W")
    assert why_not_delete(row) == ""
    ExperimentFactory(workloads=[row])
    assert why_not_delete(row) == "W stays: an experiment names it, drafts included."
    ExperimentFactory(workloads=[row])
    assert why_not_delete(row) == "W stays: 2 experiments name it, drafts included."


@pytest.mark.django_db
def test_a_name_is_made_free_and_fits_its_column() -> None:
    assert find_free_name("W") == "W"
    assert find_free_name("x" * 101) == "x" * 100
    WorkloadFactory(name="W")
    assert find_free_name("W") == "W (2)"
    assert find_free_name("W", ["W (2)"]) == "W (3)"
    assert find_free_name("y" * 100, ["y" * 100]) == "y" * 96 + " (2)"
