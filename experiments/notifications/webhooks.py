"""Webhooks: their secrets, how what is posted is signed, and when one is switched off.

Headers and signature are those of the Standard Webhooks specification, version 1.
"""

from __future__ import annotations

import base64
import hmac
import http
import logging
import secrets
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.views.decorators.debug import sensitive_variables

from experiments.access import audit
from experiments.encryption import Secret, WrongKey
from experiments.models import (
    NotificationKind,
    NotificationMessage,
    NotificationWay,
    User,
    Webhook,
    WebhookAnswer,
)
from experiments.models.database_time import database_now
from experiments.models.notification import TEST_KIND
from experiments.notifications import receivers
from experiments.notifications.inbox import lock_person, notify_person
from experiments.notifications.outbox import (
    find_pause,
    keep_failure,
    keep_success,
    list_visible_deliveries,
    queue_delivery,
)
from experiments.notifications.posted_events import write_body
from experiments.notifications.readers import Subject
from experiments.notifications.receivers import Answer, NotAllowed

logger = logging.getLogger(__name__)

MOST = 10  # of one person
PREFIX = "whsec_"
SECRET_BYTES = 32
BOTH_SIGN = timedelta(days=1)
"""As long the secret before a rotation signs too."""
LONGEST_FAILING = timedelta(days=3)
"""One that has taken nothing for as long is switched off when a message to it is given up."""
ANSWERS_KEPT = 20


class NotDone(Exception):
    """Why something was not done, for the person who wanted it."""


@sensitive_variables()
def add_webhook(owner: User, address: str, kinds: list[str]) -> tuple[Webhook, Secret]:
    """Add a webhook; return it with its secret, to be shown once. Raises NotDone."""
    with transaction.atomic():
        lock_person(owner)
        if owner.webhooks.count() >= MOST:
            raise NotDone(f"There are {MOST} webhooks, which is the most: delete one first.")
        secret = make_secret()
        row = Webhook(owner=owner, kinds=kinds, created_at=database_now())
        row.set_address(address)
        row.secret = secret
        row.save()
    return row, secret


@sensitive_variables()
def change_webhook(row: Webhook, address: str, kinds: list[str], *, by: User) -> None:
    """Post these kinds to this address from now on. What failed at another one counts no more."""
    changed = ["address", "host", "kinds"]
    if row.address != Secret(address):
        row.failures, row.failing_since, row.retry_at = 0, None, None
        changed += ["failures", "failing_since", "retry_at"]
    row.set_address(address)
    row.kinds = kinds
    with transaction.atomic():
        row.save(update_fields=changed)
        audit.note(by, "changed", row)


@sensitive_variables()
def rotate_secret(row: Webhook) -> Secret:
    """Give a webhook another secret and return it, to be shown once. The old one signs too."""
    secret = make_secret()
    with transaction.atomic():
        lock_person(row.owner)
        stored = audit.get_stored(Webhook.objects.select_for_update(no_key=True), pk=row.pk)
        # One that cannot be read any more signs nothing, and would keep the new one from it.
        stored.previous_secret = stored.secret if stored.secret.opens() else ""
        stored.secret = secret
        stored.previous_until = database_now() + BOTH_SIGN
        stored.save(update_fields=["previous_secret", "secret", "previous_until"])
    return secret


def make_secret() -> Secret:
    """Return a new random secret, written as the specification has it."""
    return Secret(PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode())


def switch_webhook(row: Webhook, *, on: bool) -> None:
    """Switch a webhook on, as if nothing had failed, or off. What waited for it is posted then."""
    fresh = {"failures": 0, "failing_since": None, "retry_at": None, "why_off": ""}
    off_at = None if on else Now()
    Webhook.objects.filter(pk=row.pk).update(**fresh, switched_off_at=off_at)


def queue_test(row: Webhook) -> None:
    """Have a test posted, however lately posting has failed; at most every few seconds."""
    with transaction.atomic():
        lock_person(row.owner)
        queue_delivery(
            row.owner,
            NotificationWay.WEBHOOK,
            TEST_KIND,
            subject=Subject("test"),
            facts={},
            webhook=row,
        )
        Webhook.objects.filter(pk=row.pk).update(retry_at=None)


