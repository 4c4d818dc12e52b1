"""The facts of one snapshot, named as in the table of confounders. Pure functions.

Whatever a snapshot holds, be it of another type than expected, gives texts or nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.confounder_table import NOT_READ, OF_ENDS, Row, Table, read_table
from experiments.program_files import LIBRARY, PROGRAM
from experiments.program_files import list_facts as list_program_facts

LONGEST = 200
"""Characters of a fact that are stored; of a longer one a check sum of all of it stands behind."""
MOST_OF_GROUP = 10_000
"""Facts of one group, such as packages, that are stored."""
ABSENT = {"variables": ("variables", "not set"), "loaded": ("libraries", "none")}
"""Of which part of a snapshot it can be told that a fact of a group is absent, and what stands for
it then."""
LOADED = {
    "cudnn": re.compile(r"libcudnn[a-z_0-9]*\.so\.?([0-9.]*)"),
    "cublas": re.compile(r"libcublas(?:Lt)?\.so\.?([0-9.]*)"),
    "cuda_runtime": re.compile(r"libcudart\.so\.?([0-9.]*)"),
    "cuda_driver": re.compile(r"libcuda\.so\.?([0-9.]*)"),
    "nccl": re.compile(r"libnccl\.so\.?([0-9.]*)"),
    "openmp": re.compile(r"(lib(?:gomp|iomp5|omp)(?:-[0-9a-f]+)?\.so[0-9.]*)"),
    "allocator": re.compile(r"(lib(?:jemalloc|tcmalloc|mimalloc)[a-z_]*\.so[0-9.]*)"),
}
"""What tells the version of a loaded library in the name of its file."""


def list_facts(content: Mapping[str, Any], table: Table | None = None) -> dict[str, str]:
    """Return the facts of one snapshot that a comparison rests on, by the names that pages print.

    Facts that the snapshot does not know are left out.
    """
    inside = content.get("inside")
    if not isinstance(inside, Mapping):
        return {}
    known = {**derive(inside), "modules": split_modules(content.get("modules"))}
    facts: dict[str, str] = {}
    table = table or read_table()
    for row in table.compared:
        if not row.patterns:
            text = _cut(write_text(_find_value(known, row))) or _name_absent(inside, row)
            facts |= {row.title: text} if text else {}
    for parent in table.groups:
        facts |= _list_group(table, parent, known.get(parent))
    return facts


def derive(inside: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a snapshot says, with what the table takes from several of its parts."""
    known = dict(inside)
    if isinstance(cpus := inside.get("cpus"), list) and cpus:
        known |= {"cpu_count": len(cpus), "cpu_list": write_ranges(cpus)}
    gpus = [gpu for gpu in _as_list(inside.get("gpus")) if isinstance(gpu, Mapping)]
    if gpus:
        known["gpus"] = gpus
        known.setdefault("gpu_model", _join(write_text(gpu.get("name")) for gpu in gpus))
        known["gpu_by_index"] = {
            write_text(gpu.get("index")) or "?": gpu.get("uuid") or gpu.get("name") for gpu in gpus
        }
    if isinstance(loaded := inside.get("blas_loaded"), list):
        known["blas_answered"] = _join(
            _describe_library(library) for library in loaded if isinstance(library, Mapping)
        )
    if "variables" not in inside and "tensorflow_variables" in inside:  # of imported logs
        known["variables"] = inside["tensorflow_variables"]
    known |= _describe_loaded(inside)
    program = dict(list_program_facts(inside.get("program")))
    for key, beginning in (("programs", PROGRAM), ("linked", LIBRARY)):
        known[key] = {
            name.removeprefix(beginning): text
            for name, text in program.items()
            if name.startswith(beginning)
        }
    return known


def split_modules(modules: Any) -> dict[str, str]:
    """Return the versions of the environment modules that were loaded outside, by their names.

    "gcc/13.2" is 13.2 of gcc; one without a version is "loaded".
    """
    names = modules.get("names") if isinstance(modules, Mapping) else None
    versions: dict[str, set[str]] = {}
    for module in _as_list(names):
        if isinstance(module, str) and module:
            name, slash, version = module.rpartition("/")
            versions.setdefault(name if slash else module, set()).add(
                version if slash else "loaded"
            )
    return {name: _join(texts) for name, texts in versions.items()}


