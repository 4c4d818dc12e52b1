"""Which files a program consists of: itself, scripts and programs among its arguments, and the
libraries that these are linked with.

Nothing of them is executed: files are read, and the loader that a program names lists its libraries
without starting it. What a program starts or loads later is not seen. To be called when the program
has ended, so that reading its files warms no cache for it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
import subprocess
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

SCRIPTS = re.compile(r"\.(py|pyz|sh|bash|csh|zsh|pl|rb|r|jl|lua|tcl|awk|js|m|jar)$", re.IGNORECASE)
STARTERS = re.compile(
    r"env|nice|ionice|nohup|setsid|stdbuf|time|timeout|taskset|numactl|chrt|prlimit|xargs"
    r"|mpirun|mpiexec(\.\w+)?|srun|orterun|prterun|torchrun|horovodrun|nsys|ncu|perf|strace"
)
"""Programs that start the next one on PATH among their arguments."""
LISTED = re.compile(r"^\s*(\S.*?) => (.*?)(?: \(0x[0-9a-f]+\))?$")
LARGEST = 1 << 30
"""Bytes of a file that is read for its check sum."""
MOST_FILES = 50
PT_INTERP = 3


class Header(NamedTuple):
    """Of ELF in 64 or 32 bits: how its header and a program header are packed."""

    file: str
    segment: str
    places: Tuple[int, int]
    """Where offset and size stand among the fields of a segment."""


HEADERS = {
    2: Header("HHIQQQIHHHHHH", "IIQQQQQQ", (2, 5)),
    1: Header("HHIIIIIHHHHHH", "IIIIIIII", (1, 4)),
}


def inspect(
    words: List[str], argv: List[str], program: str, python: str, variables: Dict[str, str]
) -> Dict[str, Any]:
    """Return the files and linked libraries of a program that was started in this folder.

    `words` is the command as it was written, `argv` what it became: a file is named by its word,
    which is the same in every environment. `python` is the environment's own interpreter, whose
    version and packages stand in the snapshot: its libraries are left out.
    """
    files: List[Dict[str, Any]] = []
    libraries: Dict[str, Any] = {}
    own = os.path.realpath(python)
    for word, path in list(_files(words, argv, program, variables))[:MOST_FILES]:
        files.append({"word": word, **_described(path)})
        if os.path.realpath(path) == own:
            files[-1]["is_python"] = True
            continue
        for name, place in _linked(path, variables):
            if name not in libraries:
                is_there = os.path.isabs(place)
                libraries[name] = _described(place) if is_there else {"problem": place}
    return {"files": files, "libraries": libraries}


def _files(
    words: List[str], argv: List[str], program: str, variables: Dict[str, str]
) -> Iterator[Tuple[str, str]]:
    """Yield each file of a program by the word that names it."""
    searched = variables.get("PATH")
    yield words[0], program
    for word, path in _interpreters(words[0], program, searched):
        yield word, path
    starts = bool(STARTERS.fullmatch(os.path.basename(argv[0])))
    for word, argument in zip(words[1:], argv[1:]):
        path = argument
        if starts and os.sep not in argument:
            path = shutil.which(argument, path=searched) or argument
        if not _is_program(path):
            continue
        yield word, path
        for name, interpreter in _interpreters(word, path, searched):
            yield name, interpreter
        starts = starts and bool(STARTERS.fullmatch(os.path.basename(path)))


def _interpreters(word: str, path: str, searched: Any) -> Iterator[Tuple[str, str]]:
    """Yield what a script names in its first line: `#!/usr/bin/env python3` names python3."""
    first = _beginning(path, 256).partition(b"\n")[0].decode("utf-8", "replace")
    if not first.startswith("#!"):
        return
    named = first[2:].split()
    if named and os.path.basename(named[0]) == "env":
        named = [one for one in named[1:] if not one.startswith("-") and "=" not in one]
    found = shutil.which(named[0], path=searched) if named else None
    if found:
        yield "#! of " + word, found


def _is_program(path: str) -> bool:
    """Whether a word is the name of a script or of a program here, rather than of data."""
    if not os.path.isfile(path):
        return False
    return bool(SCRIPTS.search(path)) or _beginning(path, 4).startswith((b"\x7fELF", b"#!"))


def _described(path: str) -> Dict[str, Any]:
    """Return a file's own path, size and sha256; why not, where it cannot be read."""
    found: Dict[str, Any] = {"path": os.path.realpath(path)}
    try:
        found["bytes"] = os.path.getsize(path)
        if found["bytes"] > LARGEST:
            return {**found, "problem": "too large to be read"}
        total = hashlib.sha256()
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                total.update(block)
    except (OSError, ValueError) as error:
        return {**found, "problem": getattr(error, "strerror", None) or str(error)}
    return {**found, "sha256": total.hexdigest()}


def _linked(path: str, variables: Dict[str, str]) -> List[Tuple[str, str]]:
    """Return name and place of the libraries that the loader would load with a program."""
    loader = loader_of(path)
    if not loader:
        return []
    try:
        answer = subprocess.run(
            [loader, "--list", os.path.realpath(path)],
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            timeout=30,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
    lines = answer.stdout.decode("utf-8", "replace").splitlines()
    return [(found[1], found[2]) for found in map(LISTED.match, lines) if found]


def loader_of(path: str) -> str:
    """Return the loader that an ELF program names; "" where it is none, or is linked statically."""
    try:
        with open(path, "rb") as file:
            identity = file.read(16)
            header = HEADERS.get(identity[4]) if identity[:4] == b"\x7fELF" else None
            if header is None:
                return ""
            order = "<" if identity[5] == 1 else ">"
            fields = _unpack(order + header.file, file)
            start, size, count = fields[4], fields[8], fields[9]
            for number in range(min(count, 1000)):
                file.seek(start + number * size)
                segment = _unpack(order + header.segment, file)
                if segment[0] == PT_INTERP:
                    offset, length = (segment[place] for place in header.places)
                    file.seek(offset)
                    return file.read(min(length, 4096)).rstrip(b"\0").decode()
    except (OSError, ValueError, IndexError, struct.error, OverflowError):
        pass
    return ""


def _unpack(form: str, file: Any) -> Tuple[Any, ...]:
    return struct.unpack(form, file.read(struct.calcsize(form)))


def _beginning(path: str, count: int) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(count)
    except (OSError, ValueError):
        return b""
