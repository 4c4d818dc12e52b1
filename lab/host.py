"""The machine that the lab runs on: root, a cache, locks, commands, Debian packages."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
HERE = Path(__file__).resolve().parent
CLUSTER = HERE / "cluster"
APT_GET = str(HERE / "apt-get")  # waits while another one runs


class LabError(Exception):
    """An error that ends the lab's work; the message says what to do."""


class NeedsRoot(LabError):
    """An error for a lab without root: only root can mount file systems and start daemons."""


def say(text: str) -> None:
    """Print one line of progress; `make demo` shows it to the user."""
    print(f"lab: {text}", flush=True)


@contextlib.contextmanager
def show_duration(text: str) -> Iterator[None]:
    """Print what is being done, and afterwards how long it took."""
    say(f"{text} ...")
    began = time.monotonic()
    yield
    say(f"{text}: {time.monotonic() - began:.1f} s")


def require_root() -> None:
    if os.geteuid() != 0:
        raise NeedsRoot("the lab needs root: it mounts file systems and starts real daemons")


def cache_folder() -> Path:
    """Return the folder that all labs of this machine share. A folder in it is complete."""
    base = os.environ.get("TARE_CACHE")
    if not base:
        base = os.path.join(
            os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tare"
        )
    folder = Path(base).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path`; it ends with the process, however that ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def short_hash(paths: Iterable[Path], *texts: str) -> str:
    """Return twelve hex digits that change when any of the files or texts does."""
    total = hashlib.sha256()
    for path in sorted(paths):
        content = path.read_bytes()
        total.update(f"{path.name} {len(content)}\n".encode() + content)
    total.update("\n".join(texts).encode())
    return total.hexdigest()[:12]


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(name, mode)
    os.replace(name, path)


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel send this process the signal `number` when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


def run(argv: list[str], log: Path, **options: Any) -> None:
    """Run a command, its output appended to `log`. Raises LabError with the last lines of that."""
    with log.open("ab") as file:
        done = subprocess.run(
            argv,
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
            preexec_fn=end_with_parent,
            **options,
        )
    if done.returncode:
        raise LabError(
            f"{argv[0]} ended with {done.returncode}; {log} ends with:\n{read_last_lines(log)}"
        )


def read_last_lines(log: Path) -> str:
    """Return the last twenty lines of a log; "" if there is none."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:])


def install_packages(commands: dict[str, str], log: Path) -> None:
    """Install by apt what is missing of `commands` (a command or a file -> its package)."""
    missing = sorted(
        {
            package
            for name, package in commands.items()
            if not shutil.which(name) and not os.path.exists(name)
        }
    )
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise LabError(f"please install {', '.join(missing)}: there is no apt-get here to do it")
    with show_duration(f"installing {', '.join(missing)}"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        run([APT_GET, "update", "-q"], log, env=environment)
        run(
            [APT_GET, "install", "-q", "-y", "--no-install-recommends", *missing],
            log,
            env=environment,
        )


def find_debian_mirror() -> str:
    """Return the address of the Debian mirror that this machine's own apt sources name."""
    if mirror := os.environ.get("TARE_DEBIAN_MIRROR"):
        return mirror
    fields = "$(ORIGIN)\t$(LABEL)\t$(REPO_URI)"
    done = subprocess.run(
        ["apt-get", "indextargets", "--format", fields, "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    )
    for line in done.stdout.splitlines():
        origin, label, address = line.split("\t")
        if (origin, label) == ("Debian", "Debian"):
            return address.rstrip("/")
    raise LabError(
        "this machine's apt sources name no Debian mirror: set TARE_DEBIAN_MIRROR to one"
    )
