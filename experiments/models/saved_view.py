"""Lists as people want to find them again: columns, filters and order under a name."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.urls import reverse


class SavedView(models.Model):
    """A state of a list, as its address writes it, which one person has named."""

    MOST = 30
    """That one person may have of one list."""

    class Page(models.TextChoices):
        RUNS = "runs", "runs"
        EXPERIMENTS = "experiments", "experiments"

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_views"
    )
    page = models.CharField(max_length=20, choices=Page.choices)
    name = models.CharField(max_length=60)
    query = models.TextField(max_length=4000, blank=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "page", "name"], name="one_view_a_name_and_person"
            )
        ]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        address = reverse(self.page)
        return f"{address}?{self.query}" if self.query else address
