"""What software an environment was seen to hold, and which differences a person has waived."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models

from experiments.models.catalogue import Environment
from experiments.models.experiment import Experiment
from experiments.models.operation import Operation


class EnvironmentInspection(models.Model):
    """An environment’s software as the interpreter of its runs reports it, from its inside."""

    environment = models.ForeignKey(
        Environment, on_delete=models.CASCADE, related_name="inspections"
    )
    operation = models.ForeignKey(
        Operation, null=True, blank=True, on_delete=models.SET_NULL, related_name="inspections"
    )
    definition = models.CharField(
        max_length=64, help_text="A hash of the environment as it was then."
    )
    facts = models.JSONField(default=dict)
    inspected_at = models.DateTimeField()

    class Meta:
        ordering = ["-inspected_at", "-pk"]
        indexes = [
            models.Index(fields=["environment", "-inspected_at"], name="inspection_newest_first")
        ]

    def __str__(self) -> str:
        return f"{self.environment}, {self.inspected_at:%Y-%m-%d %H:%M} UTC"


class Waiver(models.Model):
    """A difference in software that a person lets pass for one experiment, and why."""

    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="waivers")
    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="+")
    what = models.CharField(max_length=300)
    on_baseline = models.TextField(help_text="The value on the baseline.")
    in_environment = models.TextField(help_text="The value in the environment.")
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
        return (self.what, self.on_baseline, self.in_environment) == (
            difference.what,
            difference.on_baseline,
            difference.in_environment,
        )
