"""What was added to an experiment after its verdict, by whom, and after which verdict."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from experiments.models.experiment import Experiment


class Extension(models.Model):
    """Repeats that a person added once to a launched experiment, as a plan of their own.

    The experiment's plan stays as it is, with its hash.
    """

    experiment = models.OneToOneField(
        Experiment, primary_key=True, on_delete=models.CASCADE, related_name="extension"
    )
    extended_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    extended_at = models.DateTimeField()
    plan = models.JSONField(
        help_text="The added blocks in their order, the levels, and the verdicts known before."
    )
    plan_hash = models.CharField(max_length=64)
    stated_by = models.CharField(
        max_length=150,
        blank=True,
        db_default="",
        help_text="Who, by a bundle of another Tare, which `extended_by` has brought.",
    )

    @property
    def who(self) -> str:
        """Return the name of the person who extended the experiment."""
        return self.stated_by or str(self.extended_by)

    def __str__(self) -> str:
        return f"extension of {self.experiment}"
