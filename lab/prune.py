"""Remove from the cache what no version of the lab has used for a while.

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
KINDS = ("rootfs-*", "base-*", "software/*-*")  # unfinished ones, too


def mark_used(*folders: Path) -> None:
    """Note that these folders of the cache are used now."""
    used = host.cache_folder() / "used"
    used.mkdir(exist_ok=True)
    for folder in folders:
        (used / folder.name).touch()


def prune(days: float = DAYS) -> list[Path]:
    """Remove and return folders last used more than `days` days ago; none while a lab runs.

    A folder is marked before it is used, so that none in use is ever removed.
    """
    if is_any_lab_running():
        return []
    removed = []
    with host.hold_lock(host.cache_folder() / "prune.lock"):
        for path in list_entries():
            unused = (time.time() - read_last_use(path)) / 86400
            if unused > days:
                host.say(f"removing {path} from the cache: not used for {unused:.0f} days")
                subprocess.run(["rm", "-rf", "--one-file-system", "--", str(path)], check=True)
                removed.append(path)
    return removed


def list_entries() -> list[Path]:
    return sorted(path for kind in KINDS for path in host.cache_folder().glob(kind))


def find_folder_name(path: Path) -> str:
    """Return the name of the folder to which a log or an unfinished folder belongs."""
    return path.name.lstrip(".").removesuffix(".log").removesuffix(".partial")


def read_last_use(path: Path) -> float:
    """Return when it was marked, else made: seconds since the epoch."""
    marker = host.cache_folder() / "used" / find_folder_name(path)
    return max(file.stat().st_mtime for file in (path, marker) if file.exists())


def is_any_lab_running() -> bool:
    """Return whether a lab runs on this machine: each holds its ports' lock while it lives."""
    for lock in (host.cache_folder() / "ports").glob("*"):
        handle = os.open(lock, os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
    return False
