"""Answers to requests of programs, by which a request that comes again is not done again."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import models

KEPT = timedelta(hours=24)
LONGEST_KEY = 200


class AnsweredRequest(models.Model):
    """A request that had a key of idempotency, with what it was answered.

    The row is stored in the transaction that does what was asked for: one without the other is
    never kept.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=LONGEST_KEY)
    fingerprint = models.CharField(max_length=64, help_text="Of method, address and content.")
    status = models.PositiveSmallIntegerField()
    content_type = models.CharField(max_length=100)
    content = models.BinaryField()
    answered_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "key"], name="one_answer_a_key"),
        ]

    def __str__(self) -> str:
        return f"answer to {self.key[:20]}"
