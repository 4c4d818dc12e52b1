"""What two snapshots say of one another. Pure: dictionaries in, words out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.program_files import facts as facts_of_program

# What must agree on both sides of the wall for the container to be the only difference.
# The operating system, libc and PATH may differ: they are what an image is made of.
INSIDE_FACTS = {
    "hostname": "node",
    "kernel": "kernel",
    "machine": "architecture",
    "cpu": "CPU",
    "cpu_cores": "CPU cores",
    "gpu_driver": "GPU driver",
    "python.version": "Python",
    "python.implementation": "Python implementation",
    "blas": "BLAS",
    # What imported logs say.
    "gpus_visible": "visible GPUs",
    "gpu_model": "GPU model",
    "threads": "TensorFlow's threads",
    "day": "day",
}


def facts(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts of one snapshot that a comparison rests on, by their names in words."""
    inside = content.get("inside") or {}
    found = {name: _text(_at(inside, path)) for path, name in INSIDE_FACTS.items()}
    for gpu in inside.get("gpus") or []:
        found[f"GPU {gpu.get('index')}"] = _text(gpu.get("uuid") or gpu.get("name"))
    answered = [_library(one) for one in inside.get("blas_loaded") or []]
    found["BLAS that answered"] = ", ".join(sorted(answered))
    found["CPUs at hand"] = _text(len(inside.get("cpus") or []) or None)
    for package, version in (inside.get("packages") or {}).items():
        found[f"package {package}"] = version
    for name, value in (inside.get("tensorflow_variables") or {}).items():
        found[f"variable {name}"] = value
    found |= dict(facts_of_program(inside.get("program")))
    return {name: value for name, value in found.items() if value}


def differences(
    baseline: Sequence[Mapping[str, str]], environment: Sequence[Mapping[str, str]]
) -> list[str]:
    """Return where the runs of two environments, by the `facts` of each, differ in more than the
    container.

    Node and GPU are facts of the run: blocks differ in them. They count only when the sets do.
    """
    ours, theirs = _values(baseline), _values(environment)
    if not ours or not theirs:
        return []
    return list(_told(ours, theirs))


def differing(
    first: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, str]]:
    """Return what the other processes of a run saw otherwise than its first one: facts by name.

    What they have in common is said once, so that many processes take little room.
    """
    known = dict(flatten(first))
    found = {}
    for name, content in others.items():
        told = dict(flatten(content))
        odd = {path: told.get(path, "") for path in known.keys() | told.keys()}
        odd = {path: text for path, text in sorted(odd.items()) if text != known.get(path, "")}
        if odd:
            found[name] = odd
    return found


def flatten(content: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield (path, text) for every fact of a snapshot, to be searched and read in a table."""
    if isinstance(content, Mapping):
        for key in sorted(content):
            yield from flatten(content[key], f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(content, list) and content and isinstance(content[0], Mapping):
        for index, item in enumerate(content):
            yield from flatten(item, f"{prefix}[{index}]")
    elif isinstance(content, list):
        yield prefix, ", ".join(map(str, content))
    else:
        yield prefix, _text(content)


def _library(one: Mapping[str, Any]) -> str:
    """Return a loaded library in words: "OpenBLAS 0.3.31 (Haswell), threads 1"."""
    said = " ".join(str(one[key]) for key in ("name", "version") if one.get(key))
    kernels = f" ({one['kernels']})" if one.get("kernels") else ""
    return f"{said}{kernels}" + (f", threads {one['threads']}" if one.get("threads") else "")


def _told(ours: dict[str, set[str]], theirs: dict[str, set[str]]) -> Iterator[str]:
    for name in sorted(ours.keys() | theirs.keys()):
        here, there = ours.get(name, set()), theirs.get(name, set())
        if here != there:
            yield f"{name}: {_list(here)} on the baseline, {_list(there)} here"


def _values(runs: Sequence[Mapping[str, str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for run in runs:
        for name, value in run.items():
            found.setdefault(name, set()).add(value)
    return found


def _at(content: Mapping[str, Any], path: str) -> Any:
    value: Any = content
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(item)}" for key, item in sorted(value.items()))
    return str(value)


def _list(values: set[str]) -> str:
    return ", ".join(sorted(values)) if values else "nothing"
