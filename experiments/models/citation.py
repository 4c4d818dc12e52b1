"""What is published of an experiment: who its authors are, its licence, where it was deposited."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.db import models

from experiments.encryption import SecretField
from experiments.models.experiment import Experiment


class Citation(models.Model):
    """How an experiment is cited. It changes no result, so it may be edited after the end."""

    MOST_AUTHORS = 100
    LONGEST_TITLE, LONGEST_NAME, LONGEST_AFFILIATION = 300, 120, 300

    experiment = models.OneToOneField(
        Experiment, primary_key=True, on_delete=models.CASCADE, related_name="citation"
    )
    title = models.CharField(
        max_length=LONGEST_TITLE, blank=True, help_text="Empty: the experiment's question."
    )
    licence = models.CharField(max_length=80, blank=True, help_text="An identifier of SPDX.")
    authors = models.JSONField(
        default=list,
        blank=True,
        help_text="In their order: family, given, orcid (with hyphens), affiliation.",
    )
    doi = models.CharField(
        max_length=200,
        blank=True,
        editable=False,
        help_text="Reserved with the draft; registered when that is published.",
    )
    doi_published_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        verbose_name_plural = "citations"

    def __str__(self) -> str:
        return f"citation of {self.experiment}"


class SigningKey(models.Model):
    """A key of the site that signs bundles. The newest one that is not retired signs."""

    private = SecretField(help_text="Ed25519, as OpenSSH writes it. Shown to nobody.")
    public = models.CharField(max_length=200, help_text="ssh-ed25519 and the key in base64.")
    fingerprint = models.CharField(max_length=60, help_text="As ssh-keygen -l prints it.")
    made_at = models.DateTimeField(auto_now_add=True)
    retired_at = models.DateTimeField(
        null=True, blank=True, help_text="It signs no more; what it has signed is still checked."
    )

    class Meta:
        ordering = ["-made_at", "-pk"]

    def __str__(self) -> str:
        return f"signing key {self.fingerprint}"


class DepositToken(models.Model):
    """A person's token for the service at which bundles are deposited, and for no other one."""

    owner = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="deposit_token"
    )
    service = models.CharField(max_length=300, help_text="The address that it is sent to.")
    token = SecretField(help_text="Shown to nobody.")
    saved_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"token of {self.owner} for {self.service}"


class Deposit(models.Model):
    """The deposit of an experiment's bundle at a service: one, however often it is asked for.

    What the service has given (its number, its DOI) is stored as soon as it is known, so another
    attempt goes on there and makes no second one.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        UNDER_WAY = "under way", "under way"
        FAILED = "failed", "failed"
        DRAFT = "draft", "draft"
        PUBLISHED = "published", "published"

    OPEN = (State.WAITING, State.UNDER_WAY)

    experiment = models.OneToOneField(Experiment, on_delete=models.CASCADE, related_name="deposit")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    service = models.CharField(max_length=300, help_text="The address of its API.")
    uid = models.UUIDField(
        default=uuid.uuid4, unique=True, help_text="By it a deposition is found again there."
    )
    state = models.CharField(max_length=12, choices=State.choices, default=State.WAITING)
    publishes = models.BooleanField(default=False, help_text="Else it is left as a draft.")
    requested_at = models.DateTimeField(help_text="By the database's clock, as all of them.")
    retry_at = models.DateTimeField(null=True, help_text="It is not tried before.")
    attempts = models.PositiveIntegerField(default=0, help_text="Since it was asked for.")
    claim = models.UUIDField(null=True, help_text="Of the task that works on it.")
    seen_at = models.DateTimeField(null=True, help_text="When that task last said that it lives.")
    sent_bytes = models.BigIntegerField(default=0)
    total_bytes = models.BigIntegerField(default=0)
    create_sent_at = models.DateTimeField(
        null=True, help_text="A deposition was asked for; what came of it is not known."
    )
    deposition = models.BigIntegerField(null=True, help_text="Its number at the service.")
    bucket = models.CharField(max_length=500, blank=True, help_text="Where its files are put.")
    page = models.CharField(max_length=500, blank=True, help_text="Where a person sees it.")
    doi = models.CharField(max_length=200, blank=True)
    uploaded_at = models.DateTimeField(null=True)
    uploaded_hash = models.CharField(
        max_length=64, blank=True, help_text="Of what was stated when that bundle was written."
    )
    publish_sent_at = models.DateTimeField(
        null=True, help_text="It was to be published; what came of it is not known."
    )
    published_at = models.DateTimeField(null=True)
    problem = models.TextField(default="", help_text="Why the last attempt failed.")

    def __str__(self) -> str:
        return f"deposit of {self.experiment}"

    @property
    def is_open(self) -> bool:
        return self.state in self.OPEN

    @property
    def percent(self) -> int:
        """Return how much of the bundle has been sent."""
        return min(100, 100 * self.sent_bytes // self.total_bytes) if self.total_bytes else 0


def find_citation(experiment: Experiment) -> Citation | None:
    """Return what is stated of an experiment; without a statement if it was read with the row."""
    citation: Any = getattr(experiment, "citation", None)
    return citation if isinstance(citation, Citation) else None
