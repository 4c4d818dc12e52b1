"""Reading the file of an experiment: text in, a definition out, or all that stands against it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from experiments.definitions import definition_fields as fields
from experiments.definitions.definition import Definition, fill_in_values
from experiments.definitions.definition_problems import (
    MOST_PROBLEMS,
    BadDefinition,
    Problem,
    shorten,
)
from experiments.definitions.environment_parts import read_environment
from experiments.definitions.part_reader import PartReader
from experiments.definitions.workload_parts import read_workload
from experiments.definitions.written_units import PERCENT
from experiments.definitions.yaml_tree import Node, decode_text, read_tree, scan_tree

MOST_WORKLOADS, MOST_ENVIRONMENTS, MOST_FURTHER = 100, 100, 3


def read_definition(content: str | bytes) -> Definition | tuple[Problem, ...]:
    """Return what the file defines, or all its problems in the order of the lines.

    `content` is YAML or JSON. Nothing is asked of a database: whether what it names is here is
    found out when it is applied.
    """
    try:
        return parse_definition(content)
    except BadDefinition as error:
        return error.problems


def parse_definition(content: str | bytes) -> Definition:
    """Return what the file defines. Raises BadDefinition with all problems."""
    text = decode_text(content)
    reader = PartReader()
    root, reader.problems = scan_tree(content)
    definition = read_root(reader, root, text)
    if reader.problems:
        raise BadDefinition(reader.problems)
    return definition


def read_mapping(content: str | bytes) -> dict[str, dict[str, str]] | tuple[Problem, ...]:
    """Return a table of names in files -> names on this site, by section, or its problems."""
    try:
        root = read_tree(content)
    except BadDefinition as error:
        return error.problems
    reader = PartReader()
    mapping = _read_mapping(reader, root, "")
    return BadDefinition(reader.problems).problems if reader.problems else mapping


def read_root(reader: PartReader, root: Node, text: str) -> Definition:
    """Return what the table at the top of a file defines; problems go to `reader`."""
    reader.note_places(root, "")
    table = reader.read_table(root, "", fields.TOP_KEYS)
    _check_format(reader, table, root)
    values = _read_values(reader, root, table)
    workloads = [
        read_workload(reader, node, f"workloads[{number}]")
        for number, node in enumerate(_read_list(reader, root, table, "workloads", MOST_WORKLOADS))
    ]
    environments = [
        read_environment(reader, node, f"environments[{number}]")
        for number, node in enumerate(
            _read_list(reader, root, table, "environments", MOST_ENVIRONMENTS)
        )
    ]
    _check_names(reader, "workloads", [row.name for row in workloads])
    _check_names(reader, "environments", [row.name for row in environments])
    _check_baseline(reader, [row.is_baseline for row in environments])
    mapping = _read_mapping(reader, table["map"], "map") if "map" in table else {}
    return Definition(
        values=fill_in_values(values),
        workloads=tuple(workloads),
        environments=tuple(environments),
        further_metrics=tuple(_read_further(reader, table)),
        mapping=mapping,
        places=dict(reader.places),
        text=text,
    )


def _check_format(reader: PartReader, table: Mapping[str, Node], root: Node) -> None:
    if "tare" not in table:
        if root.keys or not isinstance(root.value, dict):
            reader.add("tare", "The file has to begin with “tare: 1”, its format.")
        return
    number = table["tare"].value
    if number != fields.FORMAT or isinstance(number, bool):
        reader.add("tare", f"This Tare reads the format 1, not {shorten(number)}.")


def _read_values(reader: PartReader, root: Node, table: Mapping[str, Node]) -> dict[str, Any]:
    """Return the values of all fields that the file has; the rest stays as usual."""
    sections = {
        name: reader.read_table(table[name], name, fields.list_section_keys(name))
        for name in fields.SECTIONS
        if name in table and table[name].value is not None
    }
    values: dict[str, Any] = {}
    for row in fields.FIELDS:
        section, _, name = row.path.rpartition(".")
        rows = sections.get(section, {}) if section else table
        if name not in rows:
            if row.required and isinstance(root.value, dict) and not _is_misspelt(root, name):
                reader.add(row.path, f"“{row.path}” is missing. {row.help}")
            continue
        try:
            values[row.name] = row.parse(rows[name].to_plain())
        except ValueError as error:
            reader.add(row.path, str(error))
    return values


def _is_misspelt(root: Node, name: str) -> bool:
    """Return whether an unknown key of the file is taken for this one, which its problem says."""
    unknown = [key for key in root.value if key not in fields.TOP_KEYS][:MOST_PROBLEMS]
    return any(difflib.get_close_matches(key, fields.TOP_KEYS, n=1) == [name] for key in unknown)


def _read_list(
    reader: PartReader, root: Node, table: Mapping[str, Node], name: str, most: int
) -> list[Node]:
    if name not in table:
        if isinstance(root.value, dict) and not _is_misspelt(root, name):
            reader.add(name, f"“{name}” is missing: a list.")
        return []
    rows = table[name].value
    if not isinstance(rows, list):
        reader.add(name, "This is to be a list: each entry begins with a dash.")
        return []
    if len(rows) > most:
        reader.add(name, f"There are {len(rows):,}; at most {most} are allowed.")
    return rows[:most]


def _check_names(reader: PartReader, path: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for number, name in enumerate(names):
        if name and name in seen:
            reader.add(f"{path}[{number}].name", f"Another one is called {shorten(name)}, too.")
        seen.add(name)


def _check_baseline(reader: PartReader, marked: list[bool]) -> None:
    if marked.count(True) > 1:
        for number in [number for number, is_marked in enumerate(marked) if is_marked][1:]:
            reader.add(f"environments[{number}].baseline", "There is one baseline, and no more.")
    elif marked and not any(marked):
        reader.add("environments", "Write “baseline: true” into one of the environments.")


def _read_further(reader: PartReader, table: Mapping[str, Node]) -> list[dict[str, Any]]:
    metrics = table.get("metrics")
    node = metrics.value.get("further") if metrics and isinstance(metrics.value, dict) else None
    if node is None or node.value is None:
        return []
    if not isinstance(node.value, list):
        reader.add("metrics.further", "This is to be a list: each entry begins with a dash.")
        return []
    if len(node.value) > MOST_FURTHER:
        reader.add("metrics.further", f"At most {MOST_FURTHER} further metrics are allowed.")
    rows: list[dict[str, Any]] = []
    for number, entry in enumerate(node.value[:MOST_FURTHER]):
        path = f"metrics.further[{number}]"
        parts = reader.read_table(entry, path, fields.FURTHER_KEYS)
        row: dict[str, Any] = {"metric": reader.read_text(parts, path, "metric", required=True)}
        for name in ("margin", "margin_faster"):
            if name in parts and parts[name].value is not None:
                row[name] = reader.parse(parts[name], f"{path}.{name}", PERCENT.parse)
            elif name == "margin" and isinstance(entry.value, dict):
                reader.add(f"{path}.margin", "Its margin is missing, such as 5 %.")
        rows.append(row)
    return rows


def _read_mapping(reader: PartReader, node: Node, path: str) -> dict[str, dict[str, str]]:
    """Return the table of names; what is wrong in it goes to `reader`."""
    if not reader.places:
        reader.note_places(node, "")
    if node.value is None:
        return {}
    mapping: dict[str, dict[str, str]] = {}
    for section, names in reader.read_table(node, path, fields.MAP_KEYS).items():
        inner = f"{path}.{section}" if path else section
        if not isinstance(names.value, dict):
            reader.add(inner, "This is to be a table: the name in the file, and the one here.")
            continue
        mapping[section] = {}
        for name, here in names.value.items():
            if not isinstance(here.value, str) or not here.value:
                reader.add(f"{inner}.{name}", "The name on this site is to be a text.")
                continue
            mapping[section][name] = here.value
    return mapping
