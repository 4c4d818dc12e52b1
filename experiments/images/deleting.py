"""Deleting an image from the catalogue, if nothing depends on it."""

from __future__ import annotations

from django.db import transaction

from experiments.access import audit
from experiments.models import Environment, Image, ImageImport, StagedImage, User


def why_not_delete(image: Image) -> str:
    """Return why the image cannot be deleted; "" if it can."""
    staged = image.staged.exclude(state=StagedImage.State.REMOVED).select_related("cluster")
    names = sorted({str(row.cluster) for row in staged})
    if names:
        return f"It is staged on {', '.join(names)}: remove those forms first."
    used = Environment.objects.originals().filter(staged_image__image=image).order_by("name")
    names = list(dict.fromkeys(used.values_list("name", flat=True)))
    if names:
        return f"It is named by the environment{'s' * (len(names) > 1)} {', '.join(names)}."
    if ImageImport.objects.filter(base=image).exists():
        return "A recipe begins with it."
    return ""


def delete(image: Image, by: User) -> None:
    """Delete an image that `why_not_delete` allows, and the rows of its removed forms.

    Its file in the store stays until `manage.py unstage_unused` removes it.
    """
    with transaction.atomic():
        image.staged.filter(state=StagedImage.State.REMOVED).delete()
        audit.delete(by, image)
