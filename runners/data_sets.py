"""The steps that read and check a copy of a data set, and how a job proves its data. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from runners.jobs import DataSpec, Step

PROGRAM = "payload/data_files.py"  # steps start in the job's directory
RESULT_NAME = "result.json"
PROOF_NAME = "data-set.json"
PLACEHOLDER = "{data}"
"""What stands for the path of the data set in the parameters of a workload."""
VARIABLE = "TARE_DATA"
"""The variable in which a program finds that path."""
HASHES = "hashes"
"""The proof for which all files are read; any other looks at sizes and times."""


def make_data_spec(frozen: Mapping[str, Any]) -> DataSpec:
    """Return the data set of a run from what the plan keeps of it."""
    names = ("name", "digest", "path", "manifest", "proof")
    return DataSpec(**{name: str(frozen[name]) for name in names})


def why_no_data_path(path: str) -> str:
    """Return why no job script or bind can name this path safely; "" if they can."""
    if not re.fullmatch(r"/[^:,\0]*", path) or not path.isprintable():
        return "A path is absolute, on one line, and without : and , which runtimes separate by."
    if ".." in path.split("/") or not path.rstrip("/"):
        return "A path names a file or a folder, without any '..'."
    return ""


def describe_data(data: DataSpec) -> dict[str, str]:
    """Return what the payload is told of the data set."""
    return {"name": data.name, "digest": data.digest, "path": data.path}


def plan_reading(path: str, manifest: str, digest: str) -> Step:
    """Return the step that reads all files; `digest` is what they must have, "" if it is new."""
    command = ("python3", PROGRAM, "hash", path, manifest, RESULT_NAME, "--digest", digest)
    return Step("Reading its files", command)


def plan_check(path: str, manifest: str, digest: str) -> Step:
    """Return the step that compares sizes and times with those of the last reading."""
    command = ("python3", PROGRAM, "check", path, manifest, RESULT_NAME, "--digest", digest)
    return Step("Comparing sizes and times", command)


def build_proof_command(data: DataSpec) -> list[str]:
    """Return the program and arguments by which a job proves its data before it measures."""
    full = ["--full"] if data.proof == HASHES else []
    return [PROGRAM, "prove", data.path, data.manifest, PROOF_NAME, "--digest", data.digest, *full]
