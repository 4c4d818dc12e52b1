"""Freed memory, given back to the system as soon as a process needs it no longer."""

from __future__ import annotations

import ctypes
import time
from typing import Any

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Names of glibc's malloc.h."""
LARGE = 128 * 1024
"""Bytes: glibc's own thresholds, before it raises them."""
LEAST_FREE = 4 << 20
"""Bytes between blocks in use, from which on they are given back; glibc counts given ones, too."""
SECONDS_BETWEEN = 2


class MallInfo(ctypes.Structure):
    """glibc's `mallinfo2`."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks"),
            *("uordblks", "fordblks", "keepcost"),
        )
    )


def give_back_early() -> bool:
    """Have the C library give back large blocks when they are freed; return whether it does.

    glibc raises its thresholds to the size of the largest block that was ever freed, up to 32 MB: a
    page of 20,000 runs that has been sent once is never given back by the process then. And each
    thread has a heap of its own, of which none takes what another one has freed.
    """
    library = _find_library()
    return library is not None and all(
        library.mallopt(name, value)
        for name, value in (
            (M_ARENA_MAX, 1),
            (M_MMAP_THRESHOLD, LARGE),
            (M_TRIM_THRESHOLD, LARGE),
        )
    )


class FreeMemory:
    """Gives back what is free between blocks in use, now and then."""

    def __init__(self) -> None:
        self._due_at = 0.0

    def give_back(self, **kwargs: Any) -> bool:
        """Give back free pages where they are many, and return whether there were any.

        A receiver of Django's signal `request_finished`. It takes some milliseconds.
        """
        now = time.monotonic()
        if now < self._due_at:
            return False
        self._due_at = now + SECONDS_BETWEEN
        library = _find_library()
        if library is None or library.mallinfo2().fordblks < LEAST_FREE:
            return False
        return bool(library.malloc_trim(0))


free_memory = FreeMemory()


def _find_library() -> ctypes.CDLL | None:
    """Return the C library; None where it is not glibc 2.33 or newer."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        return None
    library.mallinfo2.restype = MallInfo
    return library
