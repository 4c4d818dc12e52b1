"""Removes from the cache what no version of the lab has used for a while.

Every change of a recipe makes new root file systems and images, of gigabytes, beside the old ones.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from pathlib import Path

from lab import host

DAYS = 14
KINDS = ("rootfs-*", "base-*", "software/*-*")  # what was begun and never finished, too


def mark(*folders: Path) -> None:
    """Notes that these folders of the cache are used now."""
    used = host.cache() / "used"
    used.mkdir(exist_ok=True)
    for folder in folders:
        (used / folder.name).touch()


def prune(days: float = DAYS) -> list[Path]:
    """Removes and returns what was last used before `days` days; nothing while a lab runs.

    Whoever is about to use something has marked it first, so that is never what is removed here.
    """
    if any_runs():
        return []
    removed = []
    with host.locked(host.cache() / "prune.lock"):
        for path in entries():
            unused = (time.time() - last_used(path)) / 86400
            if unused > days:
                host.say(f"removing {path} from the cache: not used for {unused:.0f} days")
                subprocess.run(["rm", "-rf", "--one-file-system", "--", str(path)], check=True)
                removed.append(path)
    return removed


def entries() -> list[Path]:
    return sorted(path for kind in KINDS for path in host.cache().glob(kind))


def own_name(path: Path) -> str:
    """Of the folder that a log, or a folder never finished, belongs to."""
    return path.name.lstrip(".").removesuffix(".log").removesuffix(".partial")


def last_used(path: Path) -> float:
    """When it was marked, else made: seconds since the epoch."""
    marked = host.cache() / "used" / own_name(path)
    return max(found.stat().st_mtime for found in (path, marked) if found.exists())


def any_runs() -> bool:
    """Whether a lab of this machine runs: each holds its ports' lock for as long as it lives."""
    for lock in (host.cache() / "ports").glob("*"):
        handle = os.open(lock, os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
    return False
