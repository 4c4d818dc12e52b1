"""Webhooks: addresses to which a person has notifications posted, and how they answered."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import urlsplit

from django.conf import settings
from django.db import models
from django.urls import reverse

from experiments.encryption import SecretField


class Webhook(models.Model):
    """An address of one person, with the kinds that are posted there and the key that signs them.

    Its name is its host: the rest of an address may be as secret as a password, so all of it is
    encrypted.
    """

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="webhooks"
    )
    address = SecretField(help_text="Shown to its owner, in the form that changes it.")
    host = models.CharField(
        max_length=500, default="", help_text="Of the address, with its port where it names one."
    )
    kinds = models.JSONField(default=list)
    secret = SecretField(help_text="It signs what is posted. Shown once, to the owner.")
    previous_secret = SecretField(
        blank=True, default="", help_text="It signs too, for a while after a rotation."
    )
    previous_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField(help_text="By the database's clock, as all of them.")
    failures = models.PositiveIntegerField(default=0, help_text="In a row.")
    failing_since = models.DateTimeField(null=True, help_text="Nothing was taken since.")
    tried_at = models.DateTimeField(null=True, help_text="Others are tried before it.")
    retry_at = models.DateTimeField(null=True, help_text="Nothing is posted before.")
    switched_off_at = models.DateTimeField(null=True)
    why_off = models.TextField(default="", help_text="Empty where its owner switched it off.")

    class Meta:
        ordering = ["created_at", "pk"]

    def __str__(self) -> str:
        return f"webhook to {self.host}"

    def get_absolute_url(self) -> str:
        return reverse("webhook", args=[self.pk])

    def set_address(self, address: str) -> None:
        """Set the address, and with it the host."""
        self.address, self.host = address, urlsplit(address).netloc

    @property
    def is_on(self) -> bool:
        return self.switched_off_at is None

    def has_previous_secret(self, now: datetime) -> bool:
        """Return whether the secret before the last rotation still signs too."""
        return bool(self.previous_secret and self.previous_until and now < self.previous_until)


class WebhookAnswer(models.Model):
    """What came of posting once. The last few of each webhook are kept."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="answers")
    kind = models.CharField(max_length=20)
    message_uid = models.UUIDField()
    at = models.DateTimeField(help_text="By the database's clock.")
    seconds = models.FloatField()
    status = models.PositiveSmallIntegerField(null=True, help_text="Of HTTP; none: no answer.")
    body = models.TextField(default="", help_text="How it begins, as one line of text.")
    problem = models.TextField(default="", help_text="Why it did not count as taken.")

    class Meta:
        ordering = ["-at", "-pk"]

    def __str__(self) -> str:
        return f"answer {self.status or 'none'}"
