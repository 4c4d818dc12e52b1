"""Unused files in the image store: files of no image, and uploads that never ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.images import store
from experiments.models import CodeCopy, Image, ImageImport, Workload

UNTOUCHED_SECONDS = 24 * 3600
"""A younger file may still be in transfer."""


@dataclass(frozen=True)
class Leftover:
    """An unused file of the store, and why it is unused."""

    path: Path
    size_bytes: int
    why: str


def list_leftovers() -> Iterator[Leftover]:
    """Yield the files of the store that no image and no import under way refers to."""
    image_digests = set(
        Image.objects.exclude(content_sha256="").values_list("content_sha256", flat=True)
    )
    kept = image_digests | _list_code_archives()
    over = (ImageImport.State.DONE, ImageImport.State.FAILED)
    alive = ImageImport.objects.exclude(state__in=over)
    incoming_names = {row.incoming or f"image_import-{row.pk}" for row in alive.only("incoming")}
    for folder, needed, why in (
        (store.get_folder(), kept, "no image and no workload of the catalogue has these bytes"),
        (store.make_incoming_path().parent, incoming_names, "nothing that is under way needs it"),
    ):
        for path in sorted(folder.iterdir()):
            if path.name not in needed and (size := _size_if_old(path)) is not None:
                yield Leftover(path, size, why)


def _list_code_archives() -> set[str]:
    """Return the archives of code that a workload names, or that are on their way to a cluster."""
    named = Workload.objects.exclude(parameters__code_archive=None)
    archives = named.values_list("parameters__code_archive", flat=True)
    copies = CodeCopy.objects.exclude(archive=None).values_list("archive_id", flat=True)
    return {*filter(None, archives), *filter(None, copies)}


def _size_if_old(path: Path) -> int | None:
    try:
        status = path.stat()
    except FileNotFoundError:  # it has just gone
        return None
    return status.st_size if time.time() - status.st_mtime > UNTOUCHED_SECONDS else None
