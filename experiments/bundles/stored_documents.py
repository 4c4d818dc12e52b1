"""The documents of a bundle about what runs have left: what is kept of output, names of files."""

from __future__ import annotations

from typing import Any

from experiments.bundles.plain_json import make_document
from experiments.models import Run, StoredRecord


def describe_left(run: Run, stored: StoredRecord | None) -> dict[str, bytes]:
    """Return the files of a run's folder about what it printed and left, by name.

    Of a run of before records were kept it is the end of its output.
    """
    if stored is None:
        return {"output.txt": run.output_tail.encode()} if run.output_tail else {}
    files = {"record.json": make_document(_describe_record(stored))}
    if output := stored.read_output():
        files["output.txt"] = output
    return files


def _describe_record(stored: StoredRecord) -> dict[str, Any]:
    """Return the record of a run. Which libraries were loaded stands in its snapshot."""
    return {
        "output": {
            "bytes": stored.output_bytes,
            "left_out_bytes": stored.output_left_out,
            "sha256": stored.output_sha256 or None,
        },
        "command_inside": stored.facts.get("argv") or [],
        "loaded_was_read": stored.facts.get("loaded") or {},
        "files": stored.list_files(),
        "files_left_out": stored.files_left_out,
    }
