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
from typing import Any, Dict, Iterator, List, Optional, Tuple

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
LAUNCHED = re.compile(rb"#!/bin/sh\n#program (root/[^\n]+)\n#lister (ld-\d+)?\n")
"""The beginning of a launcher of an image's program outside of a container: launchers.py.

Its paths begin in the folder above the launcher's.
"""


class OwnFiles:
    """The files of the environment in which this process runs, with the program's variables."""

    def __init__(self, variables: Dict[str, str]) -> None:
        self._variables = variables

    def find_executable(self, name: str) -> Optional[str]:
        return find_executable(name, path=self._variables.get("PATH"))

    def is_file(self, path: str) -> bool:
        return os.path.isfile(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def find_real_path(self, path: str) -> str:
        return os.path.realpath(path)

    def read_start(self, path: str, count: int) -> bytes:
        try:
            with open(path, "rb") as file:
                return file.read(count)
        except (OSError, ValueError):
            return b""

    def open(self, path: str) -> Any:
        """Open a file to be read. Raises OSError or ValueError."""
        return open(path, "rb")

    def list_by_loader(self, loader: str, path: str) -> str:
        """Return what a loader prints of the libraries of a program."""
        try:
            answer = subprocess.run(
                [loader, "--list", path],
                env=self._variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
                timeout=30,
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            return ""
        return answer.stdout.decode("utf-8", "replace")


def inspect(
    written_argv: List[str],
    argv: List[str],
    program: str,
    python: str,
    place: Any,
    *,
    with_patches: bool = True,
) -> Dict[str, Any]:
    """Return the files and linked libraries of a program that was started in this folder.

    `written_argv` is the command as the user wrote it, `argv` with its placeholders expanded: a
    file is named by its written argument, which is the same in every environment. `python` is the
    environment's own interpreter, whose version and packages are in the snapshot: its libraries
    are left out; "" if there is none. `place` is an OwnFiles, or has its methods. `with_patches`
    has the text of what has changed in git checkouts.
    """
    named = list(_find_files(written_argv, argv, program, place))
    facts = describe_files(named, python, place)
    own_folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    paths = [
        file["path"]
        for file in facts["files"]
        if not file["path"].startswith(own_folder)  # sent with the job, and so in no checkout
        and (isinstance(place, OwnFiles) or _is_here(file))
    ]
    checkouts = describe_checkouts(paths, with_patches=with_patches)
    return {**facts, **({"checkouts": checkouts} if checkouts else {})}


def describe_files(named: List[Tuple[str, str]], python: str, place: Any) -> Dict[str, Any]:
    """Return files, each with the word that names it, and the libraries that they link."""
    files: List[Dict[str, Any]] = []
    libraries: Dict[str, Any] = {}
    own = place.find_real_path(find_launched(python, place)[0]) if python else ""
    for word, named_path in named[:MOST_FILES]:
        path, lister = find_launched(named_path, place)
        files.append({"word": word, **_describe(path, place)})
        if files[-1]["path"] == own:
            files[-1]["is_python"] = True
            continue
        for name, target in _list_libraries(files[-1], lister, place):
            if name not in libraries:
                is_path = os.path.isabs(target)
                libraries[name] = _describe(target, place) if is_path else {"problem": target}
    return {"files": files, "libraries": libraries}


def _is_here(file: Dict[str, Any]) -> bool:
    """Return whether a file of an environment is the same here, outside of it."""
    own = OwnFiles({})
    is_candidate = "sha256" in file and os.path.isfile(file["path"])
    return is_candidate and _describe(file["path"], own).get("sha256") == file["sha256"]


def _find_files(
    written_argv: List[str], argv: List[str], program: str, place: Any
) -> Iterator[Tuple[str, str]]:
    """Yield each file of a program with the written argument that names it."""
    yield written_argv[0], program
    for word, path in _find_interpreter(written_argv[0], program, place):
        yield word, path
    is_starter = bool(STARTERS.fullmatch(os.path.basename(argv[0])))
    for word, argument in zip(written_argv[1:], argv[1:]):
        path = argument
        if is_starter and os.sep not in argument:
            path = place.find_executable(argument) or argument
        if not _is_program(path, place):
            continue
        yield word, path
        for name, interpreter in _find_interpreter(word, path, place):
            yield name, interpreter
        is_starter = is_starter and bool(STARTERS.fullmatch(os.path.basename(path)))


def _find_interpreter(word: str, path: str, place: Any) -> Iterator[Tuple[str, str]]:
    """Yield the interpreter of a script's first line: `#!/usr/bin/env python3` names python3."""
    path = find_launched(path, place)[0]
    command = split_first_line(place.read_start(path, 256))
    if command and os.path.basename(command[0]) == "env":
        command = [part for part in command[1:] if not part.startswith("-") and "=" not in part]
    interpreter = place.find_executable(command[0]) if command else None
    if interpreter:
        yield "#! of " + word, interpreter


def split_first_line(start: bytes) -> List[str]:
    """Return the interpreter that a script's first line names, and its arguments; [] if none."""
    first_line = start.partition(b"\n")[0].decode("utf-8", "replace")
    return first_line[2:].split() if first_line.startswith("#!") else []


def _is_program(path: str, place: Any) -> bool:
    """Return whether a path is a script or a program, rather than data."""
    if not place.is_file(path):
        return False
    starts = (b"\x7fELF", b"#!")
    return bool(SCRIPTS.search(path)) or place.read_start(path, 4).startswith(starts)


def _describe(path: str, place: Any) -> Dict[str, Any]:
    """Return a file's real path, size and sha256, or the problem if it cannot be read."""
    facts: Dict[str, Any] = {"path": place.find_real_path(path)}
    elf = None
    try:
        with place.open(path) as file:
            facts["bytes"] = file.seek(0, os.SEEK_END)
            if facts["bytes"] > LARGEST:
                return {**facts, "problem": "too large to be read"}
            file.seek(0)
            total = hashlib.sha256()
            for block in iter(lambda: file.read(1 << 20), b""):
                total.update(block)
            elf = read_elf(file)
    except (OSError, ValueError) as error:
        return {**facts, "problem": getattr(error, "strerror", None) or str(error)}
    facts["sha256"] = total.hexdigest()
    if elf:
        own = {"loader": elf.interpreter, "soname": elf.soname, "build_id": elf.build_id}
        facts.update((name, value) for name, value in own.items() if value)
    return facts


def find_launched(path: str, place: Any) -> Tuple[str, str]:
    """Return the program that a launcher starts, and what lists its libraries ("": its loader).

    Of any other path, that path.
    """
    launched = LAUNCHED.match(place.read_start(path, 256)) if path else None
    if launched is None:
        return path, ""
    program, lister = os.fsdecode(launched[1]), os.fsdecode(launched[2] or b"")
    folder = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    return os.path.join(folder, program), os.path.join(folder, lister) if lister else ""


def _list_libraries(file: Dict[str, Any], lister: str, place: Any) -> List[Tuple[str, str]]:
    """Return each library that a program is linked with: name, path or the loader's message."""
    if not file.get("loader"):
        return []
    lines = place.list_by_loader(lister or file["loader"], file["path"]).splitlines()
    return [(match[1], match[2]) for match in map(LISTED.match, lines) if match]
