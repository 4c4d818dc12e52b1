"""The page cache: how to drop a file's pages from it, and how to measure whether they are gone.

Only root can empty the whole cache. `posix_fadvise` asks the kernel to drop one file's clean pages;
a file system may ignore it (tmpfs keeps its files nowhere else), so measure afterwards.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Optional

PAGE = 4096
MAX_PROBES = 64  # offsets of a file that are probed


def drop(file: int, *, written: bool) -> None:
    """Ask the kernel to drop an open file's pages; if it was `written`, to the disk first."""
    if not hasattr(os, "posix_fadvise"):  # not Linux
        return
    if written:  # pages that wait for the disk cannot be dropped
        os.fdatasync(file)
    with suppress(OSError):
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def measure_cached_share(file: int, size: int) -> Optional[float]:
    """Return the share (0 to 1) of an open file that is cached; None if that cannot be measured.

    Probes up to 64 offsets below `size`. Newer kernels begin to read what is asked for and was not
    there: no more than the probed pages, for reading ahead would fill what the next probe finds.
    Drop them once more where a file is to be read cold.
    """
    flag = getattr(os, "RWF_NOWAIT", None)
    if flag is None or not hasattr(os, "preadv"):
        return None
    step = max(PAGE, size // MAX_PROBES)
    # From the end: an overlay reads ahead all the same, into what was probed already.
    offsets = range(0, max(size, 1), step)[::-1]
    with suppress(OSError, AttributeError):
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # no reading ahead
    try:
        return _probe(file, offsets, flag)
    finally:
        with suppress(OSError, AttributeError):
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_NORMAL)


def _probe(file: int, offsets: range, flag: int) -> Optional[float]:
    cached = 0
    for offset in offsets:
        try:
            cached += bool(os.preadv(file, [bytearray(1)], offset, flag))
        except BlockingIOError:
            pass
        except OSError:  # this file system cannot tell
            return None
    return cached / len(offsets)