def write_text(value: Any) -> str:
    """Return a fact as text; "" for none."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        parts = sorted((str(key), write_text(item)) for key, item in value.items())
        return ", ".join(f"{key} {text}" for key, text in parts)
    if isinstance(value, list | tuple):
        return ", ".join(map(write_text, value))
    return str(value)


def write_ranges(numbers: Sequence[Any]) -> str:
    """Return whole numbers as Linux writes them: "0-3,8"; anything else as it is."""
    if not all(type(number) is int for number in numbers):
        return write_text(list(numbers))
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{low}-{high}" if high > low else f"{low}" for low, high in ranges)


def _list_group(table: Table, parent: str, members: Any) -> Iterator[tuple[str, str]]:
    """Yield the facts of a group that the table does not name one by one."""
    if not isinstance(members, Mapping):
        return
    for rest, value in sorted(members.items(), key=str)[:MOST_OF_GROUP]:
        row = table.find_in_group(parent, str(rest))
        if row and row.grade and row.patterns and (text := _cut(write_text(value))):
            yield row.name(str(rest)[:LONGEST]), text


def _name_absent(inside: Mapping[str, Any], row: Row) -> str:
    """Return what stands for a fact that was looked for and is not there; "" if nobody looked."""
    part, text = ABSENT.get(row.parent, ("", ""))
    return text if part and isinstance(inside.get(part), Mapping | list) else ""


def _find_value(known: Mapping[str, Any], row: Row) -> Any:
    """Return the value at the key of a row: of a list of tables all values that differ."""
    parent, _, rest = row.key.partition("/")
    value = known.get(parent)
    if not rest:
        return value
    if isinstance(value, list):
        return _join(write_text(item.get(rest)) for item in value if isinstance(item, Mapping))
    return value.get(rest) if isinstance(value, Mapping) else None


def _describe_loaded(inside: Mapping[str, Any]) -> dict[str, Any]:
    """Return versions and check sums of loaded libraries: of all processes, if that was recorded,
    else the versions of those of the first one.
    """
    record = inside.get("loaded")
    files = record.get("files") if isinstance(record, Mapping) else None
    if not isinstance(files, Mapping):
        libraries = inside.get("libraries")
        return {"loaded": _find_versions(libraries) if isinstance(libraries, list) else None}
    sums = {
        write_text(file.get("soname")) or str(path).rpartition("/")[2]: _identify_loaded(file)
        for path, file in files.items()
        if isinstance(file, Mapping)
    }
    return {"loaded": _find_versions(list(files)), "loaded_sums": sums}


def _identify_loaded(file: Mapping[str, Any]) -> str:
    """Return the check sum of a loaded file, or that it was not read, whatever the reason."""
    if digest := file.get("sha256"):
        return f"sha256 {write_text(digest)[:12]}"
    if digest := file.get("ends_sha256"):
        return f"{OF_ENDS} {write_text(digest)[:12]}"
    return NOT_READ


def _find_versions(libraries: Sequence[Any]) -> dict[str, str]:
    """Return the versions in the names of the loaded libraries that the table asks for.

    `libcudnn.so.9` and `libcudnn_ops.so.9.1.0` are of one version, which the second one tells.
    """
    names = {str(path).rpartition("/")[2] for path in libraries}
    versions: dict[str, str] = {}
    for library, pattern in LOADED.items():
        matches = [match[1].strip(".") for name in names if (match := pattern.fullmatch(name))]
        longest = {
            text
            for text in matches
            if not any(other != text and other.startswith(f"{text}.") for other in matches)
        }
        if matches:
            versions[library] = _join(text or "without a version" for text in longest)
    return versions


def _describe_library(library: Mapping[str, Any]) -> str:
    """Return a loaded library as text: "OpenBLAS 0.3.31 (Haswell), threads 1"."""
    name_and_version = " ".join(
        str(library[key]) for key in ("name", "version") if library.get(key)
    )
    kernels = f" ({library['kernels']})" if library.get("kernels") else ""
    return f"{name_and_version}{kernels}" + (
        f", threads {library['threads']}" if library.get("threads") else ""
    )


def _cut(text: str) -> str:
    """Return a long text cut, with a check sum, so that it equals only itself."""
    if len(text) <= LONGEST:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{text[: LONGEST - 40]}... (sha256 {digest})"


def _join(texts: Any) -> str:
    return ", ".join(sorted(set(filter(None, texts))))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
