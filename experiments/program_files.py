"""The files of a run's program, as facts by which two environments are compared. Pure functions.

`runners/payload/programs.py` reads them inside. The system's shells and what only starts another
program are what an image is made of, as its C library is: they are recorded and not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

PROGRAM, LIBRARY = "program ", "library "
"""The beginning of the names of these facts."""
SYSTEM = re.compile(
    r"(ba|da|a|k|z|c|tc)?sh|busybox|coreutils|env|nice|ionice|nohup|setsid|stdbuf|time|timeout"
    r"|taskset|numactl|chrt|prlimit|xargs"
)
C_LIBRARY = re.compile(
    r"(ld-|linux-vdso|lib(c|m|mvec|pthread|dl|rt|resolv|util|nsl|anl|crypt|c\.musl.*)\.so).*"
)
ENVIRONMENT_S = "the environment’s Python"
NOT_INSPECTED = "The program itself was not inspected."
SHOWN = 12
"""Letters of a check sum that are shown."""
NAMED = 4


def list_facts(content: Any) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of the facts of the program that a comparison rests on."""
    if not isinstance(content, Mapping):
        return
    files = content.get("files")
    for file in files if isinstance(files, list) else []:
        if not isinstance(file, Mapping) or _is_of_the_system(file):
            continue
        name = str(file.get("word", ""))[:80]
        yield PROGRAM + name, ENVIRONMENT_S if file.get("is_python") else _identity(file)
    libraries = content.get("libraries")
    for name, file in libraries.items() if isinstance(libraries, Mapping) else ():
        if isinstance(file, Mapping) and not C_LIBRARY.fullmatch(str(name)):
            yield LIBRARY + str(name)[:80], _identity(file)


def describe_programs(
    baseline: Sequence[Mapping[str, str]], environment: Sequence[Mapping[str, str]]
) -> str:
    """Return in a sentence what was inspected of a program, by the facts of all runs of both."""
    runs = [*baseline, *environment]
    if not (baseline and environment) or not all(any(_programs(run)) for run in runs):
        return NOT_INSPECTED
    files = sorted({name for run in runs for name in _programs(run)})
    libraries = {name for run in runs for name in run if name.startswith(LIBRARY)}
    differing = sorted(
        name
        for name in {*files, *libraries}
        if {run.get(name) for run in baseline} != {run.get(name) for run in environment}
    )
    if differing:
        verb = "differs" if len(differing) == 1 else "differ"
        return f"The program is another one on both sides: {_listed(differing)} {verb}."
    count = len(libraries)
    linked = f" and {count} linked librar{'y' if count == 1 else 'ies'}" * bool(count)
    names = _listed([name.removeprefix(PROGRAM) for name in files])
    return f"The program was inspected in every run and is the same on both sides: {names}{linked}."


def _programs(run: Mapping[str, str]) -> Iterator[str]:
    return (name for name in run if name.startswith(PROGRAM))


def _is_of_the_system(file: Mapping[str, Any]) -> bool:
    return bool(SYSTEM.fullmatch(str(file.get("path", "")).rpartition("/")[2]))


def _identity(file: Mapping[str, Any]) -> str:
    """Return the check sum, or why there is none: a file that nobody could read equals no other."""
    if sha256 := file.get("sha256"):
        return f"sha256 {str(sha256)[:SHOWN]}"
    where = f" ({file['path']}, {file.get('bytes')} bytes)" if file.get("path") else ""
    return f"not read: {file.get('problem', 'no reason')}{where}"[:200]


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
