"""Runs that the node's Python records, made as the job script makes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from runners.payload import read_payload_files
from runners.shapes import INSIDE
from runners.untrusted import parse_document

SHELLS = [path for path in ("/bin/dash", "/bin/bash", "/bin/busybox") if os.path.exists(path)]


def link_shell(folder: Path, shell: str) -> str:
    """Return a link to a shell by the name sh: BusyBox goes by the name that it is called by."""
    link = folder / "bin" / "sh"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(shell)
    return str(link)


class Ran:
    """One run as the job script makes it, with a wall of these words before the shell."""

    def __init__(
        self,
        folder: Path,
        parameters: dict[str, Any],
        *,
        wall: tuple[str, ...] = (),
        shell: str = "/bin/sh",
        sent: dict[str, bytes] | None = None,
        workload: str = "command",
        **variables: str,
    ) -> None:
        self.folder = folder / "runs" / "0-x"
        self.folder.mkdir(parents=True)
        payload = folder / "payload"
        for name, content in read_payload_files().items():
            (payload / name).parent.mkdir(exist_ok=True)
            (payload / name).write_bytes(content)
        (folder / "files").mkdir()
        for name, content in (sent or {}).items():
            (folder / "files" / name).write_bytes(content)
        spec = {"schema": 1, "workload": workload, "python": "none", "gpus": 0}
        (self.folder / "spec.json").write_text(json.dumps({**spec, "parameters": parameters}))
        given = {"PATH": "/usr/bin:/bin", "TARE_RUN": str(self.folder), **variables}
        self.argv = [
            *(sys.executable, "-B", "-E", "-s", str(payload / "outside.py")),
            *(str(self.folder / "spec.json"), *wall, "/usr/bin/env"),
            *(f"{name}={value}" for name, value in given.items()),
            *(shell, str(payload / "inside.sh")),
        ]
        with (self.folder / "output.txt").open("wb") as printed:
            self.process = subprocess.Popen(
                self.argv, cwd=self.folder, stdout=printed, stderr=subprocess.STDOUT
            )

    def start_again(self, changes: dict[str, str]) -> subprocess.Popen[bytes]:
        """Start the same command with other variables, as a further instance or rank."""
        argv = [changes.get(word, word) for word in self.argv]
        return subprocess.Popen(argv, cwd=self.folder)

    def wait(self) -> int:
        return self.process.wait(timeout=60)

    @property
    def output(self) -> str:
        return (self.folder / "output.txt").read_text(errors="replace")

    @property
    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}

    @property
    def inside(self) -> dict[str, Any]:
        found: dict[str, Any] = parse_document(self.files["inside.json"], INSIDE)
        return found
