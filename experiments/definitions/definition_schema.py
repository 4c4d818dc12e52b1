"""The JSON schema of experiment files, made from the table that reading and writing follow."""

from __future__ import annotations

import json
import math
from typing import Any

from experiments.definitions import definition_fields as fields
from experiments.definitions import study_reading as study
from experiments.definitions.definition_reading import (
    MOST_ENVIRONMENTS,
    MOST_FURTHER,
    MOST_WORKLOADS,
)
from experiments.definitions.written_units import PERCENT, SECONDS, Unit
from runners.runtimes import RUNTIMES
from runners.workloads import WORKLOADS, Parameter

ADDRESS = "/schemas/experiment-1.json"
TEXT: dict[str, Any] = {"type": "string"}
DIGEST = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
SCALE = r"^\d{1,6}[x×]\d{1,6}([x×]\d{1,6})?( +(srun|mpirun))?$"


def build_schema() -> dict[str, Any]:
    """Return the JSON schema, draft 2020-12."""
    top: dict[str, Any] = {"tare": {"const": fields.FORMAT, "description": "The format."}}
    for name in fields.TOP_KEYS:
        if name in fields.SECTIONS:
            top[name] = _make_section(name)
        elif name in fields.BY_PATH:
            top[name] = _make_field(fields.BY_PATH[name])
    top["scales"] |= {"items": {"type": "string", "pattern": SCALE}, "minItems": 1}
    top["question"]["maxLength"] = fields.LONGEST_TEXT
    top["workloads"] = {
        "type": "array",
        "minItems": 1,
        "maxItems": MOST_WORKLOADS,
        "items": _make_workload(),
    }
    top["environments"] = {
        "type": "array",
        "minItems": 1,
        "maxItems": MOST_ENVIRONMENTS,
        "items": _make_environment(),
    }
    names = {"type": "object", "additionalProperties": TEXT}
    top["map"] = _table(
        dict.fromkeys(fields.MAP_KEYS, names),
        description="Names in this file -> names on the site that reads it.",
    )
    required = ["tare", "workloads", "environments"]
    required += [row.path for row in fields.FIELDS if row.required and "." not in row.path]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An experiment of Tare",
        **_table({name: top[name] for name in fields.TOP_KEYS}),
        "required": required,
    }


def build_study_schema() -> dict[str, Any]:
    """Return the JSON schema of a study's file: common fields, and an entry for each experiment."""
    experiment = build_schema()
    common: dict[str, Any] = experiment["properties"]
    names = {"type": "string", "minLength": 1, "maxLength": study.LONGEST_NAME}
    entry = {name: {"anyOf": [common[name], {"type": "null"}]} for name in study.ENTRY_KEYS}
    top = common | {
        study.STUDY: {**names, "description": "The name of the study."},
        "notes": {**common["notes"], "description": "Of the study alone."},
        study.EXPERIMENTS: {
            "type": "array",
            "minItems": 1,
            "maxItems": study.MOST_EXPERIMENTS,
            "items": _table(entry, description="What stands here replaces the common field."),
        },
    }
    # What each experiment needs stands beside all entries, or in each of them.
    needed = [name for name in experiment["required"] if name != "tare"]
    return {
        "$schema": experiment["$schema"],
        "title": "A study of Tare",
        **_table({name: top[name] for name in study.STUDY_KEYS}),
        "required": ["tare", study.STUDY, study.EXPERIMENTS],
        "allOf": [
            {
                "anyOf": [
                    {"required": [name]},
                    {"properties": {study.EXPERIMENTS: {"items": {"required": [name]}}}},
                ]
            }
            for name in needed
        ],
    }


def write_schema() -> str:
    """Return the text of docs/experiment.schema.json."""
    return json.dumps(build_schema(), indent=2, ensure_ascii=False) + "\n"


def write_study_schema() -> str:
    """Return the text of docs/study.schema.json."""
    return json.dumps(build_study_schema(), indent=2, ensure_ascii=False) + "\n"


