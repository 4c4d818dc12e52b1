"""What the image store holds and nobody needs: bytes of no image, uploads that were never ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.images import store
from experiments.models import Arrival, Image

UNTOUCHED_SECONDS = 24 * 3600
"""A file that is younger may still be on its way."""


@dataclass(frozen=True)
class Leftover:
    path: Path
    size_bytes: int
    why: str


def leftovers() -> Iterator[Leftover]:
    """Yield files of the store that no image and no arrival under way refers to."""
    kept = set(Image.objects.exclude(content_sha256="").values_list("content_sha256", flat=True))
    over = (Arrival.State.DONE, Arrival.State.FAILED)
    alive = Arrival.objects.exclude(state__in=over)
    wanted = {row.incoming or f"arrival-{row.pk}" for row in alive.only("incoming")}
    for folder, needed, why in (
        (store.folder(), kept, "no image of the catalogue has these bytes"),
        (store.incoming().parent, wanted, "nothing that is under way needs it"),
    ):
        for path in sorted(folder.iterdir()):
            if path.name not in needed and (size := _size_if_old(path)) is not None:
                yield Leftover(path, size, why)


def _size_if_old(path: Path) -> int | None:
    try:
        about = path.stat()
    except FileNotFoundError:  # it has just gone
        return None
    return about.st_size if time.time() - about.st_mtime > UNTOUCHED_SECONDS else None
