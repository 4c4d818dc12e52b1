"""Each person's notifications: written once, read by those who may still see what they are about.

The number of unread ones stands with the person, so that the head of a page needs no statement.
Whoever changes notifications locks the person first: the number is counted after all changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.dateparse import parse_datetime

from experiments.models import (
    Notification,
    NotificationChoices,
    NotificationWay,
    User,
)
from experiments.notifications.outbox import list_open_ways, queue_delivery
from experiments.notifications.readers import Subject, is_readable


def notify_person(person: User, kind: str, *, subject: Subject, facts: Mapping[str, Any]) -> bool:
    """Write a notification for a person who wants this kind; an unread one of it is changed.

    Whether it also leaves Tare is up to the person: a task sends it later. Return whether one was
    written for the list. To be called in the transaction that notes what was told.
    """
    lock_person(person)
    choices = NotificationChoices.objects.filter(pk=person.pk).first() or NotificationChoices()
    ways, open_ways = choices.list_ways(kind), list_open_ways()
    if NotificationWay.EMAIL in ways and NotificationWay.EMAIL in open_ways:
        queue_delivery(person, NotificationWay.EMAIL, kind, subject=subject, facts=facts)
    if NotificationWay.WEBHOOK in open_ways:
        for webhook in person.webhooks.filter(switched_off_at=None, kinds__contains=[kind]):
            queue_delivery(
                person, NotificationWay.WEBHOOK, kind, subject=subject, facts=facts, webhook=webhook
            )
    if NotificationWay.SITE not in ways:
        return False
    about = {"recipient": person, "kind": kind}
    changed = Notification.objects.filter(**about, subject=subject.name, read_at=None).update(
        facts=dict(facts), changed_at=Now()
    )
    if not changed:
        Notification.objects.create(
            **about, **subject.columns, facts=dict(facts), created_at=Now(), changed_at=Now()
        )
    count_unread(person)
    return True


def lock_person(person: User) -> None:
    """Let nobody else change this person's notifications until the transaction ends."""
    list(User.objects.select_for_update(no_key=True).filter(pk=person.pk).values_list("pk"))


def list_notifications(person: User) -> QuerySet[Notification]:
    """Return the notifications of a person, the last one first.

    Without those that the person may not read any more.
    """
    return Notification.objects.filter(is_readable(person), recipient=person)


def count_unread(person: User) -> int:
    """Count a person's unread notifications, and store the number with the person."""
    with transaction.atomic():
        lock_person(person)
        count = list_notifications(person).filter(read_at=None).count()
        User.objects.filter(pk=person.pk).update(unread_notifications=count)
    person.unread_notifications = count
    return count


def parse_moment(text: str) -> datetime | None:
    """Return the moment that a text says, by UTC; None where it says none, or no zone.

    PostgreSQL does not take each zone that Python takes.
    """
    try:
        moment = parse_datetime(text)
        return moment.astimezone(UTC) if moment and moment.tzinfo else None
    except (ValueError, OverflowError):  # a day that no month has, a moment of another age
        return None


def mark_read(person: User, *, pk: int | None = None, until: datetime | None = None) -> int:
    """Mark one notification as read, or all that have not changed since `until`; return how many.

    What came after the page was shown stays unread.
    """
    with transaction.atomic():
        lock_person(person)
        unread = Notification.objects.filter(recipient=person, read_at=None)
        if pk is not None:
            unread = unread.filter(pk=pk)
        if until is not None:
            unread = unread.filter(changed_at__lte=until)
        count = unread.update(read_at=Now())
        count_unread(person)
    return count
