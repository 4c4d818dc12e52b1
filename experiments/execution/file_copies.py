"""Copies of files that runs have left on clusters: fetched one at a time on request, kept a day."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from experiments.execution.image_transfers import (
    GivenUp,
    Meter,
    describe_problem,
    open_connection,
    run_with_progress,
)
from experiments.images import store
from experiments.models import RunFile
from experiments.models.images import SILENCE
from runners import directories
from runners.errors import Refused, TryAgain
from runners.transports.base import MIB

ROOM_BYTES = 2**30
"""The space that must stay free in the store."""


def copy_file(pk: int) -> str:
    """Fetch the file that a person wants a copy of, unless another worker does."""
    rows_to_copy = RunFile.objects.to_be_copied().filter(pk=pk)
    unclaimed = Q(seen_at=None) | Q(seen_at__lt=Now() - SILENCE)
    if not rows_to_copy.filter(unclaimed).update(seen_at=Now(), done_bytes=0):
        return "copied or being copied"
    forget_old_copies()
    login_relations = ("run__job__cluster__credential", "run__job__cluster__jump_host")
    row = RunFile.objects.select_related(*login_relations).get(pk=pk)

    def save_progress(count: int) -> bool:
        return bool(rows_to_copy.update(done_bytes=count, seen_at=Now()))

    incoming = store.copy_of(f"{row.pk}.part")
    try:
        problem = _copy(row, incoming, save_progress)
        incoming.rename(store.copy_of(str(row.pk)))
    except GivenUp:
        return "given up"
    except TryAgain as error:
        rows_to_copy.update(problem=f"{error} Fetch it again later.")
        return "failed"
    except Exception as error:  # noqa: BLE001 - it would fail again
        rows_to_copy.update(problem=describe_problem(error))
        return "failed"
    finally:
        incoming.unlink(missing_ok=True)
    rows_to_copy.update(copied_at=timezone.now(), problem=problem)
    return "copied"


def _copy(row: RunFile, target: Path, save_progress: Callable[[int], bool]) -> str:
    """Fetch the file, and return a warning for its reader; "" if it is as the run left it."""
    if store.count_free_bytes() < row.size_bytes + ROOM_BYTES:
        raise Refused(
            f"Tare has no room for it: {store.count_free_bytes() // MIB:,} MiB are free, and the "
            f"file has {row.size_bytes // MIB:,}."
        )
    job = row.run.job

    def fetch(meter: Meter) -> str:
        with target.open("wb") as file:
            return directories.copy_file(
                transport,
                job.directory,
                f"{row.run.folder}/{row.path}",
                file,
                limit=RunFile.MOST_BYTES,
                progress=meter.set,
            )

    with open_connection(job.cluster) as transport:
        digest = run_with_progress(fetch, save_progress)
    if row.sha256 and digest != row.sha256:
        return "It is not as the run left it: it differs from the check sum."
    if target.stat().st_size == RunFile.MOST_BYTES > row.size_bytes:
        return f"It has grown: these are its first {RunFile.MOST_BYTES // 10**6:,} MB."
    return ""


def forget_old_copies() -> None:
    """Remove copies, complete or not, that are older than the time they are kept."""
    oldest = time.time() - RunFile.KEPT.total_seconds()
    for path in store.copy_of("x").parent.iterdir():
        if path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)
