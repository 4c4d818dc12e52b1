"""What software an environment was seen to hold, and which differences a person has waived."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models

from experiments.models.catalogue import Environment
from experiments.models.chore import Chore
from experiments.models.experiment import Experiment


class EnvironmentSurvey(models.Model):
    """One look into an environment, from its inside, by the interpreter that its runs will have."""

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="surveys")
    chore = models.ForeignKey(
        Chore, null=True, blank=True, on_delete=models.SET_NULL, related_name="surveys"
    )
    definition = models.CharField(
        max_length=64, help_text="A hash of the environment as it was then."
    )
    facts = models.JSONField(default=dict)
    looked_at = models.DateTimeField()

    class Meta:
        ordering = ["-looked_at", "-pk"]
        indexes = [models.Index(fields=["environment", "-looked_at"], name="survey_newest_first")]

    def __str__(self) -> str:
        return f"{self.environment}, {self.looked_at:%Y-%m-%d %H:%M} UTC"


class Waiver(models.Model):
    """A difference in software that a person lets pass for one experiment, and why."""

    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="waivers")
    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="+")
    what = models.CharField(max_length=300)
    here = models.TextField(help_text="On the baseline.")
    there = models.TextField(help_text="In the environment.")
    reason = models.TextField()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["environment", "what"]
        constraints = [
            models.UniqueConstraint(
                fields=["experiment", "environment", "what"], name="waived_once_an_experiment"
            ),
            models.CheckConstraint(condition=~models.Q(reason=""), name="waived_with_a_reason"),
        ]

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"

    def covers(self, difference: Any) -> bool:
        """Return whether this waiver is about exactly this difference, with the same values."""
        return (self.what, self.here, self.there) == (
            difference.what,
            difference.here,
            difference.there,
        )
