"""The paths and facts of snapshots, for storing and for pages. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from experiments.snapshot_facts import write_text

# What stands in stored snapshots for the directories of a run and of its job, so that runs that met
# the same machine and software share one.
RUN_DIRECTORY, JOB_DIRECTORY = "{the run's directory}", "{the job's directory}"


def replace_paths(content: Any, directory: str, folder: str = "") -> Any:
    """Return a snapshot with words for a job's directory, and for its run's `folder` in it."""
    pairs = [(directory, JOB_DIRECTORY)] if directory else []
    if directory and folder:
        pairs.insert(0, (f"{directory}/{folder}", RUN_DIRECTORY))
    return _replace(content, pairs)


def restore_paths(content: Any, directory: str, folder: str) -> Any:
    """Return a snapshot with the directories of a job and its run in place of the words for them.

    The inverse of `replace_paths`.
    """
    return _replace(content, [(RUN_DIRECTORY, f"{directory}/{folder}"), (JOB_DIRECTORY, directory)])


def _replace(content: Any, pairs: Sequence[tuple[str, str]]) -> Any:
    if isinstance(content, str):
        for old, new in pairs:
            content = content.replace(old, new)
        return content
    if isinstance(content, Mapping):
        return {key: _replace(value, pairs) for key, value in content.items()}
    if isinstance(content, list):
        return [_replace(item, pairs) for item in content]
    return content


def list_patches(inside: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of what had changed in git checkouts of a run's program, by their folders."""
    program = inside.get("program")
    checkouts = program.get("checkouts") if isinstance(program, Mapping) else None
    if not isinstance(checkouts, Mapping):
        return {}
    return {
        str(folder): facts["patch"]
        for folder, facts in sorted(checkouts.items())
        if isinstance(facts, Mapping) and isinstance(facts.get("patch"), str) and facts["patch"]
    }


def shorten_patches(inside: Mapping[str, Any]) -> dict[str, Any]:
    """Return a snapshot from inside with check sums in place of patches, for tables of facts."""
    if not (patches := list_patches(inside)):
        return dict(inside)
    program = inside["program"]
    checkouts = {
        folder: {**facts, "patch": f"sha256 {sha256(patches[folder].encode()).hexdigest()[:12]}"}
        if folder in patches
        else facts
        for folder, facts in program["checkouts"].items()
    }
    return {**inside, "program": {**program, "checkouts": checkouts}}


def find_differing_facts(
    first: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, str]]:
    """Return, by process, the facts of a run's other processes that differ from the first one's.

    Facts in common are left out, so that many processes take little room.
    """
    if not others:  # most runs have one process
        return {}
    first_facts = dict(flatten(first))
    differing_by_process = {}
    for name, content in others.items():
        process_facts = dict(flatten(content))
        differing_facts = {
            path: process_facts.get(path, "") for path in first_facts.keys() | process_facts.keys()
        }
        differing_facts = {
            path: text
            for path, text in sorted(differing_facts.items())
            if text != first_facts.get(path, "")
        }
        if differing_facts:
            differing_by_process[name] = differing_facts
    return differing_by_process


def flatten(content: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield (path, text) for every fact of a snapshot, for a table that can be searched."""
    if isinstance(content, Mapping):
        for key in sorted(content):
            yield from flatten(content[key], f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(content, list) and content and isinstance(content[0], Mapping):
        for index, item in enumerate(content):
            yield from flatten(item, f"{prefix}[{index}]")
    elif isinstance(content, list):
        yield prefix, ", ".join(map(str, content))
    else:
        yield prefix, write_text(content)
