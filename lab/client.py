"""The lab as its users see it: the contents of `lab.json`, and a function that starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("lab")


@dataclass(frozen=True)
class Partition:
    name: str
    default: bool
    nodes: int
    cpus_per_node: int
    memory_mb_per_node: int
    gpus_per_node: int
    gpu_model: str
    time_limit_seconds: int


@dataclass(frozen=True)
class Runtime:
    executable: str
    version: str


@dataclass(frozen=True)
class Staged:
    """A form of an image on the cluster; `path` is a container's name for udocker."""

    format: str
    path: str
    sha256: str
    bytes: int
    mode: str = ""


@dataclass(frozen=True)
class BareMetal:
    python: str
    python_version: str
    lock_sha256: str
    packages: dict[str, str]


@dataclass(frozen=True)
class Image:
    reference: str
    digest: str
    recipe: str
    os: str
    python: str
    python_version: str
    packages: dict[str, str]
    bytes: int
    archive: str


@dataclass(frozen=True)
class Software:
    """One image, its twin on bare metal from the same lock file, and its staged forms."""

    bare_metal: BareMetal
    image: Image
    staged: tuple[Staged, ...]

    def form(self, format: str, mode: str = "") -> Staged:  # noqa: A002
        """Return the staged form of this format, and of this mode of udocker if one is named."""
        return next(
            form for form in self.staged if form.format == format and mode in ("", form.mode)
        )


@dataclass(frozen=True)
class Lab:
    directory: Path
    host: str
    port: int
    user: str
    host_key: str
    private_key: Path
    passphrase_key: Path
    passphrase: str
    home: str
    work_directory: str
    slurm_version: str
    grid_engine_version: str  # empty: this lab has none
    python_version: str
    partitions: tuple[Partition, ...]
    runtimes: dict[str, Runtime]
    images: dict[str, Software]

    def execute(
        self, argv: Sequence[str], *, user: str = "root", timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside the cluster without SSH, as an administrator could."""
        return run_lab(
            "exec", "--dir", str(self.directory), "--user", user, "--", *argv, timeout=timeout
        )


def load_lab(directory: Path) -> Lab:
    """Return the lab in `directory`. Raises FileNotFoundError before its first `up`."""
    facts: dict[str, Any] = json.loads((directory / "lab.json").read_text())
    return Lab(
        directory=directory,
        host=facts["host"],
        port=facts["port"],
        user=facts["user"],
        host_key=facts["host_key"],
        private_key=Path(facts["private_key"]),
        passphrase_key=Path(facts["passphrase_key"]["private_key"]),
        passphrase=facts["passphrase_key"]["passphrase"],
        home=facts["home"],
        work_directory=facts["work_directory"],
        slurm_version=facts["scheduler"]["version"],
        grid_engine_version=facts.get("grid_engine", {}).get("version", ""),
        python_version=facts["python"]["version"],
        partitions=tuple(Partition(**row) for row in facts["partitions"]),
        runtimes={kind: Runtime(**row) for kind, row in facts["runtimes"].items()},
        images={name: parse_software(row) for name, row in facts["images"].items()},
    )


def parse_software(row: dict[str, Any]) -> Software:
    return Software(
        bare_metal=BareMetal(**row["bare_metal"]),
        image=Image(**row["image"]),
        staged=tuple(Staged(**form) for form in row["staged"]),
    )


def ensure_lab(
    directory: Path,
    *,
    images: Sequence[str] = (),
    port: int | None = None,
    grid_engine: bool = False,
) -> Lab:
    """Start the lab in `directory` if need be, stage these images, and return it.

    With `grid_engine` it has that beside Slurm. Raises RuntimeError with the lab's output if that
    fails.
    """
    options = [] if port is None else ["--port", str(port)]
    options += ["--grid-engine"] if grid_engine else []
    run_checked("up", "--dir", str(directory), *options)
    if set(images) - set(load_lab(directory).images):
        run_checked("build", "--dir", str(directory), *images)
    return load_lab(directory)


def stop_lab(directory: Path) -> None:
    """End the lab's processes; its folder stays."""
    run_checked("down", "--dir", str(directory))


def run_checked(*arguments: str) -> None:
    done = run_lab(*arguments, timeout=1800)
    if done.returncode:
        raise RuntimeError(f"lab {' '.join(arguments)}: {done.stdout}{done.stderr}")


def run_lab(*arguments: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run `lab/lab` once. What it starts must not hold the caller's pipes open."""
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
