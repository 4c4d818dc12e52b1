"""The task that sends what people are told outside of Tare."""

from __future__ import annotations

from experiments.models import NotificationWay
from experiments.notifications import mails, webhooks
from experiments.notifications.outbox import claim_message, list_open_ways

SENDERS = {NotificationWay.EMAIL: mails.send, NotificationWay.WEBHOOK: webhooks.send}


def deliver(person_pk: int) -> str:
    """Send one message to a person, if one is due; return the way that it was tried, or ""."""
    for way in list_open_ways():
        if message := claim_message(person_pk, way):
            SENDERS[NotificationWay(way)](message)
            return way
    return ""
