"""What the limits of a cluster count: connections, submissions, and GPU-hours by month."""

from __future__ import annotations

from django.db import models

from experiments.models.cluster import Cluster


class ClusterUse(models.Model):
    """Connections that were opened, or jobs that were submitted, at one time; kept for an hour."""

    class Kind(models.TextChoices):
        CONNECTIONS = "connections", "connections"
        SUBMISSIONS = "submissions", "submissions"

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="uses")
    kind = models.CharField(max_length=12, choices=Kind.choices)
    at = models.DateTimeField()
    count = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["at", "pk"]
        indexes = [models.Index(fields=["cluster", "kind", "at"], name="use_of_a_cluster")]

    def __str__(self) -> str:
        return f"{self.count} {self.kind}"


class GPUMonth(models.Model):
    """The GPU time of jobs that have ended, in one month of one cluster, in UTC."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="gpu_months")
    month = models.DateField(help_text="Its first day.")
    gpu_seconds = models.FloatField(default=0)

    class Meta:
        ordering = ["-month"]
        constraints = [models.UniqueConstraint(fields=["cluster", "month"], name="one_row_a_month")]

    def __str__(self) -> str:
        return f"{self.gpu_seconds / 3600:.1f} GPU-hours in {self.month:%Y-%m}"
