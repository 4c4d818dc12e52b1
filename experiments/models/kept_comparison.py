"""The comparison of an experiment as it was computed last, so that pages need not compute it."""

from __future__ import annotations

from django.db import models

from experiments.models.experiment import Experiment


class KeptComparison(models.Model):
    """The comparison of an experiment, as long as nothing that it rests on has changed.

    It may be deleted at any time: it is computed anew then. Names of people and machines stand in
    it; whoever reads it for somebody else hides them, as in a comparison that was computed.
    """

    experiment = models.OneToOneField(
        Experiment, on_delete=models.CASCADE, primary_key=True, related_name="kept_comparison"
    )
    key = models.CharField(
        max_length=64, help_text="A hash of all that it rests on: another one makes it stale."
    )
    content = models.BinaryField(help_text="Compressed, behind its check sum.")
    verdicts = models.JSONField(default=dict, help_text="How many pairs have each verdict.")
    seconds = models.FloatField(help_text="How long it took to compute.")
    kept_at = models.DateTimeField(help_text="By the database's clock.")

    def __str__(self) -> str:
        return f"comparison of experiment {self.pk}"
