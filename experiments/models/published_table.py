"""A table that somebody published: kept as it was given, compared whenever it is looked at."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.urls import reverse

from experiments.models.visibility import Shared, SharedQuerySet


class PublishedTable(Shared):
    """The text of the table and what a person said about its columns. No number is stored."""

    question = models.CharField(max_length=300)
    source = models.CharField(
        max_length=500, blank=True, help_text="Where it was published: a citation, or a link."
    )
    text = models.TextField(help_text="The table as it was pasted or uploaded.")
    reading = models.JSONField(
        default=dict,
        blank=True,
        help_text="What a person said about it; whatever is not said is recognised.",
    )
    baseline = models.CharField(max_length=200)
    margin = models.FloatField(default=0.02)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="published_tables"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    objects = SharedQuerySet["PublishedTable"].as_manager()

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(margin__gt=0, margin__lte=1),
                name="table_margin_between_0_and_1",
            ),
        ]

    def __str__(self) -> str:
        return self.question

    def get_absolute_url(self) -> str:
        return reverse("table", args=[self.pk])

    @property
    def key(self) -> str:
        """Return the name from which those of its files and plots are made."""
        return f"table-{self.pk}"
