"""The image store: the images' own files on the server, each named by its sha256.

It also holds, for a day, copies of files that runs have left on clusters.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from django.conf import settings


def get_path(sha256: str) -> Path:
    """Return the path of a file in the store by its SHA-256."""
    return get_folder() / sha256


def get_folder() -> Path:
    """Return the folder of the store's files; make it if it is missing."""
    return _make_folder(Path(settings.IMAGE_STORE) / "sha256")


def make_incoming_path(name: str = "") -> Path:
    """Return the path of a file that is being received; without a name, a new path."""
    return _make_folder(Path(settings.IMAGE_STORE) / "incoming") / (name or uuid.uuid4().hex)


def copy_of(name: str) -> Path:
    """Return the path of the copy of a run's file."""
    return _make_folder(Path(settings.IMAGE_STORE) / "copies") / name


def adopt(received: Path, sha256: str) -> Path:
    """Move a complete file into the store and return its path."""
    kept = get_path(sha256)
    received.chmod(0o640)
    return received.rename(kept)


def has(sha256: str) -> bool:
    """Return whether the store has a file."""
    return bool(sha256) and get_path(sha256).is_file()


def count_free_bytes() -> int:
    """Return the free space of the store's file system in bytes."""
    return shutil.disk_usage(get_folder()).free


def delete(sha256: str) -> None:
    """Delete a file of the store, if it is there."""
    get_path(sha256).unlink(missing_ok=True)


def _make_folder(path: Path) -> Path:
    path.mkdir(mode=0o750, parents=True, exist_ok=True)
    return path
