"""Tokens of lease holders, by which other processes can tell whether a holder still lives."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
from functools import cache
from pathlib import Path

PROC = Path("/proc")
LETTERS = 32  # as many as the column takes


def make_token() -> str:
    """Return a name for a lease of this process: where it runs, its id, when it began, and chance.

    Where the system does not tell these, chance alone.
    """
    pid = os.getpid()
    try:
        token = f"{_place()}{pid:06x}{_began(pid):09x}"
    except OSError:
        token = ""
    return token + secrets.token_hex(LETTERS)[: LETTERS - len(token)]


@cache
def name_process() -> str:
    """Return a token of this process that stays the same as long as it lives."""
    return make_token()


def is_dead(token: str) -> bool:
    """Return whether the process that took the lease is known to have ended.

    Only of those that ran on this machine, since it started; of others nobody here can tell.
    """
    try:
        if len(token) != LETTERS or token[:8] != _place():
            return False
        pid, began = int(token[8:14], 16), int(token[14:23], 16)
    except (OSError, ValueError):
        return False
    try:
        return _began(pid) != began
    except FileNotFoundError:
        return True
    except OSError:
        return False


def is_same_process(token: str, other: str) -> bool:
    """Return whether two tokens were made by one process; of those by chance alone, never."""
    return len(token) == len(other) == LETTERS and token[:23] == other[:23]


def _place() -> str:
    """Return a hash that differs between machines, their boots, and process namespaces."""
    parts = (
        (PROC / "sys/kernel/random/boot_id").read_text(),
        socket.gethostname(),
        os.readlink(PROC / "self/ns/pid"),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def _began(pid: int) -> int:
    """Return when a process began, in clock ticks since the machine did; ids come round again."""
    state, *fields = (PROC / str(pid) / "stat").read_text().rpartition(") ")[2].split()
    if state in ("Z", "X"):
        raise FileNotFoundError(pid)
    return int(fields[18])
