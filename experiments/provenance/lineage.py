"""What images were made from."""

from __future__ import annotations

from experiments.models import Image


def list_bases(image: Image) -> list[Image]:
    """Return the images from which recipes made this one, the nearest first."""
    bases: list[Image] = []
    made = image.image_imports.filter(base__isnull=False).select_related("base").first()
    while made and made.base and made.base not in bases:
        bases.append(made.base)
        made = made.base.image_imports.filter(base__isnull=False).select_related("base").first()
    return bases
