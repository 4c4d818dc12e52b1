"""Webhooks: signed, retried, at least once under one name, and switched off in the end."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core import serializers
from django.core.management import call_command
from django.db import connection

from experiments.comparisons.experiment_comparison import compare_experiment
from experiments.encryption import Secret
from experiments.models import (
    Experiment,
    NotificationDelivery,
    NotificationMessage,
    User,
    Webhook,
    WebhookAnswer,
)
from experiments.models.database_time import database_now
from experiments.notifications import (
    deliver,
    list_due_people,
    outbox,
    receivers,
    webhooks,
)
from tests.experiments.notifications.mails.conftest import Killed, kill
from tests.experiments.notifications.webhooks.conftest import (
    DOCUMENT,
    add,
    is_signed,
    let_pass,
    send_due,
    tell,
    tell_of,
)
from tests.factories import (
    UserFactory,
)
from tests.web_receiver import OK, Receiver, serve_webhook, write_answer

pytestmark = pytest.mark.django_db


def test_what_is_chosen_is_posted_with_a_signature(receiver: Receiver, owner: User) -> None:
    _, secret = add(owner, receiver.address, ["ended"])
    made = tell(owner, question='“What” & "why"?')
    tell(owner, "failed")
    assert send_due() == 1
    (taken,) = receiver.taken
    assert taken.headers["content-type"] == "application/json"
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", secret)
    assert is_signed(taken, secret)
    assert not is_signed(taken, webhooks.make_secret().reveal())
    age = database_now().timestamp() - int(taken.headers["webhook-timestamp"])
    assert 0 <= age < 60
    event = taken.event
    assert event.pop("time")
    assert event.pop("id") == taken.headers["webhook-id"]
    page = f"https://tare.example.org/experiments/{made.pk}/"
    assert event == {
        "kind": "ended",
        "title": "Ended",
        "about": '“What” & "why"?',
        "sentence": "All 3 runs are over: 3 succeeded.",
        "address": page,
        "experiment": {"number": made.pk, "question": '“What” & "why"?', "address": page},
    }
    assert send_due(days=1) == 0


def test_verdicts_are_posted_with_their_intervals(
    receiver: Receiver, results: Experiment, owner: User
) -> None:
    add(owner, receiver.address)
    tell_of(results, "verdict", verdicts={"EQUIVALENT": 1}, earlier={})
    send_due()
    event = receiver.taken[0].event
    comparison = compare_experiment(results)
    (pair,) = comparison.pairs
    assert event["verdicts_left_out"] == 0
    (row,) = event["verdicts"]
    assert row == {
        "configuration": dict(comparison.groups[0].configuration),
        "metric": comparison.groups[0].metric.name,
        "environment": pair.environment,
        "baseline": pair.baseline,
        "verdict": str(pair.verdict),
        "ratio": pair.ratio,
        "interval": list(pair.ci95 or ()),
    }
    assert event["address"].endswith(f"/experiments/{results.pk}/comparison/")


def test_the_lines_of_the_documentation_check_the_signature(
    receiver: Receiver, owner: User
) -> None:
    _, secret = add(owner, receiver.address)
    tell(owner)
    send_due()
    (taken,) = receiver.taken
    (lines,) = [
        block
        for block in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
        if "webhook-signature" in block
    ]
    assert len(lines.strip().splitlines()) <= 16
    known: dict[str, Any] = {}
    exec(lines, known)
    is_from_tare = known["is_from_tare"]
    assert is_from_tare(secret, taken.headers, taken.body)
    assert not is_from_tare(secret, taken.headers, taken.body + b" ")
    assert not is_from_tare(webhooks.make_secret().reveal(), taken.headers, taken.body)
    old = {**taken.headers, "webhook-timestamp": "1700000000"}
    assert not is_from_tare(secret, old, taken.body)


def test_the_example_of_the_documentation_has_the_keys_that_are_posted(
    receiver: Receiver, results: Experiment, owner: User
) -> None:
    add(owner, receiver.address)
    tell_of(results, "verdict", verdicts={"EQUIVALENT": 1}, earlier={})
    send_due()
    (example,) = re.findall(r"```json\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    event, shown = receiver.taken[0].event, json.loads(example)
    assert list(event) == list(shown)
    assert list(event["verdicts"][0]) == list(shown["verdicts"][0])
    assert list(event["experiment"]) == list(shown["experiment"])


@pytest.mark.parametrize("status", [500, 503, 429, 302, 404])
def test_one_that_says_no_for_an_hour_gets_it_in_the_end_once_under_the_same_name(
    receiver: Receiver, owner: User, status: int
) -> None:
    row, secret = add(owner, receiver.address)
    tell(owner)
    receiver.answer = write_answer(status, b"no")
    tries = sum(send_due(minutes=3) for _ in range(20))
    assert 4 <= tries <= 8
    Experiment.objects.update(question="Renamed?")  # what is posted stays as it was
    receiver.answer = OK
    assert send_due(hours=1) == 1
    assert len({taken.headers["webhook-id"] for taken in receiver.taken}) == 1
    assert len({taken.body for taken in receiver.taken}) == 1
    assert all(is_signed(taken, secret) for taken in receiver.taken)
    assert send_due(days=1) == 0
    row.refresh_from_db()
    assert (row.failures, row.failing_since, row.retry_at) == (0, None, None)


def test_what_comes_while_it_is_away_waits_and_changes_what_waits(
    receiver: Receiver, owner: User
) -> None:
    add(owner, receiver.address)
    receiver.answer = write_answer(500)
    tell(owner)
    assert send_due() == 1
    made = tell(owner, "failed", failed=1, runs=9)
    for failed in range(2, 9):
        tell_of(made, "failed", failed=failed, runs=9)
    assert send_due() == 0  # it is asked again in a minute, not for each
    receiver.answer = OK
    assert send_due(minutes=2) == 2
    assert [taken.event["kind"] for taken in receiver.taken[1:]] == ["ended", "failed"]
    assert receiver.taken[-1].event["sentence"] == "8 of 9 runs have failed so far."


@pytest.mark.parametrize("moment", ["sign_message", "keep_success"])
def test_a_crash_in_the_middle_loses_nothing(
    receiver: Receiver, owner: User, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    add(owner, receiver.address)
    tell(owner)
    with monkeypatch.context() as patch:
        patch.setattr(webhooks, moment, kill)
        with pytest.raises(Killed):
            send_due()
    assert send_due(minutes=5) == 0  # somebody might still be posting it
    assert send_due(minutes=11) == 1
    assert len({taken.headers["webhook-id"] for taken in receiver.taken}) == 1


def test_a_site_behind_one_that_hangs_loses_nothing_else(
    receiver: Receiver, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten that hang are tried two at a time; that of another person is next, not eleventh."""
    monkeypatch.setattr(receivers, "SECONDS", 0.2)
    other = UserFactory()
    with serve_webhook() as hanging:
        hanging.answer = b""
        for _ in range(webhooks.MOST):
            add(owner, hanging.address)
        tell(owner)
        let_pass(seconds=5)
        assert list_due_people("webhook") == [owner.pk, owner.pk]
        for _ in range(3):
            deliver(owner.pk)
        let_pass(minutes=2)  # the first three are due again
        add(other, receiver.address)
        tell(other)
        Webhook.objects.filter(owner=owner, tried_at=None).update(tried_at=database_now())
        assert list_due_people("webhook")[0] == other.pk
        deliver(other.pk)
    assert len(receiver.taken) == 1


