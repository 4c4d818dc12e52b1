"""What the tests of mails share."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models import F

from experiments.models import (
    Experiment,
    NotificationChoices,
    NotificationDelivery,
    NotificationMessage,
    User,
)
from experiments.notifications import (
    Subject,
    deliver,
    list_due_people,
    notify_person,
)
from tests.factories import LaunchedFactory, UserFactory
from tests.smtp_server import MailServer, serve_mail

ALL = {kind: ["site", "email"] for kind in ("ended", "failed", "verdict")}


@pytest.fixture
def server(settings: Any) -> Iterator[MailServer]:
    with serve_mail() as mail_server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", mail_server.port
        settings.EMAIL_TIMEOUT = 5
        settings.SITE_ADDRESS = "https://tare.example.org"
        settings.DEFAULT_FROM_EMAIL = "Tare <tare@example.org>"
        yield mail_server


@pytest.fixture
def owner() -> User:
    person: User = UserFactory(username="owner", email="owner@example.org")
    NotificationChoices.objects.create(person=person, ways=ALL)
    return person


def tell(person: User, kind: str = "ended", question: str = "What?", **facts: Any) -> Experiment:
    made: Experiment = LaunchedFactory(owner=person, question=question)
    tell_of(made, kind, **facts)
    return made


def tell_of(made: Experiment, kind: str = "ended", **facts: Any) -> None:
    counts = {"runs": 3, "succeeded": 3, **facts}
    with transaction.atomic():
        subject = Subject(f"experiment {made.pk}", experiment=made)
        notify_person(made.owner, kind, subject=subject, facts=counts)


def let_pass(**span: float) -> None:
    """Make all that is kept as much older."""
    by = timedelta(**span)
    for model, columns in (
        (NotificationDelivery, ("created_at", "changed_at", "due_at")),
        (NotificationMessage, ("created_at", "retry_at", "sent_at", "leased_until", "given_up_at")),
    ):
        model._default_manager.update(**{column: F(column) - by for column in columns})


def send_due(person: User) -> str:
    """Do what the clock and a worker do after a few minutes."""
    let_pass(minutes=3)
    return deliver(person.pk) if person.pk in list_due_people("email") else "not due"


class Killed(BaseException):
    """The worker ends here."""


def kill(*_: Any) -> None:
    raise Killed
