"""Every reason with which anything can end has its place in one table, which the documents show."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TypeGuard, get_args

import pytest

from runners.ends import CAUSES, ENDS, Cause, find_end
from runners.schedulers import Failure, grid_engine, slurm
from tests.ends_table import DOCUMENT, replace_table
from tests.source_tree import BASE, modules

# Modules in which `reason` is something else than how a job or a run ended.
OTHERS = ("statistics", "software", "comparisons", "presets", "clusters", "migrations")
NAMED = re.compile(r"\b(?:fail|refuse) \"([a-zA-Z][\w -]*?)(?::| \()")
"""How the job script names a failure: fail "image missing: $image"."""


def reasons_of_code() -> Iterator[tuple[str, str]]:
    """Yield each literal that code gives as a reason, with where it stands."""
    for path in modules():
        place = str(path.relative_to(BASE))
        if place.startswith("experiments/") and not any(f"/{room}/" in place for room in OTHERS):
            for node in ast.walk(ast.parse(path.read_text())):
                for text in literals(node):
                    yield text, place


def literals(node: ast.AST) -> Iterator[str]:
    """Yield the texts in what a node gives as a reason."""
    values: list[ast.expr] = []
    if isinstance(node, ast.keyword) and node.arg == "reason":
        values = [node.value]
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            names = [name.id for name in ast.walk(target) if isinstance(name, ast.Name)]
            if names[:1] == ["reason"] or (names and names[0] in ("REFUSED", "NOT_STARTED")):
                value = node.value
                values = [value.elts[0] if isinstance(value, ast.Tuple) else value]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in ("end_without_sending", "end_unsent"):
            values = node.args[1:2]
        elif node.func.id in ("_keep_job", "finish_operation"):
            values = node.args[2:3]
    elif isinstance(node, ast.FunctionDef) and node.name == "describe_failure":  # of imports
        returned = [part.value for part in ast.walk(node) if isinstance(part, ast.Return)]
        values = [value.elts[0] for value in returned if isinstance(value, ast.Tuple)]
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
        elements = node.value.elts
        if len(elements) > 1 and "State.FAILED" in ast.unparse(elements[0]):
            values = elements[1:2]  # of `decide_outcome`
    for value in values:
        if "excluded by" in ast.unparse(value):  # what a person does, and no end
            continue
        keys = [part.args[0] for part in ast.walk(value) if is_reading(part)]
        for part in ast.walk(value):
            is_text = isinstance(part, ast.Constant) and isinstance(part.value, str)
            if is_text and part.value and part not in keys:
                yield part.value


def is_reading(node: ast.AST) -> TypeGuard[ast.Call]:
    """Return whether a node reads a key of a document, as in `row.get("reason")`."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".get")


def test_every_reason_that_code_gives_is_in_the_table() -> None:
    given = set(reasons_of_code())
    assert len({reason for reason, _ in given}) > 8, "the search finds some"
    assert sorted((reason, place) for reason, place in given if reason not in ENDS) == []


def test_every_failure_of_a_scheduler_is_in_the_table() -> None:
    assert set(get_args(Failure)) <= set(ENDS)
    assert set(get_args(Cause)) == set(CAUSES)


@pytest.mark.parametrize("template", ["job.sh.template", "several.sh.template"])
def test_every_failure_that_the_job_script_names_is_in_the_table(template: str) -> None:
    named = NAMED.findall((BASE / "runners" / template).read_text())
    assert named
    assert [reason for reason in named if reason not in ENDS] == []


def test_every_failure_that_the_payload_names_is_in_the_table() -> None:
    """Where it raises a Failure, or what becomes one, the text begins with the reason."""
    named = set()
    for path in (BASE / "runners" / "payload").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named |= {text for text in ENDS if node.value.startswith(f"{text}: ")}
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
                "Failure",
                "GPUMissing",
            ):
                (argument,) = node.args
                if isinstance(argument, ast.JoinedStr | ast.Constant):
                    text = ast.unparse(argument).strip("f\"'")
                    assert text.partition(":")[0] in ENDS, text
    expected = {"GPU missing", "data set unusable", "out of memory", "program missing"}
    assert expected <= named


def test_a_reason_of_before_is_found_too() -> None:
    """Until November 2026 the exit code of set-up lines was part of the reason."""
    assert find_end("set-up failed (exit code 1)") is ENDS["set-up failed"]
    assert find_end("something of a user's own program") is None


def test_a_programs_cause_is_never_tried_again_by_rule() -> None:
    again = {reason: end.cause for reason, end in ENDS.items() if end.by_rule}
    assert set(again) == {
        *("node failure", "controller failure", "no GPU", "preempted", "requeued"),
        "lost before it began",
    }
    assert set(again.values()) <= {"machine", "site"}


def test_every_sentence_of_the_table_is_one() -> None:
    for reason, end in ENDS.items():
        assert len(reason) <= 40, "what the column takes"
        for text in (end.meaning, end.advice):
            assert re.fullmatch(r"[A-Z].*[a-z]\.", text), text
            assert len(text) <= 130, text


def test_the_document_shows_the_table() -> None:
    text = DOCUMENT.read_text()
    assert text == replace_table(text), "write it anew: python -m tests.ends_table"


def test_the_document_names_every_end_that_a_scheduler_knows() -> None:
    rows = [row.split("|") for row in DOCUMENT.read_text().splitlines() if row.startswith("| *")]
    said = {row[1].strip(" *"): "|".join(row[2:]) for row in rows if "`" in row[2]}
    for state, kind in slurm.ENDED.items():
        assert not kind or f"`{state}" in said[kind], state
    assert {*map(str, range(1, 12)), *map(str, range(18, 22))} == grid_engine.NODE
    assert "`failed` 1 to 11, 18 to 21" in said["node failure"]
    assert f"`failed` {', '.join(grid_engine.RESCHEDULED)}" in said["requeued"]
