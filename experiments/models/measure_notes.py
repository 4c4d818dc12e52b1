"""What is to be known of the measures of a run: their limits, and which it lacks and why."""

from __future__ import annotations

from django.db import models

from experiments.models.run import Run


class MeasureNotes(models.Model):
    """Notes on the measures that every run has, by the name of the metric, as texts."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="measure_notes")
    details = models.JSONField(default=dict, help_text="What limits a value, such as its step.")
    missing = models.JSONField(default=dict, help_text="Why it has no value.")

    class Meta:
        verbose_name_plural = "measure notes"

    def __str__(self) -> str:
        return f"notes on the measures of {self.run}"
