"""The file from which an experiment was made, with its comments."""

from __future__ import annotations

from django.db import models

from experiments.models.experiment import Experiment


class DefinitionText(models.Model):
    """The text of the file, and what the experiment was when it was made of it."""

    experiment = models.OneToOneField(
        Experiment, primary_key=True, on_delete=models.CASCADE, related_name="definition_text"
    )
    text = models.TextField()
    described = models.CharField(
        max_length=64,
        help_text="The hash of the definition then: as long as it is the same, exporting gives "
        "the text back.",
    )
    stored_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["experiment"]

    def __str__(self) -> str:
        return f"the file of experiment {self.experiment_id}"
