"""What leaves Tare: notifications on their way to a person, and the messages that carry them."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from experiments.models.cluster import Cluster
from experiments.models.credential import Credential
from experiments.models.experiment import Experiment
from experiments.models.webhook import Webhook


class NotificationMessage(models.Model):
    """Several notifications, sent to one person together. Its content is fixed once it is tried.

    While it is not sent, the person gets no other e-mail: what follows waits for it. To a webhook
    each notification is a message of its own.
    """

    recipient = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notification_messages"
    )
    way = models.CharField(max_length=10)
    webhook = models.ForeignKey(
        Webhook, null=True, on_delete=models.CASCADE, related_name="messages"
    )
    body = models.TextField(
        default="", help_text="What is posted to a webhook, the same at each attempt."
    )
    uid = models.UUIDField(
        default=uuid.uuid4, unique=True, help_text="The same at each attempt, for who receives it."
    )
    created_at = models.DateTimeField(help_text="By the database's clock, as all of them.")
    retry_at = models.DateTimeField(help_text="It is not tried before.")
    leased_until = models.DateTimeField(null=True, help_text="Until then a task is sending it.")
    attempts = models.PositiveIntegerField(default=0)
    problem = models.TextField(default="", help_text="Why the last attempt failed.")
    sent_at = models.DateTimeField(null=True)
    given_up_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-created_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["recipient", "way"],
                condition=Q(sent_at=None, given_up_at=None, webhook=None),
                name="one_unsent_message_a_person_and_way",
            )
        ]

    def __str__(self) -> str:
        return f"message {self.pk}"


class NotificationDelivery(models.Model):
    """One notification that a person wants to have some other way than in Tare.

    Until a message takes it there is one of a kind and subject: what follows changes it.
    """

    recipient = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notification_deliveries"
    )
    way = models.CharField(max_length=10)
    webhook = models.ForeignKey(
        Webhook, null=True, on_delete=models.CASCADE, related_name="deliveries"
    )
    kind = models.CharField(max_length=20)
    subject = models.CharField(max_length=100)
    experiment = models.ForeignKey(
        Experiment, null=True, on_delete=models.CASCADE, related_name="+"
    )
    cluster = models.ForeignKey(Cluster, null=True, on_delete=models.CASCADE, related_name="+")
    credential = models.ForeignKey(
        Credential, null=True, on_delete=models.CASCADE, related_name="+"
    )
    facts = models.JSONField(default=dict)
    created_at = models.DateTimeField(help_text="By the database's clock, as all of them.")
    changed_at = models.DateTimeField()
    due_at = models.DateTimeField(help_text="Until then it waits for others.")
    message = models.ForeignKey(
        NotificationMessage, null=True, on_delete=models.CASCADE, related_name="deliveries"
    )

    class Meta:
        ordering = ["-changed_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["recipient", "way", "webhook", "kind", "subject"],
                condition=Q(message=None),
                nulls_distinct=False,
                name="one_waiting_delivery_a_subject",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}"
