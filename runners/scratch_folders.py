"""Folders for temporary files that are removed even where the process that made one was killed.

Whoever works in such a folder holds a lock on it, which the kernel drops with the process. The next
one that opens a folder removes those that nobody holds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

BEGINNING = "tare-scratch-"


@contextlib.contextmanager
def open_scratch_folder(kind: str) -> Iterator[Path]:
    """Hand out an empty folder, and remove it afterwards. `kind` is a part of its name."""
    remove_abandoned_folders()
    folder, descriptor = _make_locked_folder(kind)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def remove_abandoned_folders() -> int:
    """Remove the folders that processes of this account have left; return how many there were."""
    removed = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{BEGINNING}*"):
        descriptor = _lock(folder)
        if descriptor is None:
            continue
        try:
            if os.fstat(descriptor).st_uid == os.getuid():
                shutil.rmtree(folder, ignore_errors=True)
                removed += 1
        finally:
            os.close(descriptor)
    return removed


def _make_locked_folder(kind: str) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{BEGINNING}{kind}-"))
        descriptor = _lock(folder)
        if descriptor is not None:
            if folder.is_dir():
                return folder, descriptor
            os.close(descriptor)  # another process took it for abandoned before it was locked


def _lock(folder: Path) -> int | None:
    """Return a descriptor that holds a folder; None where somebody does, or it is no folder."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
