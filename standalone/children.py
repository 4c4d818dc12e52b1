"""Child processes that cannot outlive this one."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

PR_SET_PDEATHSIG = 1
LARGE_LOG = 50 * 2**20  # bytes; the log before it is kept once, beside it
_libc = ctypes.CDLL(None)


def start(
    argv: Sequence[str | Path],
    *,
    log: Path | None = None,
    env: Mapping[str, str] | None = None,
    end_by: signal.Signals = signal.SIGTERM,
) -> subprocess.Popen[bytes]:
    """Start a child in a session of its own; the kernel ends it when this process dies.

    Its own session keeps the terminal's Ctrl-C from reaching it before we say so. `end_by` is the
    signal that it gets from the kernel.
    """
    parent = os.getpid()

    def tie_to_parent() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, end_by)
        if os.getppid() != parent:  # the parent died before the line above
            os._exit(1)

    output = open_log(log) if log else None
    try:
        return subprocess.Popen(
            [str(part) for part in argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            env=None if env is None else dict(env),
            start_new_session=True,
            preexec_fn=tie_to_parent,
        )
    finally:
        if output:
            output.close()


def open_log(path: Path) -> BinaryIO:
    """Open a log to append to, for its owner's eyes alone: it may name people and places.

    A large one is put aside as `NAME.1` first, in the place of the one before it.
    """
    if path.exists() and path.stat().st_size > LARGE_LOG:
        path.replace(path.with_name(f"{path.name}.1"))
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.fchmod(descriptor, 0o600)  # one that an earlier version has made
    return os.fdopen(descriptor, "ab")


def terminate(child: subprocess.Popen[bytes], by: signal.Signals = signal.SIGTERM) -> None:
    """Tell a child to end, unless it has."""
    if child.poll() is None:
        child.send_signal(by)


def wait_or_kill(family: Sequence[subprocess.Popen[bytes]], seconds: float) -> None:
    """Wait for children that were asked to end; after `seconds` in all, kill their sessions."""
    deadline = time.monotonic() + seconds
    for child in family:
        try:
            child.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def find_free_port() -> int:
    """Return a TCP port on loopback that nobody holds now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(
    ready: Callable[[], bool], what: str, *, child: subprocess.Popen[bytes], seconds: float = 30
) -> None:
    """Wait until `ready()`, at most `seconds`. RuntimeError when the child ends before that."""
    deadline = time.monotonic() + seconds
    while not ready():
        if child.poll() is not None:
            raise RuntimeError(f"{what} ended with exit code {child.returncode}.")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} was not ready within {seconds:.0f} s.")
        time.sleep(0.02)


def is_listening(port: int) -> bool:
    """Return whether something on this machine listens on the TCP port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
