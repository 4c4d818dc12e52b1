"""Programs on PATH, without `shutil`, whose import takes longer than looking for them."""

from __future__ import annotations

import os
from typing import Optional


def find_executable(name: str, path: Optional[str] = None) -> Optional[str]:
    """Return the file that this command starts, as `shutil.which` does; None if there is none.

    `path` is searched in place of $PATH.
    """
    if os.path.dirname(name):
        return name if _is_executable(name) else None
    searched = os.environ.get("PATH", os.defpath) if path is None else path
    for folder in searched.split(os.pathsep) if searched else ():
        candidate = os.path.join(folder, name)
        if _is_executable(candidate):
            return candidate
    return None


def _is_executable(path: str) -> bool:
    if "\0" in path:  # a file's first line may hold anything; no path does
        return False
    return os.access(path, os.F_OK | os.X_OK) and not os.path.isdir(path)