def test_only_two_tasks_post_at_the_same_time(receiver: Receiver) -> None:
    people = [UserFactory() for _ in range(5)]
    for person in people:
        add(person, receiver.address)
        tell(person)
    let_pass(seconds=5)
    claimed = [outbox.claim_message(person.pk, "webhook") for person in people]
    assert [bool(message) for message in claimed] == [True, True, False, False, False]
    assert list_due_people("webhook") == []


def test_to_one_webhook_one_message_goes_at_a_time(receiver: Receiver, owner: User) -> None:
    add(owner, receiver.address)
    tell(owner)
    tell(owner)
    let_pass(seconds=5)
    assert outbox.claim_message(owner.pk, "webhook")
    assert outbox.claim_message(owner.pk, "webhook") is None


def test_mail_does_not_wait_for_webhooks(receiver: Receiver, owner: User, settings: Any) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    for person in (owner, UserFactory(), UserFactory()):
        add(person, receiver.address)
        tell(person)
        let_pass(seconds=5)
        outbox.claim_message(person.pk, "webhook")
    assert list_due_people("webhook") == []
    User.objects.filter(pk=owner.pk).update(email="owner@example.org")
    owner.refresh_from_db()
    made = Experiment.objects.filter(owner=owner).first()
    now = database_now()
    NotificationDelivery.objects.create(
        recipient=owner,
        way="email",
        kind="ended",
        subject="s",
        experiment=made,
        created_at=now,
        changed_at=now,
        due_at=now,
    )
    assert list_due_people("email") == [owner.pk]


