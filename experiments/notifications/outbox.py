"""The messages that leave Tare: what waits, what is due, who sends it, and what came of it.

All of it stands in PostgreSQL. A notification waits for a while. Then an e-mail takes all that wait
for a person; of those for a webhook each is a message of its own. A task leases the message, sends
it with no transaction open, and writes down what came of it. One that ends in the middle leaves a
lease that runs out: the message is sent again under the same name, so nothing is lost, and twice
comes only what was taken just before.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce, Greatest, Now

from experiments.models import (
    NotificationChoices,
    NotificationDelivery,
    NotificationKind,
    NotificationMessage,
    NotificationWay,
    User,
    Webhook,
)
from experiments.models.database_locks import wait_for_lock
from experiments.models.database_time import database_now
from experiments.models.notification import TEST_KIND
from experiments.notifications.readers import Subject, is_readable

GATHERED = {NotificationWay.EMAIL: timedelta(minutes=2), NotificationWay.WEBHOOK: timedelta(0)}
"""As long a notification waits for others, or for what changes it."""
EMAIL_INTERVAL = timedelta(minutes=15)
"""As much time is between two e-mails to a person."""
REPEAT_INTERVALS = {
    (NotificationWay.EMAIL, NotificationKind.FAILED): timedelta(hours=6),
    (NotificationWay.WEBHOOK, NotificationKind.FAILED): timedelta(minutes=15),
    (NotificationWay.WEBHOOK, TEST_KIND): timedelta(seconds=10),
}
"""As much time is between two messages about the same subject, for kinds that come often."""
LEASE = timedelta(minutes=11)  # longer than a task may take
PAUSES = tuple(timedelta(minutes=2**step) for step in range(6))
LAST_PAUSE = timedelta(hours=1)
GIVEN_UP = timedelta(days=1)
MOST_INTERRUPTED = 5
"""Attempts of which the last has left nothing but its lease."""
KEPT = timedelta(days=7)
MOST_AT_ONCE = {NotificationWay.EMAIL: 2, NotificationWay.WEBHOOK: 2}
"""Tasks that send at the same time: a server that hangs keeps no more slots of a worker."""
LOCK = "notification messages"
"""The lock that is held while a task chooses its message."""


def list_open_ways() -> list[str]:
    """Return the ways out of Tare that this site has."""
    ways = {NotificationWay.EMAIL: settings.EMAIL_HOST, NotificationWay.WEBHOOK: settings.WEBHOOKS}
    return [way for way, is_open in ways.items() if is_open]


def queue_delivery(
    person: User,
    way: str,
    kind: str,
    *,
    subject: Subject,
    facts: Mapping[str, Any],
    webhook: Webhook | None = None,
) -> None:
    """Have a notification sent. To be called with the person locked."""
    about = {"recipient": person, "way": way, "webhook": webhook, "kind": kind}
    rows = NotificationDelivery.objects.filter(**about, subject=subject.name)
    if rows.filter(message=None).update(facts=dict(facts), changed_at=Now()):
        return
    now = database_now()
    due_at = now + GATHERED[NotificationWay(way)]
    if pause := REPEAT_INTERVALS.get((NotificationWay(way), kind)):
        ended = Coalesce("message__sent_at", "message__given_up_at")
        last = rows.aggregate(last=Max(ended))["last"]
        due_at = max(due_at, last + pause) if last else due_at
    NotificationDelivery.objects.create(
        **about,
        **subject.columns,
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
    if free <= 0:
        return []
    if way == NotificationWay.WEBHOOK:
        return list(_filter_due_webhooks().values_list("owner", flat=True)[:free])
    return list(_filter_due_people(way).values_list("pk", flat=True)[:free])


def claim_message(person_pk: int, way: str) -> NotificationMessage | None:
    """Lease the message that is to be sent to a person now; None if there is none.

    Nobody else sends it until the lease ends.
    """
    with transaction.atomic():
        wait_for_lock(LOCK)
        if not list_due_people(way):
            return None
        message = (
            _find_post(person_pk) if way == NotificationWay.WEBHOOK else _find_mail(person_pk, way)
        )
        if message is None or _is_interrupted_often(message):
            return None
        message.attempts += 1
        message.leased_until = database_now() + LEASE
        message.save(update_fields=["attempts", "leased_until"])
    return message


def _is_interrupted_often(message: NotificationMessage) -> bool:
    """Return whether each of several attempts ended without a word; then the message is given up.

    A worker that is killed leaves a lease and nothing else: it may be the message that kills it.
    """
    if message.leased_until is None or message.attempts < MOST_INTERRUPTED:
        return False
    if message.problem and database_now() - message.created_at < GIVEN_UP:
        return False  # of its attempts some had an answer, and are counted too
    problem = f"Sending it was interrupted {message.attempts} times without an answer."
    keep_failure(message, problem, is_final=True)
    return True


def keep_success(message: NotificationMessage) -> None:
    """Note that a message was sent."""
    _settle(message, sent_at=Now(), problem="")


def keep_failure(message: NotificationMessage, problem: str, *, is_final: bool = False) -> bool:
    """Note why a message was not sent; it is tried again after a pause, for a day.

    Return whether it is given up.
    """
    now = database_now()
    if is_final or now - message.created_at >= GIVEN_UP:
        _settle(message, given_up_at=Now(), problem=problem)
        return True
    _settle(message, retry_at=now + find_pause(message.attempts), problem=problem)
    return False


def find_pause(attempts: int) -> timedelta:
    """Return how long to wait after so many attempts that failed."""
    return PAUSES[attempts - 1] if attempts <= len(PAUSES) else LAST_PAUSE


def postpone_others(way: str, pause: timedelta) -> None:
    """Try no message of a way for a while: the server itself does not answer."""
    unsent = NotificationMessage.objects.filter(_is_unsent(), way=way)
    unsent.update(retry_at=Greatest(F("retry_at"), Now() + pause))


def find_last_trouble(person: User, way: str) -> NotificationMessage | None:
    """Return the last message to a person, if it has not arrived."""
    message = NotificationMessage.objects.filter(recipient=person, way=way).first()
    return message if message and message.problem and not message.sent_at else None


def drop_unwanted(choices: NotificationChoices) -> None:
    """Delete e-mails that wait about kinds of which a person wants none any more."""
    waiting = NotificationDelivery.objects.filter(
        recipient=choices.person, way=NotificationWay.EMAIL, message=None
    )
    kept = [k for k in NotificationKind if NotificationWay.EMAIL in choices.list_ways(k)]
    waiting.exclude(kind__in=kept).delete()


def list_visible_deliveries(message: NotificationMessage) -> QuerySet[NotificationDelivery]:
    """Return what a message is about, without what its reader may not see any more."""
    rows = message.deliveries.filter(is_readable(message.recipient))
    related = rows.select_related("experiment", "cluster", "credential")
    return related.defer("experiment__plan")


def _is_unsent() -> Q:
    return Q(sent_at=None, given_up_at=None)


def _filter_due_people(way: str) -> QuerySet[User]:
    """Return those with an e-mail to be tried now, or with notifications that waited enough."""
    messages = NotificationMessage.objects.filter(recipient=OuterRef("pk"), way=way)
    unsent = messages.filter(_is_unsent())
    is_free = Q(leased_until=None) | Q(leased_until__lte=Now())
    waiting = NotificationDelivery.objects.filter(
        recipient=OuterRef("pk"), way=way, message=None, due_at__lte=Now()
    )
    lately = messages.filter(sent_at__gt=Now() - EMAIL_INTERVAL)
    is_due = Q(Exists(unsent.filter(is_free, retry_at__lte=Now())))
    may_begin = Q(Exists(waiting), ~Exists(unsent), ~Exists(lately))
    return User.objects.filter(is_due | may_begin, is_active=True).order_by("pk")


def _filter_due_webhooks() -> QuerySet[Webhook]:
    """Return those to which something is to be posted now; to each one message at a time."""
    unsent = NotificationMessage.objects.filter(_is_unsent(), webhook=OuterRef("pk"))
    waiting = NotificationDelivery.objects.filter(
        webhook=OuterRef("pk"), message=None, due_at__lte=Now()
    )
    rows = Webhook.objects.filter(switched_off_at=None, owner__is_active=True)
    may_be_tried = Q(retry_at=None) | Q(retry_at__lte=Now())
    has_post = Q(Exists(unsent.filter(retry_at__lte=Now()))) | Q(Exists(waiting))
    is_leased = Exists(unsent.filter(leased_until__gt=Now()))
    return rows.filter(may_be_tried, has_post, ~is_leased).order_by(
        F("tried_at").asc(nulls_first=True), "pk"
    )


def _find_mail(person_pk: int, way: str) -> NotificationMessage | None:
    """Return the e-mail that is due to a person: one that failed, or one of all that waits."""
    if not _filter_due_people(way).filter(pk=person_pk).exists():
        return None
    unsent = NotificationMessage.objects.filter(_is_unsent(), recipient=person_pk, way=way)
    if message := unsent.select_related("recipient").first():
        return message
    now = database_now()
    message = _add_message(User.objects.get(pk=person_pk), way)
    waiting = NotificationDelivery.objects.filter(recipient=person_pk, way=way, message=None)
    gathered = now + GATHERED[NotificationWay(way)]  # what will be due in a moment, too
    waiting.filter(due_at__lte=gathered).update(message=message)
    return message


def _find_post(person_pk: int) -> NotificationMessage | None:
    """Return what is due to a webhook of a person: what failed longest ago, or what waits."""
    webhook = _filter_due_webhooks().select_related("owner").filter(owner=person_pk).first()
    if webhook is None:
        return None
    Webhook.objects.filter(pk=webhook.pk).update(tried_at=Now())
    unsent = webhook.messages.filter(_is_unsent(), retry_at__lte=Now()).order_by("retry_at", "pk")
    if message := unsent.select_related("recipient", "webhook").first():
        return message
    waiting = webhook.deliveries.filter(message=None, due_at__lte=Now())
    first = waiting.order_by("due_at", "pk")[:1].values("pk")
    message = _add_message(webhook.owner, NotificationWay.WEBHOOK, webhook)
    NotificationDelivery.objects.filter(pk__in=first).update(message=message)
    return message


def _add_message(person: User, way: str, webhook: Webhook | None = None) -> NotificationMessage:
    now = database_now()
    return NotificationMessage.objects.create(
        recipient=person, way=way, webhook=webhook, created_at=now, retry_at=now
    )


def _settle(message: NotificationMessage, **columns: Any) -> None:
    NotificationMessage.objects.filter(pk=message.pk).update(leased_until=None, **columns)
