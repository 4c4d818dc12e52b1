"""Signs of life: what each worker and clock writes every few seconds while it runs."""

from __future__ import annotations

from django.db import models


class ServiceSign(models.Model):
    """A process of Tare: where it runs, since when, and when it last said so.

    Times are the database's own, so that clocks of several hosts need not agree.
    """

    class Service(models.TextChoices):
        WORKER = "worker", "worker"
        CLOCK = "clock", "clock"

    token = models.CharField(
        max_length=32, unique=True, help_text="By which others on its host see whether it lives."
    )
    service = models.CharField(max_length=20, choices=Service.choices)
    queue = models.CharField(max_length=50, blank=True, help_text="Of a worker.")
    host = models.CharField(max_length=255)
    pid = models.PositiveBigIntegerField()
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, help_text="When it ended in order.")

    class Meta:
        ordering = ["-seen_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.service} {self.queue}".strip()
