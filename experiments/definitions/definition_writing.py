"""Writing the file of an experiment, as YAML or JSON; comments of an earlier file are kept."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from experiments.definitions.definition import (
    USUAL_TIME_LIMIT,
    Definition,
    EnvironmentDefinition,
    WorkloadDefinition,
)
from experiments.definitions.definition_fields import (
    BARE_METAL,
    DATA_PROOFS,
    FIELDS,
    FORMAT,
    TOP_KEYS,
)
from experiments.definitions.definition_problems import BadDefinition
from experiments.definitions.definition_reading import parse_definition
from experiments.definitions.sweep_texts import write_sweep
from experiments.definitions.written_units import PERCENT, SECONDS
from experiments.definitions.yaml_tree import escape_for_yaml, is_plain_text

EASY = re.compile(r"[A-Za-z0-9/_.]([A-Za-z0-9 /_.,+()=%×@:-]*[A-Za-z0-9/_.)%?])?")
"""Texts that may stand without quotes, unless they read as something else."""
LINES = re.compile(r"(?:[!-~][ -~]*\n)+")
"""Texts that may stand as they are, a line below the other."""
SHORT_LIST = 100
"""Characters up to which a list stands in one line."""


def to_document(definition: Definition) -> dict[str, Any]:
    """Return the definition as plain values, in the order of the file; what is usual is left out.

    What decides stands there also if it is usual: the margin, the repeats, the order.
    """
    document: dict[str, Any] = {"tare": FORMAT}
    always = {"margin", "repeats", "scales", "design"}
    for row in FIELDS:
        value = definition.values.get(row.name, row.default)
        if row.name not in always and (value is None or value == row.default):
            continue
        section, _, name = row.path.rpartition(".")
        table = document.setdefault(section, {}) if section else document
        table[name] = row.write(value)
    document["workloads"] = [_write_workload(row) for row in definition.workloads]
    document["environments"] = [_write_environment(row) for row in definition.environments]
    if definition.further_metrics:
        document.setdefault("metrics", {})["further"] = [
            {
                name: value if name == "metric" else PERCENT.write(value)
                for name, value in row.items()
            }
            for row in definition.further_metrics
        ]
    if definition.mapping:
        document["map"] = {name: dict(rows) for name, rows in definition.mapping.items()}
    return {name: document[name] for name in TOP_KEYS if name in document}


def write_json(definition: Definition) -> str:
    """Return the definition as JSON."""
    return escape_for_yaml(json.dumps(to_document(definition), indent=2, ensure_ascii=False)) + "\n"


def write_yaml(definition: Definition, *, heading: str = "") -> str:
    """Return the definition as YAML; `heading` becomes comments at its top."""
    document = to_commented(to_document(definition))
    for row, environment in zip(document["environments"], definition.environments, strict=True):
        if environment.reference and environment.reference.isprintable():
            row.yaml_add_eol_comment(environment.reference, "image")
    lines = "".join(f"# {line}\n" for line in heading.splitlines())
    return lines + dump_yaml(document)


def rewrite_yaml(text: str, definition: Definition) -> str:
    """Return `text` changed to say what `definition` says, with the comments that can stay.

    Where that does not succeed, the definition is written anew, without comments.
    """
    try:
        stored = make_yaml().load(text)
        if not isinstance(stored, CommentedMap):
            return write_yaml(definition)
        is_json = text.lstrip().startswith("{")
        _merge(stored, to_document(parse_definition(text)), to_document(definition))
        changed = dump_yaml(stored)
        if not is_json and parse_definition(changed).says_the_same(definition):
            return changed
    except (YAMLError, BadDefinition, ValueError, TypeError, AttributeError, KeyError):
        pass  # an odd text: it was kept for its comments alone
    return write_json(definition) if text.lstrip().startswith("{") else write_yaml(definition)


def _write_workload(row: WorkloadDefinition) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": row.name, "kind": row.kind}
    entry["parameters"] = dict(row.parameters)
    if row.sweep:
        entry["sweep"] = write_sweep(row.sweep)
    if row.time_limit_seconds != USUAL_TIME_LIMIT:
        entry["time_limit"] = SECONDS.write(row.time_limit_seconds)
    if row.data_set:
        parts = {"name": row.data_set.name, "digest": row.data_set.digest}
        entry["data_set"] = {name: value for name, value in parts.items() if value}
        entry["data_proof"] = next(
            text for text, value in DATA_PROOFS.items() if value == row.data_proof
        )
    return entry


def _write_environment(row: EnvironmentDefinition) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": row.name}
    if row.is_baseline:
        entry["baseline"] = True
    if row.runtime != BARE_METAL:
        entry["runtime"] = row.runtime
        entry["image"] = row.image
    parts = {
        "format": row.format,
        "mode": row.mode,
        "python": row.python if row.python != "python3" else "",
        "binds": list(row.binds),
        "variables": dict(row.variables),
        "setup_lines": row.setup_lines,
        "once_more": row.is_copy,
    }
    return entry | {name: value for name, value in parts.items() if value}


def to_commented(value: Any) -> Any:
    """Return plain values as ruamel.yaml writes them, with quotes where a text needs them."""
    if isinstance(value, dict):
        return CommentedMap((to_commented(name), to_commented(row)) for name, row in value.items())
    if isinstance(value, list):
        rows = CommentedSeq(to_commented(row) for row in value)
        is_flat = not any(isinstance(row, dict | list) for row in value)
        if not value or (is_flat and sum(len(str(row)) + 4 for row in value) <= SHORT_LIST):
            rows.fa.set_flow_style()
        return rows
    if isinstance(value, str):
        if EASY.fullmatch(value) and is_plain_text(value) and not re.search(r": |:$|-$", value):
            return value
        return (
            LiteralScalarString(value)
            if LINES.fullmatch(value)
            else (DoubleQuotedScalarString(value))
        )
    return value


def _merge(stored: Any, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Change in the table of a file what differs between what it says and what it is to say."""
    for name in before.keys() - after.keys():
        stored.pop(name, None)
    for name, value in after.items():
        if name in before and before[name] == value:
            continue
        stored[name] = (
            merge_value(stored[name], before[name], value)
            if name in stored and name in before
            else to_commented(value)
        )


def merge_value(stored: Any, before: Any, after: Any) -> Any:
    """Return the file's own value, changed, where that is possible; else one that is new."""
    if before == after:
        return stored
    if isinstance(stored, CommentedMap) and isinstance(before, dict) and isinstance(after, dict):
        _merge(stored, before, after)
        return stored
    if isinstance(stored, CommentedSeq) and _has_names(before) and _has_names(after):
        return _merge_list(stored, before, after)
    return to_commented(after)


def _has_names(rows: Any) -> bool:
    return isinstance(rows, list) and all(isinstance(row, dict) and "name" in row for row in rows)


def _merge_list(stored: CommentedSeq, before: list[Any], after: list[Any]) -> CommentedSeq:
    """Return a list of named entries, each changed in its place; those that are new stand last."""
    wanted = {row["name"]: row for row in after}
    for number in reversed(range(len(before))):
        name = before[number]["name"]
        if name in wanted:
            stored[number] = merge_value(stored[number], before[number], wanted[name])
        else:
            del stored[number]
    known = {row["name"] for row in before}
    for row in after:
        if row["name"] not in known:
            stored.append(to_commented(row))
    return stored


def make_yaml() -> YAML:
    yaml = YAML(typ="rt", pure=True)
    yaml.width = 10**6
    yaml.preserve_quotes = True
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def dump_yaml(document: Any) -> str:
    stream = io.StringIO()
    make_yaml().dump(document, stream)
    return stream.getvalue()
