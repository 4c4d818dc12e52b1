"""Facts from the snapshots of runs, and the differences between them. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.program_files import list_facts as facts_of_program

# What stands in stored snapshots for the directories of a run and of its job, so that runs that met
# the same machine and software share one.
RUN_DIRECTORY, JOB_DIRECTORY = "{the run's directory}", "{the job's directory}"

# What must agree inside and outside the container for it to be the only difference.
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


def list_facts(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts of one snapshot that a comparison rests on, by the names that pages print.

    Facts that the snapshot does not know are left out.
    """
    inside = content.get("inside") or {}
    facts_by_name = {name: _text(_value_at(inside, path)) for path, name in INSIDE_FACTS.items()}
    for gpu in inside.get("gpus") or []:
        facts_by_name[f"GPU {gpu.get('index')}"] = _text(gpu.get("uuid") or gpu.get("name"))
    loaded_libraries = [_describe_library(library) for library in inside.get("blas_loaded") or []]
    facts_by_name["BLAS that answered"] = ", ".join(sorted(loaded_libraries))
    facts_by_name["CPUs at hand"] = _text(len(inside.get("cpus") or []) or None)
    for package, version in (inside.get("packages") or {}).items():
        facts_by_name[f"package {package}"] = version
    for name, value in (inside.get("tensorflow_variables") or {}).items():
        facts_by_name[f"variable {name}"] = value
    facts_by_name |= dict(facts_of_program(inside.get("program")))
    return {name: value for name, value in facts_by_name.items() if value}


def list_differences(
    baseline: Sequence[Mapping[str, str]], environment: Sequence[Mapping[str, str]]
) -> list[str]:
    """Return a line for each of the `facts` in which the runs of two environments differ.

    Node and GPU differ from block to block, so the sets of all runs' values are compared.
    """
    baseline_values, environment_values = _values_by_name(baseline), _values_by_name(environment)
    if not baseline_values or not environment_values:
        return []
    return list(_describe_differences(baseline_values, environment_values))


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
        yield prefix, _text(content)


def _describe_library(library: Mapping[str, Any]) -> str:
    """Return a loaded library as text: "OpenBLAS 0.3.31 (Haswell), threads 1"."""
    name_and_version = " ".join(
        str(library[key]) for key in ("name", "version") if library.get(key)
    )
    kernels = f" ({library['kernels']})" if library.get("kernels") else ""
    return f"{name_and_version}{kernels}" + (
        f", threads {library['threads']}" if library.get("threads") else ""
    )


def _describe_differences(
    baseline_values: dict[str, set[str]], environment_values: dict[str, set[str]]
) -> Iterator[str]:
    for name in sorted(baseline_values.keys() | environment_values.keys()):
        on_baseline, on_environment = (
            baseline_values.get(name, set()),
            environment_values.get(name, set()),
        )
        if on_baseline != on_environment:
            yield f"{name}: {_join(on_baseline)} on the baseline, {_join(on_environment)} here"


def _values_by_name(runs: Sequence[Mapping[str, str]]) -> dict[str, set[str]]:
    values: dict[str, set[str]] = {}
    for run in runs:
        for name, value in run.items():
            values.setdefault(name, set()).add(value)
    return values


def _value_at(content: Mapping[str, Any], path: str) -> Any:
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


def _join(values: set[str]) -> str:
    return ", ".join(sorted(values)) if values else "nothing"
