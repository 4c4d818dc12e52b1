"""Where an experiment came from that a bundle has brought from another Tare."""

from __future__ import annotations

from django.db import models

from experiments.models.experiment import Experiment


class ImportedBundle(models.Model):
    """The bundle that an experiment came as, and what of it has no row of its own here."""

    experiment = models.OneToOneField(
        Experiment, primary_key=True, on_delete=models.CASCADE, related_name="imported_bundle"
    )
    sha256 = models.CharField(max_length=64, help_text="Of the bundle, as it came.")
    file_name = models.CharField(max_length=300)
    site = models.CharField(
        max_length=500, blank=True, help_text="The address of the Tare that wrote it, as it says."
    )
    number = models.CharField(max_length=30, help_text="Of the experiment there.")
    owner = models.CharField(max_length=150, help_text="Who owns it there.")
    made_on = models.CharField(max_length=30, blank=True, help_text="The day, as it says.")
    method = models.CharField(max_length=64, help_text="Of the comparison that is printed in it.")
    signed_by = models.CharField(
        max_length=60,
        blank=True,
        db_default="",
        help_text="The fingerprint of the key that signed it; empty if it is not signed.",
    )
    brought_at = models.DateTimeField()
    differences = models.JSONField(
        default=list, help_text="Where the comparison here is another one than the printed one."
    )
    images = models.JSONField(default=list, help_text="The images, as the bundle describes them.")
    waivers = models.JSONField(default=list, help_text="Waived differences, by whom and why.")

    def __str__(self) -> str:
        return f"{self.file_name}, sha256 {self.sha256[:12]}"

    @property
    def origin(self) -> str:
        """Return the experiment that it was, as text: "experiment 12 of https://tare.org"."""
        return f"experiment {self.number} of {self.site or 'another Tare'}"
