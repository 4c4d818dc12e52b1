"""The page cache: asking for a file's pages to be dropped, and looking whether they were.

Without root nobody can empty the cache. `posix_fadvise` asks for one file's clean pages to go; a
file system may pay no heed (tmpfs keeps its files nowhere else), so look afterwards.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Optional

PAGE = 4096
LOOKS = 64  # places of a file that are looked at


def drop(file: int, *, written: bool) -> None:
    """Ask the kernel to forget an open file; what was `written` goes to the disk first."""
    if not hasattr(os, "posix_fadvise"):  # not Linux
        return
    if written:  # pages that wait for the disk cannot be dropped
        os.fdatasync(file)
    with suppress(OSError):
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def cached_share(file: int, size: int) -> Optional[float]:
    """The share of places in an open file that can be read without waiting; None: cannot be seen.

    Looks at up to 64 places from its beginning to `size`, and reads nothing from the disk.
    """
    flag = getattr(os, "RWF_NOWAIT", None)
    if flag is None or not hasattr(os, "preadv"):
        return None
    step = max(PAGE, size // LOOKS)
    places = range(0, max(size, 1), step)
    found = 0
    for offset in places:
        try:
            found += bool(os.preadv(file, [bytearray(1)], offset, flag))
        except BlockingIOError:
            pass
        except OSError:  # this file system does not say
            return None
    return found / len(places)
