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


def mark(*folders: Path) -> None:
    """Note that these folders of the cache are used now."""
    used = host.cache() / "used"
    used.mkdir(exist_ok=True)
    for folder in folders:
        (used / folder.name).touch()


def prune(days: float = DAYS) -> list[Path]:
    """Remove and return folders last used more than `days` days ago; none while a lab runs.

    A folder is marked before it is used, so that none in use is ever removed.
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
    """Return the name of the folder to which a log or an unfinished folder belongs."""
    return path.name.lstrip(".").removesuffix(".log").removesuffix(".partial")


def last_used(path: Path) -> float:
    """Return when it was marked, else made: seconds since the epoch."""
    marker = host.cache() / "used" / own_name(path)
    return max(file.stat().st_mtime for file in (path, marker) if file.exists())


def any_runs() -> bool:
    """Return whether a lab runs on this machine: each holds its ports' lock while it lives."""
    for lock in (host.cache() / "ports").glob("*"):
        handle = os.open(lock, os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
    return False
