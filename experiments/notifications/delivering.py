"""The task that sends what people are told outside of Tare."""

from __future__ import annotations

import logging

from django.db import DatabaseError
from rq.timeouts import BaseTimeoutException

from experiments.models import NotificationMessage, NotificationWay
from experiments.notifications import mails, webhooks
from experiments.notifications.outbox import claim_message, keep_failure, list_open_ways

logger = logging.getLogger(__name__)

SENDERS = {NotificationWay.EMAIL: mails.send, NotificationWay.WEBHOOK: webhooks.send}


def deliver(person_pk: int) -> str:
    """Send one message to a person, if one is due; return the way that it was tried, or ""."""
    for way in list_open_ways():
        if message := claim_message(person_pk, way):
            _send(message)
            return way
    return ""


def _send(message: NotificationMessage) -> None:
    """Send a message; one that cannot be written ends here, and stops no other.

    What the senders expect of servers they have kept themselves. Of the rest, what a machine may
    answer otherwise in a while is tried again after a pause; a mistake in Tare would be the same
    each time.
    """
    try:
        SENDERS[NotificationWay(message.way)](message)
    except DatabaseError:
        raise  # nothing can be kept now: the lease runs out
    except Exception as error:
        is_final = not isinstance(error, OSError | MemoryError | BaseTimeoutException)
        logger.exception("Message %s to %s by %s", message.uid, message.recipient, message.way)
        problem = (
            f"An error in Tare kept it from being sent ({type(error).__name__}); the log of the "
            "worker tells administrators more."
        )
        keep_failure(message, problem, is_final=is_final)
        webhooks.keep_unsent(message, problem)