def test_a_test_is_posted_at_once_and_once(receiver: Receiver, owner: User) -> None:
    row, secret = add(owner, receiver.address, [])
    webhooks.queue_test(row)
    webhooks.queue_test(row)
    assert send_due() == 1
    assert receiver.taken[0].event["kind"] == "test"
    assert is_signed(receiver.taken[0], secret)
    receiver.answer = write_answer(500, b"no")
    let_pass(minutes=1)
    webhooks.queue_test(row)
    webhooks.queue_test(row)
    assert send_due() == 1
    webhooks.queue_test(row)
    assert send_due(seconds=1) == 0  # nobody hammers a host by a button
    assert send_due(seconds=10) == 1
    assert send_due(days=1) == 0
    assert [answer.status for answer in row.answers.all()] == [500, 500, 200]
    row.refresh_from_db()
    assert row.failing_since is None


def test_after_a_rotation_both_secrets_sign_for_a_day(receiver: Receiver, owner: User) -> None:
    row, first = add(owner, receiver.address)
    second = webhooks.rotate_secret(row).reveal()
    assert first != second
    tell(owner)
    send_due()
    assert is_signed(receiver.taken[0], first)
    assert is_signed(receiver.taken[0], second)
    let_pass(days=1)
    tell(owner)
    send_due()
    assert not is_signed(receiver.taken[1], first)
    assert is_signed(receiver.taken[1], second)


def test_a_secret_is_nowhere_but_in_the_answer_that_made_it(
    receiver: Receiver, owner: User, caplog: pytest.LogCaptureFixture, capsys: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    row, first = add(owner, receiver.address)
    second = webhooks.rotate_secret(row).reveal()
    tell(owner)
    receiver.answer = write_answer(500)
    send_due()
    row = Webhook.objects.get(pk=row.pk)
    message = NotificationMessage.objects.get()
    dumped = serializers.serialize("json", [row, message, *WebhookAnswer.objects.all()])
    call_command("dumpdata", "experiments.webhook")
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM experiments_webhook")
        stored = repr(cursor.fetchall())
    shown = [repr(row), str(row), repr(vars(row)), dumped, stored, caplog.text]
    shown += [receiver.taken[0].body.decode(), *capsys.readouterr()]
    for secret in (first, second):
        for text in shown:
            assert secret not in text
            assert secret.removeprefix("whsec_") not in text
    assert row.host == f"localhost:{receiver.port}"
    assert "/hook" not in str(row)


def test_keys_of_the_site_can_be_rotated(receiver: Receiver, owner: User, settings: Any) -> None:
    row, secret = add(owner, receiver.address)
    new = Fernet.generate_key().decode()
    settings.CREDENTIAL_KEYS = [new, *settings.CREDENTIAL_KEYS]
    call_command("rotate_credentials")
    settings.CREDENTIAL_KEYS = [new]
    assert Webhook.objects.get(pk=row.pk).secret == Secret(secret)
    settings.CREDENTIAL_KEYS = [Fernet.generate_key().decode()]
    tell(owner)
    send_due()
    assert receiver.taken == []
    answer = row.answers.get()
    assert answer.problem.startswith("This site can no longer read address and secret:")
    row.set_address(receiver.address)
    row.save(update_fields=["address"])
    second = webhooks.rotate_secret(row).reveal()
    Webhook.objects.update(retry_at=None)
    tell(owner)
    send_due()
    assert is_signed(receiver.taken[0], second), "at once, without the one that cannot be read"
