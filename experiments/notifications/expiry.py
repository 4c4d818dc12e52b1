"""What becomes of what is old: it is deleted, or ends where people see it."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from experiments.models import (
    Notification,
    NotificationDelivery,
    NotificationMessage,
    User,
    Webhook,
)
from experiments.models.database_time import database_now
from experiments.notifications.inbox import count_unread, lock_person
from experiments.notifications.outbox import KEPT, keep_failure, list_open_ways
from experiments.notifications.webhooks import keep_unsent

logger = logging.getLogger(__name__)

READ_KEPT = timedelta(days=90)
"""As long a notification stays after it was read."""
UNREAD_KEPT = timedelta(days=365)
"""As long any notification stays after it was changed last, read or not."""
PORTION = 2_000
MOST_PORTIONS = 50
"""Of a round: what is left of years of notifications goes in the next ones."""


def forget_old() -> None:
    """Delete what was sent, or could not be, a week ago; give up what has waited for as long.

    What is given up stays for one more week, on the page of its reader.
    """
    before = database_now() - KEPT
    over = Q(sent_at__lt=before) | Q(given_up_at__lt=before)
    NotificationMessage.objects.filter(over, created_at__lt=before).delete()
    unsent = NotificationMessage.objects.filter(sent_at=None, given_up_at=None)
    for message in unsent.filter(created_at__lt=before).select_related("recipient", "webhook"):
        _give_up(message)
    waiting = NotificationDelivery.objects.filter(created_at__lt=before, message=None)
    for person, way, webhook in _list_readers(waiting):
        with transaction.atomic():
            # Given up from the first: somebody may have another message that is not sent yet, and
            # no more than one.
            message = NotificationMessage.objects.create(
                recipient=person,
                way=way,
                webhook=webhook,
                created_at=Now(),
                retry_at=Now(),
                given_up_at=Now(),
            )
            waiting.filter(recipient=person, way=way, webhook=webhook).update(message=message)
            _give_up(message)


def forget_notifications() -> int:
    """Delete notifications that were read long ago, and all that nothing has changed for a year.

    In portions, in many short transactions. Return how many were deleted.
    """
    now = database_now()
    was_read = Notification.objects.filter(read_at__lt=now - READ_KEPT).order_by("read_at")
    is_old = Notification.objects.filter(changed_at__lt=now - UNREAD_KEPT).order_by("changed_at")
    total = 0
    for _ in range(MOST_PORTIONS):
        count = _delete_portion(was_read) + _delete_portion(is_old)
        total += count
        if not count:
            break
    return total


def _delete_portion(rows: QuerySet[Notification]) -> int:
    """Delete the first of these; of those unread, count anew what their readers have not read.

    Those of one reader at a time: whoever tells several people of something locks them all, in an
    order of its own, and would be waited for while it waits for us.
    """
    portion = list(rows.values_list("pk", "recipient", "read_at")[:PORTION])
    read_keys = [pk for pk, _, read_at in portion if read_at]
    unread_keys: dict[int, list[int]] = {}
    for pk, reader, read_at in portion:
        if read_at is None:
            unread_keys.setdefault(reader, []).append(pk)
    total, _ = rows.order_by().filter(pk__in=read_keys).delete()
    for person in User.objects.filter(pk__in=unread_keys):
        with transaction.atomic():
            lock_person(person)
            # Those alone that are as old still: one that was not read may have been changed since.
            count, _ = rows.order_by().filter(pk__in=unread_keys[person.pk]).delete()
            count_unread(person)
        total += count
    return total


def _list_readers(rows: QuerySet[NotificationDelivery]) -> set[tuple[User, str, Webhook | None]]:
    """Return to whom, how and to which webhook these were to be sent."""
    readers = ("recipient_id", "way", "webhook_id")
    firsts = rows.order_by(*readers).distinct(*readers)
    return {
        (row.recipient, row.way, row.webhook)
        for row in firsts.select_related("recipient", "webhook")
    }


def _give_up(message: NotificationMessage) -> None:
    """End a message that nobody has sent, with the reason, and say so in the log."""
    count = message.deliveries.count()
    subject, verb = f"{count} notification{'s' * (count != 1)}", "was" if count == 1 else "were"
    problem = f"{subject} waited for a week and {verb} not sent: {_explain(message)}"
    logger.warning("%s to %s: %s", message.way, message.recipient, problem)
    keep_failure(message, problem, is_final=True)
    keep_unsent(message, problem)


def _explain(message: NotificationMessage) -> str:
    if message.problem:
        return message.problem
    if message.way not in list_open_ways():
        return "this site has stopped sending any."
    if message.webhook and not message.webhook.is_on:
        return "the webhook is switched off."
    if not message.recipient.is_active:
        return "the account is switched off."
    return "nothing of Tare has sent them. Administrators see in Operations what does not run."
