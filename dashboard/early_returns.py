"""Memory that a process gives back to the system as soon as it needs it no longer."""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Names of glibc's malloc.h."""
LARGE = 128 * 1024
"""Bytes: glibc's own thresholds, before it raises them."""


def give_back_early() -> bool:
    """Have the C library give back large blocks when they are freed; return whether it does.

    glibc raises its thresholds to the size of the largest block that was ever freed, up to 32 MB: a
    page of 20,000 runs that has been sent once is never given back by the process then. And each
    thread has a heap of its own, of which none takes what another one has freed.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):  # another one, such as musl
        return False
    return all(
        library.mallopt(name, value)
        for name, value in (
            (M_ARENA_MAX, 1),
            (M_MMAP_THRESHOLD, LARGE),
            (M_TRIM_THRESHOLD, LARGE),
        )
    )
