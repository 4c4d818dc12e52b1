"""The entries of an experiment's file for its workloads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from experiments.definitions import definition_fields as fields
from experiments.definitions.definition import (
    USUAL_TIME_LIMIT,
    DataSetReference,
    WorkloadDefinition,
)
from experiments.definitions.definition_problems import shorten, suggest_near
from experiments.definitions.environment_parts import DIGEST
from experiments.definitions.part_reader import PartReader
from experiments.definitions.sweep_texts import read_sweep
from experiments.definitions.written_units import SECONDS
from experiments.definitions.yaml_tree import Node
from runners.workloads import WORKLOADS, ParameterError
from runners.workloads.parameter_sweeps import SweepError, expand_sweep

LONGEST_NAME = 100


def read_workload(reader: PartReader, node: Node, path: str) -> WorkloadDefinition:
    """Return an entry as values; what is wrong with it goes to `reader`."""
    table = reader.read_table(node, path, fields.WORKLOAD_KEYS)
    kind = reader.read_text(table, path, "kind", required=True)
    if kind and kind not in WORKLOADS:
        near = suggest_near(kind, WORKLOADS)
        reader.add(f"{path}.kind", f"“{shorten(kind)}” is no kind of workload. {near}")
    given, contents = _read_parameters(reader, table, path)
    parameters: Mapping[str, Any] = {}
    before = len(reader.problems)
    if kind in WORKLOADS:
        parameters = _check_parameters(reader, kind, given, path)
    sweep = ""
    if "sweep" in table and table["sweep"].value is not None:
        sweep = reader.parse(table["sweep"], f"{path}.sweep", read_sweep, "")
    if sweep and kind in WORKLOADS and len(reader.problems) == before:
        try:
            expand_sweep(sweep, WORKLOADS[kind], parameters)
        except SweepError as error:
            for message in error.messages:
                reader.add(f"{path}.sweep", message)
    limit = USUAL_TIME_LIMIT
    if "time_limit" in table and table["time_limit"].value is not None:
        limit = reader.parse(table["time_limit"], f"{path}.time_limit", SECONDS.parse, limit)
    proof = reader.read_text(table, path, "data_proof", usual="sizes and times")
    if proof not in fields.DATA_PROOFS:
        known = " or ".join(fields.DATA_PROOFS)
        reader.add(f"{path}.data_proof", f"Write {known}, not “{shorten(proof)}”.")
    return WorkloadDefinition(
        name=reader.read_text(table, path, "name", required=True, longest=LONGEST_NAME),
        kind=kind,
        parameters=parameters,
        time_limit_seconds=limit,
        sweep=sweep,
        data_set=_read_data_set(reader, table, path),
        data_proof=fields.DATA_PROOFS.get(proof, "looks"),
        contents=contents,
    )


def _read_parameters(
    reader: PartReader, table: Mapping[str, Node], path: str
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the parameters, and the files whose text stands in the file, by their sha256."""
    if "parameters" not in table or table["parameters"].value is None:
        return {}, {}
    node = table["parameters"]
    if not isinstance(node.value, dict):
        reader.add(f"{path}.parameters", "This is to be a table of parameters and values.")
        return {}, {}
    parameters = node.to_plain()
    contents: dict[str, bytes] = {}
    files = parameters.get("files")
    if isinstance(files, dict):
        for name, entry in files.items():
            if isinstance(entry, dict):
                place = f"{path}.parameters.files.{name}"
                if entry.keys() != {"text"} or not isinstance(entry["text"], str):
                    reader.add(place, "A file is its sha256, or “text” with what stands in it.")
                    files[name] = "0" * 64
                    continue
                content = entry["text"].encode()
                files[name] = hashlib.sha256(content).hexdigest()
                contents[files[name]] = content
    return parameters, contents


def _check_parameters(
    reader: PartReader, kind: str, given: Mapping[str, Any], path: str
) -> Mapping[str, Any]:
    names = [parameter.name for parameter in WORKLOADS[kind].parameters]
    try:
        return WORKLOADS[kind].clean(given)
    except ParameterError as error:
        for name, message in error.messages.items():
            place = f"{path}.parameters.{name}"
            if name not in names:
                message = f"{kind} has no such parameter. {suggest_near(name, names)}"
                reader.add(place, message)
            else:
                reader.add(place, f"{name} {shorten(message, 400)}.")
    return {}


def _read_data_set(
    reader: PartReader, table: Mapping[str, Node], path: str
) -> DataSetReference | None:
    if "data_set" not in table or table["data_set"].value is None:
        return None
    place = f"{path}.data_set"
    parts = reader.read_table(table["data_set"], place, fields.DATA_SET_KEYS)
    digest = reader.read_text(parts, place, "digest")
    if digest and not DIGEST.fullmatch(digest):
        reader.add(f"{place}.digest", "A data set’s digest is sha256: and 64 hex digits.")
    name = reader.read_text(parts, place, "name")
    if not (name or digest):
        reader.add(place, "A data set is named by its digest, or its name until it has one.")
    return DataSetReference(name, digest)
