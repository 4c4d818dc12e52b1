"""Which files a program consists of: itself, scripts and programs among its arguments, and the
libraries that these are linked with.

None of them is executed: files are read, and the loader that a program names lists its libraries
without starting it. What a program starts or loads later is not seen. Call it after the program has
ended, so that reading its files does not warm the page cache for it.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from typing import Any, Dict, Iterator, List, Tuple

from .checkouts import describe_checkouts
from .elf import read_elf
from .executables import find_executable

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


def inspect(
    written_argv: List[str],
    argv: List[str],
    program: str,
    python: str,
    variables: Dict[str, str],
    *,
    with_patches: bool = True,
) -> Dict[str, Any]:
    """Return the files and linked libraries of a program that was started in this folder.

    `written_argv` is the command as the user wrote it, `argv` with its placeholders expanded: a
    file is named by its written argument, which is the same in every environment. `python` is the
    environment's own interpreter, whose version and packages are in the snapshot: its libraries
    are left out. `with_patches` has the text of what has changed in git checkouts.
    """
    files: List[Dict[str, Any]] = []
    libraries: Dict[str, Any] = {}
    own = os.path.realpath(python)
    for word, path in list(_find_files(written_argv, argv, program, variables))[:MOST_FILES]:
        files.append({"word": word, **_describe(path)})
        if os.path.realpath(path) == own:
            files[-1]["is_python"] = True
            continue
        for name, target in _list_libraries(path, variables):
            if name not in libraries:
                is_path = os.path.isabs(target)
                libraries[name] = _describe(target) if is_path else {"problem": target}
    own_folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    paths = [file["path"] for file in files if not file["path"].startswith(own_folder)]
    # Of what was sent with the job none is in a checkout.
    checkouts = describe_checkouts(paths, with_patches=with_patches)
    return {
        "files": files,
        "libraries": libraries,
        **({"checkouts": checkouts} if checkouts else {}),
    }


def _find_files(
    written_argv: List[str], argv: List[str], program: str, variables: Dict[str, str]
) -> Iterator[Tuple[str, str]]:
    """Yield each file of a program with the written argument that names it."""
    searched = variables.get("PATH")
    yield written_argv[0], program
    for word, path in _find_interpreter(written_argv[0], program, searched):
        yield word, path
    is_starter = bool(STARTERS.fullmatch(os.path.basename(argv[0])))
    for word, argument in zip(written_argv[1:], argv[1:]):
        path = argument
        if is_starter and os.sep not in argument:
            path = find_executable(argument, path=searched) or argument
        if not _is_program(path):
            continue
        yield word, path
        for name, interpreter in _find_interpreter(word, path, searched):
            yield name, interpreter
        is_starter = is_starter and bool(STARTERS.fullmatch(os.path.basename(path)))


def _find_interpreter(word: str, path: str, searched: Any) -> Iterator[Tuple[str, str]]:
    """Yield the interpreter of a script's first line: `#!/usr/bin/env python3` names python3."""
    first_line = _read_start(path, 256).partition(b"\n")[0].decode("utf-8", "replace")
    if not first_line.startswith("#!"):
        return
    command = first_line[2:].split()
    if command and os.path.basename(command[0]) == "env":
        command = [part for part in command[1:] if not part.startswith("-") and "=" not in part]
    interpreter = find_executable(command[0], path=searched) if command else None
    if interpreter:
        yield "#! of " + word, interpreter


def _is_program(path: str) -> bool:
    """Return whether a path is a script or a program, rather than data."""
    if not os.path.isfile(path):
        return False
    return bool(SCRIPTS.search(path)) or _read_start(path, 4).startswith((b"\x7fELF", b"#!"))


def _describe(path: str) -> Dict[str, Any]:
    """Return a file's real path, size and sha256, or the problem if it cannot be read."""
    facts: Dict[str, Any] = {"path": os.path.realpath(path)}
    try:
        facts["bytes"] = os.path.getsize(path)
        if facts["bytes"] > LARGEST:
            return {**facts, "problem": "too large to be read"}
        total = hashlib.sha256()
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                total.update(block)
    except (OSError, ValueError) as error:
        return {**facts, "problem": getattr(error, "strerror", None) or str(error)}
    return {**facts, "sha256": total.hexdigest(), **_describe_elf(path)}


def _describe_elf(path: str) -> Dict[str, Any]:
    """Return what a program says of itself: its loader, its linker's hash, and what it asks for."""
    try:
        with open(path, "rb") as file:
            elf = read_elf(file)
    except (OSError, ValueError):
        return {}
    if not elf:
        return {}
    facts = {"loader": elf.interpreter, "soname": elf.soname, "build_id": elf.build_id}
    return {name: value for name, value in facts.items() if value}


def _list_libraries(path: str, variables: Dict[str, str]) -> List[Tuple[str, str]]:
    """Return each library that a program is linked with: name, path or the loader's message."""
    loader = find_loader(path)
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
    return [(match[1], match[2]) for match in map(LISTED.match, lines) if match]


def find_loader(path: str) -> str:
    """Return the loader that an ELF program names; "" for other files and static programs."""
    try:
        with open(path, "rb") as file:
            elf = read_elf(file)
    except (OSError, ValueError):
        return ""
    return elf.interpreter if elf else ""


def _read_start(path: str, count: int) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(count)
    except (OSError, ValueError):
        return b""
