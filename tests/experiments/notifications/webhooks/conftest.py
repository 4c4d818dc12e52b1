"""What the tests of webhooks share."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.db.models import F

from experiments.models import (
    Experiment,
    NotificationDelivery,
    NotificationMessage,
    User,
    Webhook,
)
from experiments.notifications import (
    Subject,
    deliver,
    list_due_people,
    notify_person,
    webhooks,
)
from tests.dashboard.conftest import Site, measured
from tests.factories import (
    ClusterFactory,
    ContainerFactory,
    EnvironmentFactory,
    LaunchedFactory,
    PartitionFactory,
    UserFactory,
    WorkloadFactory,
)
from tests.web_receiver import Receiver, Taken, serve_webhook

KINDS = ["ended", "failed", "verdict"]
DOCUMENT = Path(__file__).parents[4] / "docs" / "notifications.md"


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    settings.WEBHOOKS_WITHOUT_TLS = True
    settings.WEBHOOK_INSIDE_NETWORKS = ["127.0.0.0/8"]
    settings.SITE_ADDRESS = "https://tare.example.org"
    with serve_webhook() as server:
        yield server


@pytest.fixture
def owner() -> User:
    person: User = UserFactory(username="owner")
    return person


@pytest.fixture
def results(owner: User) -> Experiment:
    """An experiment of the owner with a verdict."""
    cluster = ClusterFactory(owner=owner)
    site = Site(
        cluster=cluster,
        partition=PartitionFactory(cluster=cluster),
        bare=EnvironmentFactory(cluster=cluster),
        container=ContainerFactory(cluster=cluster),
        workload=WorkloadFactory(),
    )
    return measured(site, owner)


def add(owner: User, address: str, kinds: list[str] | None = None) -> tuple[Webhook, str]:
    row, secret = webhooks.add_webhook(owner, address, KINDS if kinds is None else kinds)
    return row, secret.reveal()


def tell(person: User, kind: str = "ended", question: str = "What?", **facts: Any) -> Experiment:
    made: Experiment = LaunchedFactory(owner=person, question=question)
    tell_of(made, kind, **facts)
    return made


def tell_of(made: Experiment, kind: str = "ended", **facts: Any) -> None:
    subject = Subject(f"experiment {made.pk}", experiment=made)
    counts = {"runs": 3, "succeeded": 3, **facts}
    with transaction.atomic():
        notify_person(made.owner, kind, subject=subject, facts=counts)


def let_pass(**span: float) -> None:
    """Make all that is kept as much older."""
    by = timedelta(**span)
    for model, columns in (
        (NotificationDelivery, ("created_at", "changed_at", "due_at")),
        (NotificationMessage, ("created_at", "retry_at", "sent_at", "leased_until", "given_up_at")),
        (Webhook, ("failing_since", "retry_at", "tried_at", "previous_until")),
    ):
        model._default_manager.update(**{column: F(column) - by for column in columns})


def send_due(**span: float) -> int:
    """Do what the clock and workers do after a while; return how many messages were tried."""
    let_pass(**(span or {"seconds": 5}))
    count = 0
    while people := list_due_people("webhook"):
        assert deliver(people[0]) == "webhook"
        count += 1
    return count


def is_signed(taken: Taken, secret: str) -> bool:
    """Check as the specification says, by nothing of Tare's own."""
    headers = taken.headers
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + taken.body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, content, "sha256").digest()).decode()
    return f"v1,{expected}" in headers["webhook-signature"].split()
