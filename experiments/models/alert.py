"""Alerts: what is wrong with Tare's own parts, clusters and credentials, as long as it lasts."""

from __future__ import annotations

from django.db import models

from experiments.models.cluster import Cluster
from experiments.models.credential import Credential


class AlertEnding(models.TextChoices):
    """Why a trouble is not seen any more, though nobody may have mended it; with its sentence."""

    DISABLED = "cluster disabled", "then the cluster was disabled and is not visited any more"
    CERTIFICATE_REMOVED = "certificate removed", "then the credential lost its certificate"
    PAUSE_OVER = "pause over", "then the pause ended and holds no job back"


class Alert(models.Model):
    """A trouble that administrators are told about once, and again when it is over."""

    kind = models.CharField(max_length=20)
    subject = models.CharField(max_length=100)
    facts = models.JSONField(default=dict)
    cluster = models.ForeignKey(Cluster, null=True, on_delete=models.CASCADE, related_name="+")
    credential = models.ForeignKey(
        Credential, null=True, on_delete=models.CASCADE, related_name="+"
    )
    since = models.DateTimeField(help_text="When it was seen first, by the database's clock.")
    told_at = models.DateTimeField(null=True, help_text="Empty until it has lasted long enough.")
    over_at = models.DateTimeField(null=True, help_text="Since when it is not seen any more.")

    class Meta:
        ordering = ["since", "pk"]
        constraints = [
            models.UniqueConstraint(fields=["kind", "subject"], name="one_alert_a_subject")
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}"
