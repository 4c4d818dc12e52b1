"""For some seconds after Valkey did not answer it is not asked again: waiting for it costs time.

It only shortens waits and counts requests: a page or a click is answered without it.
"""

from __future__ import annotations

import time

SECONDS = 5.0
_ends_at = 0.0


def is_paused() -> bool:
    """Return whether Valkey is left alone, as it did not answer this process just now."""
    return time.monotonic() < _ends_at


def begin_pause() -> None:
    """Leave Valkey alone for some seconds."""
    global _ends_at
    _ends_at = time.monotonic() + SECONDS
