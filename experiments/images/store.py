"""The image store: the images' own bytes on the server, each file under its sha256.

Beside them, for a day, copies of what runs have left on clusters.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from django.conf import settings


def path_of(sha256: str) -> Path:
    return folder() / sha256


def folder() -> Path:
    return _made(Path(settings.IMAGE_STORE) / "sha256")


def incoming(name: str = "") -> Path:
    """A file that is still being received; without a name, a new one."""
    return _made(Path(settings.IMAGE_STORE) / "incoming") / (name or uuid.uuid4().hex)


def copy_of(name: str) -> Path:
    """The copy of a run's file that somebody has asked for."""
    return _made(Path(settings.IMAGE_STORE) / "copies") / name


def adopt(received: Path, sha256: str) -> Path:
    """Give a whole file its place."""
    kept = path_of(sha256)
    received.chmod(0o640)
    return received.rename(kept)


def has(sha256: str) -> bool:
    return bool(sha256) and path_of(sha256).is_file()


def free_bytes() -> int:
    """How much room the store's file system has left."""
    return shutil.disk_usage(folder()).free


def forget(sha256: str) -> None:
    path_of(sha256).unlink(missing_ok=True)


def _made(path: Path) -> Path:
    path.mkdir(mode=0o750, parents=True, exist_ok=True)
    return path
