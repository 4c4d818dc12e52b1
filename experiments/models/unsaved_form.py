"""What people have typed into the form of an experiment and not saved."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from experiments.models.experiment import Experiment


class UnsavedForm(models.Model):
    """The fields of a form as they were typed last, valid or not; its owner alone sees them."""

    MOST = 20
    """Of new experiments that one person may have; the oldest gives way."""
    LONGEST = 200_000
    """Characters of all fields together."""

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="unsaved_forms"
    )
    experiment = models.ForeignKey(
        Experiment, null=True, on_delete=models.CASCADE, related_name="unsaved_forms"
    )
    key = models.CharField(max_length=40, help_text="Of the form: one for each new experiment.")
    tab = models.CharField(max_length=40, help_text="The page that has kept it last.")
    values = models.JSONField(
        default=dict, help_text="The values of each field, as they were sent."
    )
    kept_at = models.DateTimeField(help_text="By the database's clock.")

    class Meta:
        ordering = ["-kept_at"]
        constraints = [
            models.UniqueConstraint(fields=["owner", "key"], name="one_unsaved_form_a_key")
        ]

    def __str__(self) -> str:
        return self.question or "an experiment without a question yet"

    @property
    def state(self) -> str:
        """Return what changes whenever the form is kept."""
        return f"{self.tab} {self.kept_at.timestamp():.6f}"

    @property
    def question(self) -> str:
        """Return the question as it was typed, cut to a line."""
        return str((self.values.get("question") or [""])[0]).strip()[:120]
