"""Notifications: what people are told, what they have chosen to be told, and what was told last."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q

from experiments.models.cluster import Cluster
from experiments.models.credential import Credential
from experiments.models.experiment import Experiment
from experiments.models.user import Role, User


class NotificationKind(models.TextChoices):
    """What a person can be told about."""

    ENDED = "ended", "An experiment of mine has ended"
    FAILED = "failed", "Runs of mine have failed"
    VERDICT = "verdict", "A verdict is there, or another one"
    RECURRING = "recurring", "A recurring experiment left its limits, or was not launched"
    WEBHOOK = "webhook", "A webhook of mine was switched off"
    SERVICE = "service", "A service of Tare does not run"
    STORAGE = "storage", "A disk of Tare is nearly full"
    CLUSTER = "cluster", "A cluster is not reachable, paused, or its disk is full"
    EXPIRY = "expiry", "A certificate of a credential expires within 14 days"


TEST_KIND = "test"
"""What a person has posted to see whether a webhook works; nobody chooses it."""
ROLES = {
    NotificationKind.SERVICE: Role.SITE_ADMINISTRATOR,
    NotificationKind.STORAGE: Role.SITE_ADMINISTRATOR,
    NotificationKind.CLUSTER: Role.CLUSTER_ADMINISTRATOR,
    NotificationKind.EXPIRY: Role.CLUSTER_ADMINISTRATOR,
}
"""The least role that is told; of the other kinds everybody is."""


def list_kinds(person: User) -> list[NotificationKind]:
    """Return the kinds that a person can be told about."""
    return [
        kind for kind in NotificationKind if kind not in ROLES or person.is_at_least(ROLES[kind])
    ]


class NotificationWay(models.TextChoices):
    """How a person can be told."""

    SITE = "site", "In Tare"
    EMAIL = "email", "By e-mail"
    WEBHOOK = "webhook", "By webhook"


class Notification(models.Model):
    """What one person is told about one subject, such as an experiment.

    While it is unread there is one of a kind and subject: what follows changes it.
    """

    Kind = NotificationKind

    recipient = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notifications"
    )
    kind = models.CharField(max_length=20, choices=NotificationKind.choices)
    subject = models.CharField(max_length=100, help_text="The same for all that changes one row.")
    experiment = models.ForeignKey(
        Experiment, null=True, on_delete=models.CASCADE, related_name="notifications"
    )
    cluster = models.ForeignKey(Cluster, null=True, on_delete=models.CASCADE, related_name="+")
    credential = models.ForeignKey(
        Credential, null=True, on_delete=models.CASCADE, related_name="+"
    )
    facts = models.JSONField(default=dict, help_text="Numbers and names of which it is written.")
    created_at = models.DateTimeField(help_text="By the database's clock.")
    changed_at = models.DateTimeField(help_text="The same.")
    read_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-changed_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["recipient", "kind", "subject"],
                condition=Q(read_at=None),
                name="one_unread_notification_a_subject",
            )
        ]
        indexes = [
            models.Index(fields=["recipient", "-changed_at", "-id"], name="notification_by_person"),
            # For what is deleted.
            models.Index(
                fields=["read_at"], condition=Q(read_at__isnull=False), name="notification_read"
            ),
            models.Index(fields=["changed_at"], name="notification_changed"),
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}"


class NotificationChoices(models.Model):
    """The kinds and ways that a person has chosen; without a row the default holds."""

    DEFAULT: dict[str, list[str]] = {kind: [NotificationWay.SITE] for kind in NotificationKind}

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="notification_choices",
    )
    ways = models.JSONField(default=dict, help_text="The ways chosen for each kind.")

    def __str__(self) -> str:
        return f"notifications of {self.person_id}"

    def list_ways(self, kind: str) -> list[str]:
        """Return the ways of a kind; of one that came after the choice, the default."""
        ways: Any = self.ways.get(kind, self.DEFAULT.get(kind, []))
        return [way for way in NotificationWay if way in ways]


class NoticedExperiment(models.Model):
    """What of an experiment its owner was told last, or need not be told.

    Written in the transaction that writes the notifications: neither is ever without the other.
    """

    experiment = models.OneToOneField(
        Experiment, on_delete=models.CASCADE, primary_key=True, related_name="noticed"
    )
    ended = models.PositiveBigIntegerField(
        default=0, help_text="Attempts of all jobs when its end was noticed; 0: never."
    )
    failures = models.PositiveBigIntegerField(
        default=0, help_text="Attempts of the failed runs, with those before repairs."
    )
    verdicts = models.JSONField(default=dict, help_text="How many pairs had each verdict.")
    looked_at = models.DateTimeField(help_text="By the database's clock.")

    def __str__(self) -> str:
        return f"noticed of experiment {self.pk}"
