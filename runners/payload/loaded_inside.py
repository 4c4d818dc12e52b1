"""What the processes of a run had loaded, where the node's Python records it: the same record as
`loaded.py`'s, of files that the environment's shell finds and reads."""

from __future__ import annotations

import hashlib
import os
import time
from typing import Any, Dict, Iterable

from .elf import read_elf
from .loaded import DELETED, HOMES, MOST_FILES, MOST_PATH_BYTES, NOTABLE

MOST_SECONDS = 2.0
"""For all check sums. A file takes some milliseconds, behind PRoot some ten."""
MOST_LOOKS = 12
"""Of a path, as the kernel names it, so many ends are looked for in the environment."""


def describe(paths: Iterable[str], place: Any) -> Dict[str, Any]:
    """Return the loaded files by path, with their identity, as JSON. `place`: a FilesInside."""
    began = time.perf_counter()
    listed = sorted(paths)
    room, prefix = MOST_PATH_BYTES, ""
    files: Dict[str, Dict[str, Any]] = {}
    chosen = []
    for path in listed[:MOST_FILES]:
        room -= len(path)
        if room < 0:
            break
        chosen.append(path)
    for path in sorted(chosen, key=lambda path: not NOTABLE.search(os.path.basename(path))):
        if path.endswith(DELETED):
            files[path[: -len(DELETED)]] = {"problem": "deleted meanwhile"}
            continue
        if time.perf_counter() - began > MOST_SECONDS:
            name = path[len(prefix) :] if prefix and path.startswith(prefix + "/") else path
            files[name] = {"problem": "there was no time to read it"}
            continue
        here = _find_here(path, prefix, place)
        if not here:
            files[path] = {"problem": "not found"}
            continue
        prefix = path[: -len(here)]
        files[here] = _identify(here, place)
        if HOMES.match(here):
            files[here]["home"] = True
    unlisted = len(listed) - len(files)
    return {"files": files, **({"unlisted": unlisted} if unlisted > 0 else {})}


def _find_here(path: str, prefix: str, place: Any) -> str:
    """Return where the environment has a loaded file; "" if nowhere.

    Behind PRoot the kernel names the node's path, of which only the end is right inside. What
    precedes it is tried first as it was for another file, `prefix`.
    """
    parts = path.split("/")
    ends = ["/" + "/".join(parts[first:]) for first in range(1, len(parts))][:MOST_LOOKS]
    if prefix and path.startswith(prefix + "/"):
        ends.insert(0, path[len(prefix) :])
    return next((end for end in ends if place.is_file(end)), "")


def _identify(path: str, place: Any) -> Dict[str, Any]:
    """Return size, check sum and the names that a file has of itself."""
    try:
        with place.open(path) as file:
            size = file.seek(0, os.SEEK_END)
            elf = read_elf(file)
            file.seek(0)
            total = hashlib.sha256()
            for block in iter(lambda: file.read(1 << 20), b""):
                total.update(block)
    except (OSError, ValueError) as error:
        return {"problem": getattr(error, "strerror", None) or str(error)}
    facts = {"bytes": size, "sha256": total.hexdigest()}
    if elf:
        names = {"soname": elf.soname, "build_id": elf.build_id}
        facts.update({name: value for name, value in names.items() if value})
    return facts