@sensitive_variables()
def send(message: NotificationMessage) -> None:
    """Post a message, and keep what came of it."""
    webhook = message.webhook
    assert webhook is not None
    delivery = list_visible_deliveries(message).first()
    if delivery is None:
        keep_failure(message, "", is_final=True)  # what it was about is hidden or gone
        return
    if not message.body:  # a new one; later attempts post the same
        message.body = write_body(message, delivery)
        message.save(update_fields=["body"])
    began_at = database_now()
    try:
        headers = sign_message(webhook, message, began_at)
        answer = receivers.post(webhook.address.reveal(), message.body.encode(), headers)
    except NotAllowed as problem:
        answer = Answer(0.0, problem=str(problem))
    except WrongKey:
        answer = Answer(0.0, problem=_explain_closed(webhook))
    if not Webhook.objects.filter(pk=webhook.pk).exists():
        return  # its owner has deleted it meanwhile
    _keep_answer(webhook, message, delivery.kind, began_at, answer)
    is_test = delivery.kind == TEST_KIND
    if not answer.problem:
        keep_success(message)
        Webhook.objects.filter(pk=webhook.pk).update(failures=0, failing_since=None, retry_at=None)
        return
    logger.info("Webhook %s: %s", webhook.pk, answer.problem)
    is_given_up = keep_failure(message, answer.problem, is_final=is_test)
    if not is_test:
        _note_failure(webhook, answer, is_given_up=is_given_up)


def _explain_closed(webhook: Webhook) -> str:
    """Return what its owner can do about a webhook of which no key opens the columns."""
    if not webhook.address.opens() and not webhook.secret.opens():
        return "This site can no longer read address and secret: type one again, make the other."
    if not webhook.address.opens():
        return "This site can no longer read the address: type it again."
    return "This site can no longer read the secret: make a new one."


def keep_unsent(message: NotificationMessage, problem: str) -> None:
    """Show among the answers of its webhook why a message was not posted; of an e-mail nothing."""
    if message.webhook_id is None:
        return
    webhook = Webhook.objects.filter(pk=message.webhook_id).first()
    delivery = message.deliveries.first()
    if webhook and delivery:
        answer = Answer(0.0, problem=problem)
        _keep_answer(webhook, message, delivery.kind, database_now(), answer)


@sensitive_variables()
def sign_message(webhook: Webhook, message: NotificationMessage, now: datetime) -> dict[str, str]:
    """Return the headers of a message. Raises WrongKey."""
    timestamp = int(now.timestamp())
    content = f"{message.uid}.{timestamp}.{message.body}".encode()
    signing = [webhook.secret]
    if webhook.has_previous_secret(now):
        signing.append(webhook.previous_secret)
    return {
        "Content-Type": "application/json",
        "User-Agent": "Tare",
        "webhook-id": str(message.uid),
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(compute_signature(secret, content) for secret in signing),
    }


@sensitive_variables()
def compute_signature(secret: Secret, content: bytes) -> str:
    """Return the signature of a content, version 1. Raises WrongKey."""
    key = base64.b64decode(secret.reveal().removeprefix(PREFIX))
    return "v1," + base64.b64encode(hmac.digest(key, content, "sha256")).decode()


def _keep_answer(
    webhook: Webhook, message: NotificationMessage, kind: str, at: datetime, answer: Answer
) -> None:
    """Keep an answer for the page, and forget those before the last few."""
    WebhookAnswer.objects.create(
        webhook=webhook,
        kind=kind,
        message_uid=message.uid,
        at=at,
        seconds=answer.seconds,
        status=answer.status,
        body=answer.body,
        problem=answer.problem,
    )
    last = webhook.answers.values_list("pk", flat=True)[:ANSWERS_KEPT]
    webhook.answers.exclude(pk__in=list(last)).delete()


def _note_failure(webhook: Webhook, answer: Answer, *, is_given_up: bool) -> None:
    """Wait before anything else is posted there; after days switch it off, and say so."""
    with transaction.atomic():
        lock_person(webhook.owner)
        row = Webhook.objects.select_for_update(no_key=True).get(pk=webhook.pk)
        now = database_now()
        row.failures = F("failures") + 1
        row.failing_since = row.failing_since or now
        if not answer.is_of_the_message:
            row.retry_at = now + find_pause(webhook.failures + 1)
        is_over = is_given_up and now - row.failing_since >= LONGEST_FAILING
        if row.is_on and (is_over or answer.is_gone):
            row.switched_off_at = now
            row.why_off = (
                f"It said that it is gone (HTTP {http.HTTPStatus.GONE:d})."
                if answer.is_gone
                else f"It has taken nothing since {row.failing_since:%Y-%m-%d %H:%M} UTC. "
                f"{answer.problem}"
            )
        row.save(
            update_fields=["failures", "failing_since", "retry_at", "switched_off_at", "why_off"]
        )
        if row.switched_off_at == now:
            facts = {"webhook": row.pk, "host": row.host, "why": row.why_off}
            subject = Subject(f"webhook {row.pk}")
            notify_person(row.owner, NotificationKind.WEBHOOK, subject=subject, facts=facts)
