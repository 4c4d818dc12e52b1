"""The messages that leave Tare: what waits, what is due, who sends it, and what came of it.

All of it stands in PostgreSQL. A notification waits with others for a few minutes, then a message
takes all of them. A task leases the message, sends it with no transaction open, and writes down
what came of it. One that ends in the middle leaves a lease that runs out: the message is sent again
under the same name, so nothing is lost, and twice comes only what was taken just before.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet
from django.db.models.functions import Greatest, Now

from experiments.models import (
    Experiment,
    NotificationChoices,
    NotificationDelivery,
    NotificationKind,
    NotificationMessage,
    NotificationWay,
    User,
)
from experiments.models.database_time import database_now

GATHERED = timedelta(minutes=2)
"""As long a notification waits for others."""
BETWEEN = timedelta(minutes=15)
"""As much time is between two messages to a person."""
AGAIN = {NotificationKind.FAILED: timedelta(hours=6)}
"""As much time is between two messages about the same subject, for kinds that come often."""
LEASE = timedelta(minutes=11)  # longer than a task may take
PAUSES = tuple(timedelta(minutes=2**step) for step in range(6))
LAST_PAUSE = timedelta(hours=1)
GIVEN_UP = timedelta(days=1)
KEPT = timedelta(days=7)
MOST_AT_ONCE = {NotificationWay.EMAIL: 2}
"""Tasks that send at the same time: a server that hangs keeps no more slots of a worker."""
LOCK = 0x7A7E0078  # of PostgreSQL, held while a task chooses its message


def list_open_ways() -> list[str]:
    """Return the ways out of Tare that this site has."""
    return [NotificationWay.EMAIL] if settings.EMAIL_HOST else []


def queue_delivery(
    person: User,
    way: str,
    kind: str,
    *,
    subject: str,
    facts: Mapping[str, Any],
    experiment: Experiment | None = None,
) -> None:
    """Have a notification sent. To be called with the person locked."""
    about = {"recipient": person, "way": way, "kind": kind, "subject": subject}
    rows = NotificationDelivery.objects.filter(**about)
    if rows.filter(message=None).update(facts=dict(facts), changed_at=Now()):
        return
    now = database_now()
    due_at = now + GATHERED
    if pause := AGAIN.get(NotificationKind(kind)):
        last = rows.aggregate(last=Max("message__sent_at"))["last"]
        due_at = max(due_at, last + pause) if last else due_at
    NotificationDelivery.objects.create(
        **about,
        experiment=experiment,
        facts=dict(facts),
        created_at=now,
        changed_at=now,
        due_at=due_at,
    )


def list_due_people(way: str) -> list[int]:
    """Return people to whom something is to be sent now, as many as there may be tasks more."""
    if way not in list_open_ways():
        return []
    leased = NotificationMessage.objects.filter(_is_unsent(), way=way, leased_until__gt=Now())
    free = MOST_AT_ONCE[NotificationWay(way)] - leased.count()
    return list(_filter_due_people(way).values_list("pk", flat=True)[:free]) if free > 0 else []


def claim_message(person_pk: int, way: str) -> NotificationMessage | None:
    """Lease the message that is to be sent to a person now; None if there is none.

    Nobody else sends it until the lease ends.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        if not list_due_people(way) or not _filter_due_people(way).filter(pk=person_pk).exists():
            return None
        unsent = NotificationMessage.objects.filter(_is_unsent(), recipient=person_pk, way=way)
        message = unsent.select_related("recipient").first() or _gather(person_pk, way)
        message.attempts += 1
        message.leased_until = database_now() + LEASE
        message.save(update_fields=["attempts", "leased_until"])
    return message


def keep_success(message: NotificationMessage) -> None:
    """Note that a message was sent."""
    _settle(message, sent_at=Now(), problem="")


def keep_failure(message: NotificationMessage, problem: str, *, is_final: bool = False) -> None:
    """Note why a message was not sent; it is tried again after a pause, for a day."""
    now = database_now()
    if is_final or now - message.created_at >= GIVEN_UP:
        _settle(message, given_up_at=Now(), problem=problem)
        return
    step = message.attempts - 1
    pause = PAUSES[step] if step < len(PAUSES) else LAST_PAUSE
    _settle(message, retry_at=now + pause, problem=problem)


def postpone_others(way: str, pause: timedelta) -> None:
    """Try no message of a way for a while: the server itself does not answer."""
    unsent = NotificationMessage.objects.filter(_is_unsent(), way=way)
    unsent.update(retry_at=Greatest(F("retry_at"), Now() + pause))


def find_last_trouble(person: User, way: str) -> NotificationMessage | None:
    """Return the last message to a person, if it has not arrived."""
    message = NotificationMessage.objects.filter(recipient=person, way=way).first()
    return message if message and message.problem and not message.sent_at else None


def forget_old() -> None:
    """Delete what was sent, or could not be, a week ago."""
    before = Now() - KEPT
    NotificationMessage.objects.filter(created_at__lt=before).delete()
    NotificationDelivery.objects.filter(created_at__lt=before, message=None).delete()


def drop_unwanted(choices: NotificationChoices) -> None:
    """Delete e-mails that wait about kinds of which a person wants none any more."""
    waiting = NotificationDelivery.objects.filter(
        recipient=choices.person, way=NotificationWay.EMAIL, message=None
    )
    kept = [k for k in NotificationKind if NotificationWay.EMAIL in choices.list_ways(k)]
    waiting.exclude(kind__in=kept).delete()


def list_visible_deliveries(message: NotificationMessage) -> QuerySet[NotificationDelivery]:
    """Return what a message is about, without experiments that its reader may not see any more."""
    visible = Experiment.objects.visible_to(message.recipient).values("pk")
    rows = message.deliveries.filter(Q(experiment=None) | Q(experiment__in=visible))
    return rows.select_related("experiment").defer("experiment__plan")


def _is_unsent() -> Q:
    return Q(sent_at=None, given_up_at=None)


def _filter_due_people(way: str) -> QuerySet[User]:
    """Return those with a message to be tried now, or with notifications that waited enough."""
    messages = NotificationMessage.objects.filter(recipient=OuterRef("pk"), way=way)
    unsent = messages.filter(_is_unsent())
    is_free = Q(leased_until=None) | Q(leased_until__lte=Now())
    waiting = NotificationDelivery.objects.filter(
        recipient=OuterRef("pk"), way=way, message=None, due_at__lte=Now()
    )
    lately = messages.filter(sent_at__gt=Now() - BETWEEN)
    is_due = Q(Exists(unsent.filter(is_free, retry_at__lte=Now())))
    may_begin = Q(Exists(waiting), ~Exists(unsent), ~Exists(lately))
    return User.objects.filter(is_due | may_begin, is_active=True).order_by("pk")


def _gather(person_pk: int, way: str) -> NotificationMessage:
    """Make a message of what is due to a person, and of what will be in a moment."""
    now = database_now()
    message = NotificationMessage.objects.create(
        recipient=User.objects.get(pk=person_pk), way=way, created_at=now, retry_at=now
    )
    waiting = NotificationDelivery.objects.filter(recipient=person_pk, way=way, message=None)
    waiting.filter(due_at__lte=now + GATHERED).update(message=message)
    return message


def _settle(message: NotificationMessage, **columns: Any) -> None:
    NotificationMessage.objects.filter(pk=message.pk).update(leased_until=None, **columns)
