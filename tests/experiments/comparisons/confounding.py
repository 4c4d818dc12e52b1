"""Snapshots in which a fact of the table has a chosen value, and nothing else is known."""

from __future__ import annotations

import re
from typing import Any

import pytest

from experiments.confounder_table import Row, read_table

FILES = {
    "cudnn": "/opt/libcudnn.so.{}", "cublas": "/opt/libcublas.so.{}",
    "cuda_runtime": "/opt/libcudart.so.{}", "cuda_driver": "/opt/libcuda.so.{}",
    "nccl": "/opt/libnccl.so.{}", "openmp": "/opt/libgomp.so.{}",
    "allocator": "/opt/libjemalloc.so.{}",
}  # fmt: skip
FIRST, OTHER = 8, 9
"""Values that differ by more than any tolerance, and are other versions."""


def name_member(row: Row) -> str:
    """Return a name that the row's patterns cover and no earlier row does."""
    for pattern in row.patterns:
        name = pattern.replace("*", "7")
        if read_table().find_in_group(row.parent, name) is row:
            return name
    raise AssertionError(f"{row.key} covers nothing that is not covered before")


def make_content(row: Row, value: int) -> dict[str, Any]:
    """Return a snapshot that knows this fact, by how a payload or an import writes it."""
    parent, _, rest = row.key.partition("/")
    text = f"{value}00.00 W" if row.tolerance else str(value)
    member = name_member(row) if row.patterns else rest
    inside: dict[str, Any]
    match parent:
        case "cpu_count":
            inside = {"cpus": list(range(value))}
        case "cpu_list":
            inside = {"cpus": [value, value + 100]}
        case "gpus":
            inside = {"gpus": [{"index": "0", rest: text}]}
        case "gpu_by_index":
            inside = {"gpus": [{"index": member, "uuid": f"GPU-{value}"}]}
        case "blas_answered":
            inside = {"blas_loaded": [{"name": "OpenBLAS", "threads": value}]}
        case "loaded":
            inside = {"libraries": [FILES[rest].format(value)]}
        case "loaded_sums":
            file = {"soname": member, "sha256": f"{value}" * 64}
            inside = {"loaded": {"files": {f"/opt/{member}": file}}}
        case "programs":
            file = {"word": member, "path": "/opt/program", "sha256": f"{value}" * 64}
            inside = {"program": {"files": [file]}}
        case "linked":
            inside = {"program": {"libraries": {member: {"sha256": f"{value}" * 64}}}}
        case "variables":
            inside = {"variables": {"PATH": f"/{value}", member: text}}
        case "modules":
            return {"inside": {"schema": 1}, "modules": {"names": [f"{member}/{text}"]}}
        case _:
            inside = {parent: {member: text} if rest else text}
    return {"inside": inside}


def make_unknown(row: Row) -> dict[str, Any]:
    """Return a snapshot that knows something, and not this fact."""
    return {"inside": {"hostname": "node1"} if row.key != "hostname" else {"kernel": "6.1"}}


def list_rows() -> list[Any]:
    """Return the rows that are compared, each with its key as the name of its test."""
    return [
        pytest.param(row, id=re.sub(r"\{(\S+).*", r"\1", row.key)) for row in read_table().compared
    ]
