"""What images were made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from experiments.models import Image, ImageImport


def list_bases(image: Image) -> list[Image]:
    """Return the images from which recipes made this one, the nearest first."""
    return list_bases_of_all([image])[image.pk]


def list_bases_of_all(images: Iterable[Image]) -> dict[int, list[Image]]:
    """Return what `list_bases` does for each image, by its key; a statement for each generation."""
    children = {image.pk for image in images}
    base_of: dict[int, Image] = {}
    asked = set[int]()
    while unknown := {*children, *(base.pk for base in base_of.values())} - asked:
        asked |= unknown
        made = ImageImport.objects.filter(image__in=unknown, base__isnull=False)
        for row in made.select_related("base"):  # the newest first, which counts
            if row.image_id and row.base:
                base_of.setdefault(row.image_id, row.base)
    return {child: list(_follow(child, base_of)) for child in children}


def _follow(child: int, base_of: dict[int, Image]) -> Iterator[Image]:
    seen = set[int]()
    while (base := base_of.get(child)) and base.pk not in seen:
        yield base
        seen.add(base.pk)
        child = base.pk
