"""What was changed in matters of trust, by whom and when. Append-only: a trigger sees to it."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class AuditEntry(models.Model):
    """One change. It names its object as text, and so outlives it."""

    at = models.DateTimeField(auto_now_add=True)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    what = models.CharField(max_length=100)
    kind = models.CharField(max_length=50, help_text="The model, such as cluster.")
    object_pk = models.CharField(max_length=50)
    name = models.CharField(max_length=500)
    cluster_pk = models.BigIntegerField(
        null=True, help_text="The cluster that it concerns, whether or not it still exists."
    )
    changes = models.JSONField(
        default=dict, help_text="Field to [old, new]; of a secret only that it changed."
    )
    why = models.TextField(blank=True)

    class Meta:
        ordering = ["-at", "-pk"]
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["kind", "object_pk", "-at"], name="audit_of_an_object"),
            models.Index(fields=["-at", "-id"], name="audit_by_time"),
            models.Index(fields=["cluster_pk", "-at"], name="audit_of_a_cluster"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.what}"
