"""The record of a run as one document: what ran, of what it consisted, and what it left."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from experiments.models import Run, StoredRecord
from experiments.models.segment import count_most_segments
from experiments.snapshots import list_patches

SCHEMA = "tare run record 1"
MODULE_VARIABLES = ("LOADEDMODULES", "_LMFILES_")


def describe_record(run: Run) -> dict[str, Any]:
    """Return the record of a run, as JSON. What was not recorded is named under `not_recorded`."""
    stored: StoredRecord | None = getattr(run, "stored_record", None)
    job, content = run.job, run.snapshot_content
    inside = content.get("inside") or {}
    return {
        "schema": SCHEMA,
        "run": {
            "uid": run.uid,
            "experiment": run.experiment_id,
            "plan_sha256": run.experiment.plan_hash or None,
            "workload": run.workload.name,
            "environment": run.environment.name,
            "scale": run.scale,
            "repeat": run.repeat,
            "run_order": run.position + 1,
            "state": run.state,
            "reason": run.reason,
            "exit_code": run.exit_code,
            "node": run.node,
            "began_at": run.began_at,
            "ended_at": run.ended_at,
        },
        "job": {
            "uid": job.uid,
            "attempt": job.attempt,
            "scheduler_id": job.scheduler_id,
            "directory": job.directory,
            "submitted_at": job.submitted_at,
            "payload_sha256": job.payload_hash or None,
            "script_sha256": hashlib.sha256(job.script.encode()).hexdigest() if job.script else "",
            "script": job.script,
        },
        "segments": [row.describe() for row in run.segments.select_related("job")]
        if count_most_segments(run.spec.get("workload", {})) > 1
        else [],
        "sent": run.spec,
        "command": {"outside": run.command, "inside": list_inside_command(stored)},
        "modules": list_modules(inside),
        "modules_outside": list_modules_outside(content),
        "snapshot": content,
        "loaded_was_read": (stored.facts.get("loaded") if stored else None) or {},
        "output": _describe_output(stored),
        "files": stored.list_files() if stored else [],
        "files_left_out": stored.files_left_out if stored else 0,
        "not_recorded": list_missing(run, content, stored),
    }


def list_inside_command(stored: StoredRecord | None) -> list[str]:
    """Return the command as it was started inside the environment; [] if it is not known."""
    argv = stored.facts.get("argv") if stored else None
    return [str(argument) for argument in argv] if isinstance(argv, list) else []


def list_modules(inside: Mapping[str, Any]) -> list[str]:
    """Return the environment modules that were loaded, as far as their variables came inside."""
    variables = inside.get("variables") or {}
    return [name for name in str(variables.get("LOADEDMODULES") or "").split(":") if name]


def list_modules_outside(content: Mapping[str, Any]) -> list[str]:
    """Return the environment modules that were loaded in the job's shell, outside the container."""
    modules = content.get("modules")
    names = modules.get("names") if isinstance(modules, Mapping) else None
    return [str(name) for name in names] if isinstance(names, list) else []


def write_patches(run: Run) -> str:
    """Return what had changed in the git checkouts of a run's program, each under its commit."""
    inside = run.snapshot_content.get("inside") or {}
    texts = []
    for folder, patch in list_patches(inside).items():
        commit = inside["program"]["checkouts"][folder].get("commit")
        texts.append(f"# {_make_line(folder)} at commit {_make_line(commit or 'unknown')}\n{patch}")
    return "".join(texts)


def _make_line(text: Any) -> str:
    return "".join(filter(str.isprintable, str(text)))


def list_missing(run: Run, content: Mapping[str, Any], stored: StoredRecord | None) -> list[str]:
    """Return a sentence for each part of the record that this run does not have."""
    inside = content.get("inside") or {}
    missing = []
    if stored is None:
        missing.append("Its whole output and the list of its files were not kept.")
    elif stored.output_left_out:
        missing.append(
            f"Of {stored.output_bytes:,} bytes of output {stored.output_left_out:,} in the "
            "middle were not kept."
        )
    if stored and stored.files_left_out:
        missing.append(f"{stored.files_left_out:,} files are not listed.")
    if not inside.get("loaded"):
        missing.append(_explain_unseen_libraries(run, stored))
    if run.spec.get("workload", {}).get("kind") == "command" and not inside.get("program"):
        missing.append("The files of its program were not described.")
    is_seen_inside = (inside.get("variables") or {}).keys() & set(MODULE_VARIABLES)
    if not is_seen_inside and not list_modules_outside(content):
        missing.append("No environment modules are known, outside or inside: none were loaded.")
    return missing


def _explain_unseen_libraries(run: Run, stored: StoredRecord | None) -> str:
    """Return why it is not known which libraries the processes of a run had loaded."""
    sentence = "Which libraries its processes had loaded was not seen"
    facts = (stored.facts.get("loaded") if stored else None) or {}
    if facts.get("readings") == 0:
        return f"{sentence}: its program ended before they were read for the first time."
    if run.state in (Run.State.FAILED, Run.State.CANCELLED):
        return f"{sentence}: it was ended before that could be written down."
    return f"{sentence}."


def _describe_output(stored: StoredRecord | None) -> dict[str, Any] | None:
    if stored is None:
        return None
    return {
        "bytes": stored.output_bytes,
        "left_out_bytes": stored.output_left_out,
        "sha256": stored.output_sha256 or None,
    }
