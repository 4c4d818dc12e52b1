"""Copies of files that runs have left on clusters: one at a time, for whoever asked, for a day."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from django.db.models import Q
from django.utils import timezone

from experiments.execution.image_transfers import GivenUp, Meter, attended, connection, in_words
from experiments.images import store
from experiments.models import RunFile
from experiments.models.images import SILENCE
from runners import directories
from runners.errors import Refused, TryAgain
from runners.transports.base import MIB

ROOM_BYTES = 2**30
"""What a copy leaves free in the store."""


def copy_file(pk: int) -> str:
    """Fetch the file that somebody wants a copy of, unless it is being fetched."""
    now = timezone.now()
    wanted = RunFile.objects.to_be_copied().filter(pk=pk)
    free = Q(seen_at=None) | Q(seen_at__lt=now - SILENCE)
    if not wanted.filter(free).update(seen_at=now, done_bytes=0):
        return "copied or being copied"
    forget_old_copies()
    places = ("run__job__cluster__credential", "run__job__cluster__jump_host")
    row = RunFile.objects.select_related(*places).get(pk=pk)

    def write(count: int) -> bool:
        return bool(wanted.update(done_bytes=count, seen_at=timezone.now()))

    incoming = store.copy_of(f"{row.pk}.part")
    try:
        problem = _copy(row, incoming, write)
        incoming.rename(store.copy_of(str(row.pk)))
    except GivenUp:
        return "given up"
    except TryAgain as error:
        wanted.update(problem=f"{error} Fetch it again later.")
        return "failed"
    except Exception as error:  # noqa: BLE001 - asked again, it would stumble again
        wanted.update(problem=in_words(error))
        return "failed"
    finally:
        incoming.unlink(missing_ok=True)
    wanted.update(copied_at=timezone.now(), problem=problem)
    return "copied"


def _copy(row: RunFile, target: Path, write: Callable[[int], bool]) -> str:
    """Fetch the file, and return what whoever reads it has to know; empty if it is as it was."""
    if store.free_bytes() < row.size_bytes + ROOM_BYTES:
        raise Refused(
            f"Tare has no room for it: {store.free_bytes() // MIB:,} MiB are free, and the file "
            f"has {row.size_bytes // MIB:,}."
        )
    job = row.run.job

    def fetch(meter: Meter) -> str:
        with target.open("wb") as file:
            return directories.copy_file(
                there,
                job.directory,
                f"{row.run.folder}/{row.path}",
                file,
                limit=RunFile.MOST_BYTES,
                progress=meter.at,
            )

    with connection(job.cluster) as there:
        digest = attended(fetch, write)
    if row.sha256 and digest != row.sha256:
        return "It is not as the run left it: it differs from the check sum."
    if target.stat().st_size == RunFile.MOST_BYTES > row.size_bytes:
        return f"It has grown: these are its first {RunFile.MOST_BYTES // 10**6:,} MB."
    return ""


def forget_old_copies() -> None:
    """Remove copies, whole or not, that are older than they are kept."""
    oldest = time.time() - RunFile.KEPT.total_seconds()
    for path in store.copy_of("x").parent.iterdir():
        if path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)