def _table(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


def _make_unit(unit: Unit) -> dict[str, Any]:
    spellings = "|".join(unit.factors)
    return {
        "type": "string",
        "pattern": rf"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*({spellings})$",
        "examples": [unit.example],
    }


def _make_field(row: fields.Field) -> dict[str, Any]:
    if row.unit:
        made = _make_unit(row.unit)
    elif row.kind == "choice":
        made = {"enum": list(row.choices)}
    elif row.kind == "texts":
        made = {"type": "array", "items": TEXT}
    elif row.kind == "tags":
        tag = {**TEXT, "minLength": 1, "maxLength": fields.LONGEST_TAG, "pattern": "^[^,]*$"}
        made = {"type": "array", "items": tag, "maxItems": fields.MOST_TAGS}
    elif row.kind == "notes":
        made = {**TEXT, "maxLength": fields.LONGEST_NOTES + 1}  # with the end of the last line
    else:
        types = {"text": "string", "flag": "boolean", "whole": "integer", "number": "number"}
        made = {"type": types[row.kind]}
    if row.minimum is not None:
        made["minimum"] = row.minimum
    if row.maximum is not None:
        made["maximum"] = row.maximum
    return {**made, "description": row.help}


def _make_section(name: str) -> dict[str, Any]:
    properties = {
        path.partition(".")[2]: _make_field(row)
        for path, row in fields.BY_PATH.items()
        if path.startswith(f"{name}.")
    }
    if name == "metrics":
        percent = _make_unit(PERCENT)
        entry = _table({"metric": TEXT, "margin": percent, "margin_faster": percent})
        entry["required"] = ["metric", "margin"]
        properties["further"] = {"type": "array", "maxItems": MOST_FURTHER, "items": entry}
    return _table(properties)


def _make_workload() -> dict[str, Any]:
    properties = {
        "name": {**TEXT, "minLength": 1, "maxLength": 100},
        "kind": {"enum": list(WORKLOADS)},
        "parameters": {"type": "object"},
        "sweep": {
            "type": ["string", "object"],
            "description": "Several values for parameters, such as batch_size: [32, 64].",
        },
        "time_limit": {**_make_unit(SECONDS), "description": "The longest that a run may take."},
        "data_set": _table({"name": TEXT, "digest": DIGEST}),
        "data_proof": {"enum": list(fields.DATA_PROOFS)},
    }
    of_kinds = [
        {
            "if": {"properties": {"kind": {"const": kind}}},
            "then": {
                "properties": {
                    "parameters": _table(
                        {row.name: _make_parameter(row) for row in workload.parameters}
                    )
                }
            },
        }
        for kind, workload in WORKLOADS.items()
    ]
    return {**_table(properties), "required": ["name", "kind"], "allOf": of_kinds}


def _make_parameter(row: Parameter) -> dict[str, Any]:
    made: dict[str, Any]
    if row.type in ("integer", "number"):
        made = {"type": row.type}
        for name, limit in (("minimum", row.minimum), ("maximum", row.maximum)):
            if math.isfinite(limit):
                made[name] = limit
    elif row.type == "choice":
        made = {"enum": list(row.choices)}
    elif row.type == "flag":
        made = {"type": "boolean"}
    elif row.type == "words":
        made = {"type": ["array", "string"], "items": TEXT}
    elif row.type == "files":
        inline = {**_table({"text": TEXT}), "required": ["text"]}
        sha256 = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
        made = {"type": "object", "additionalProperties": {"anyOf": [sha256, inline]}}
    elif row.type == "metrics":
        made = {"type": "array", "items": {"type": "object", "additionalProperties": TEXT}}
    else:
        made = {"type": "string", "maxLength": row.longest}
    return {**made, "description": row.help}


def _make_environment() -> dict[str, Any]:
    properties = {
        "name": {**TEXT, "minLength": 1, "maxLength": 100},
        "baseline": {"type": "boolean", "description": "What the others are compared with."},
        "runtime": {
            "enum": [name for name in RUNTIMES if name != fields.BARE_METAL]
            + ["bare metal", fields.BARE_METAL],
            "description": "Left out: bare metal.",
        },
        "image": {**DIGEST, "description": "The image’s digest."},
        "reference": {**TEXT, "description": "What the image is called: a hint."},
        "format": {**TEXT, "description": "Of the staged image, such as sif; left out: any."},
        "mode": {**TEXT, "description": "The runtime’s mode, such as udocker’s P1."},
        "python": {**TEXT, "description": "The interpreter, as this environment names it."},
        "binds": {"type": "array", "items": TEXT},
        "variables": {"type": "object", "additionalProperties": TEXT},
        "setup_lines": {**TEXT, "description": "Shell lines before the program starts."},
        "once_more": {
            "type": "boolean",
            "description": "The environment beside it a second time, for an A/A test.",
        },
    }
    return {**_table(properties), "required": ["name"]}
