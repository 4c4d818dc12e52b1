"""Each person's notifications: written once, read by those who may still see what they are about.

The number of unread ones stands with the person, so that the head of a page needs no statement.
Whoever changes notifications locks the person first: the number is counted after all changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from experiments.models import (
    Experiment,
    Notification,
    NotificationChoices,
    NotificationWay,
    User,
)
from experiments.notifications.outbox import list_open_ways, queue_delivery


def notify_person(
    person: User,
    kind: str,
    *,
    subject: str,
    facts: Mapping[str, Any],
    experiment: Experiment | None = None,
) -> bool:
    """Write a notification for a person who wants this kind; an unread one of it is changed.

    Whether it also leaves Tare is up to the person: a task sends it later. Return whether one was
    written for the list. To be called in the transaction that notes what was told.
    """
    lock_person(person)
    choices = NotificationChoices.objects.filter(pk=person.pk).first() or NotificationChoices()
    ways = choices.list_ways(kind)
    for way in list_open_ways():
        if way in ways:
            queue_delivery(person, way, kind, subject=subject, facts=facts, experiment=experiment)
    if NotificationWay.SITE not in ways:
        return False
    about = {"recipient": person, "kind": kind, "subject": subject}
    changed = Notification.objects.filter(**about, read_at=None).update(
        facts=dict(facts), changed_at=Now()
    )
    if not changed:
        Notification.objects.create(
            **about, experiment=experiment, facts=dict(facts), created_at=Now(), changed_at=Now()
        )
    count_unread(person)
    return True


def lock_person(person: User) -> None:
    """Let nobody else change this person's notifications until the transaction ends."""
    list(User.objects.select_for_update(no_key=True).filter(pk=person.pk).values_list("pk"))


def list_notifications(person: User) -> QuerySet[Notification]:
    """Return the notifications of a person, the last one first.

    Without those about experiments that the person may not see any more.
    """
    visible = Experiment.objects.visible_to(person).values("pk")
    rows = Notification.objects.filter(Q(experiment=None) | Q(experiment__in=visible))
    return rows.filter(recipient=person)


def count_unread(person: User) -> int:
    """Count a person's unread notifications, and store the number with the person."""
    with transaction.atomic():
        lock_person(person)
        count = list_notifications(person).filter(read_at=None).count()
        User.objects.filter(pk=person.pk).update(unread_notifications=count)
    person.unread_notifications = count
    return count


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
