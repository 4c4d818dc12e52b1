"""Presets that people make of experiments, to launch them again."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.urls import reverse

from experiments.models.visibility import SharedInside, SharedQuerySet, Visibility, readers_inside


class OwnPreset(SharedInside):
    """The definition of an experiment as it was when somebody saved it under a name.

    It names rows of the catalogue by their keys, which may be gone when it is used.
    """

    MOST = 100
    """That one person may have."""

    visibility = models.CharField(max_length=10, choices=readers_inside, default=Visibility.PRIVATE)
    name = models.CharField(max_length=100)
    definition = models.JSONField(editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="own_presets"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    objects = SharedQuerySet["OwnPreset"].as_manager()

    class Meta:
        ordering = ["name", "pk"]
        verbose_name = "preset"
        constraints = [
            models.UniqueConstraint(fields=["owner", "name"], name="one_preset_a_name_and_person")
        ]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return f"{reverse('presets')}#own-{self.pk}"
