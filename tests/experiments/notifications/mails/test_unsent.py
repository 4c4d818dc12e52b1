"""Mails that are refused, given up or forgotten: once, with the reason where people see it."""

from __future__ import annotations

import smtplib
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.utils import timezone

from experiments.management.commands import clock
from experiments.models import (
    Experiment,
    NotificationDelivery,
    NotificationMessage,
    User,
)
from experiments.notifications import (
    find_last_trouble,
    forget_old,
    mails,
)
from tests.experiments.notifications.mails.conftest import (
    Killed,
    kill,
    let_pass,
    send_due,
    tell,
    tell_of,
)
from tests.factories import UserFactory
from tests.smtp_server import MailServer

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("command", "answer"),
    [("RCPT", "550 no such user here"), ("content", "554 this is spam"), ("DATA", "521 never")],
)
def test_what_a_server_refuses_for_ever_is_sent_once_and_stands_on_the_page(
    server: MailServer, owner: User, command: str, answer: str
) -> None:
    server.answers[command] = answer
    tell(owner)
    assert send_due(owner) == "email"
    trouble = find_last_trouble(owner, "email")
    assert trouble
    assert (bool(trouble.given_up_at), trouble.attempts) == (True, 1)
    client = Client()
    client.force_login(owner)
    page = client.get("/account/notifications/").content.decode()
    assert "could not be sent, and is not tried again" in page
    assert f"The mail server said: {answer}" in page
    server.answers.clear()
    let_pass(hours=2)
    assert send_due(owner) == "not due"
    tell(owner, "failed")
    assert send_due(owner) == "email"  # what follows does not wait for it


def test_a_message_that_cannot_be_written_ends_and_says_so(
    server: MailServer, owner: User, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """A mistake in Tare is the same at each attempt."""
    tell(owner)
    with monkeypatch.context() as patch:
        patch.setattr(mails, "write_mail", lambda *_: {}["sentence"])
        assert send_due(owner) == "email"
    trouble = find_last_trouble(owner, "email")
    assert trouble
    assert trouble.given_up_at
    assert "An error in Tare kept it from being sent (KeyError)" in trouble.problem
    assert "KeyError: 'sentence'" in caplog.text
    let_pass(minutes=12)
    assert send_due(owner) == "not due"
    tell(owner, "failed")
    send_due(owner)
    assert [mail["Subject"] for mail in server.taken] == ["Tare: Runs failed: What?"]


def test_what_a_machine_may_answer_otherwise_in_a_while_is_tried_after_a_pause_that_doubles(
    server: MailServer, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(owner)

    def fail(*_: Any) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(mails, "write_mail", fail)
        pauses = []
        for _ in range(4):
            let_pass(hours=1)
            assert send_due(owner) == "email"
            message = NotificationMessage.objects.get()
            assert (message.given_up_at, message.leased_until) == (None, None)
            pauses.append(round((message.retry_at - timezone.now()).total_seconds() / 60))
    assert pauses == [1, 2, 4, 8]
    let_pass(hours=1)
    assert send_due(owner) == "email"
    assert len(server.taken) == 1


def test_a_message_that_kills_its_worker_is_given_up(
    server: MailServer, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(owner)
    with monkeypatch.context() as patch:
        patch.setattr(mails, "write_mail", kill)
        for _ in range(5):
            with pytest.raises(Killed):
                send_due(owner)
            let_pass(minutes=11)
        assert send_due(owner) == ""
    trouble = find_last_trouble(owner, "email")
    assert trouble
    assert trouble.given_up_at
    assert trouble.problem == "Sending it was interrupted 5 times without an answer."
    assert send_due(owner) == "not due"


def test_a_worker_that_ends_after_refusals_costs_no_message(
    server: MailServer, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refusals are attempts too, and are no sign that the message ends its worker."""
    server.answers["connect"] = "bye"
    tell(owner)
    for _ in range(5):
        send_due(owner)
        let_pass(hours=1)
    with monkeypatch.context() as patch:
        patch.setattr(mails, "write_mail", kill)
        with pytest.raises(Killed):
            send_due(owner)
    let_pass(minutes=11)
    del server.answers["connect"]
    send_due(owner)
    assert NotificationMessage.objects.get().given_up_at is None


def test_what_was_never_sent_is_said_before_it_is_deleted(
    server: MailServer, owner: User, caplog: Any
) -> None:
    tell(owner)
    tell(owner, "failed")
    let_pass(days=8)  # no worker in all this time
    forget_old()
    trouble = find_last_trouble(owner, "email")
    assert trouble
    assert trouble.problem == (
        "2 notifications waited for a week and were not sent: nothing of Tare has sent them. "
        "Administrators see in Operations what does not run."
    )
    assert trouble.problem in caplog.text
    assert trouble.deliveries.count() == 2
    let_pass(days=6)
    forget_old()
    assert find_last_trouble(owner, "email")
    let_pass(days=2)
    forget_old()
    assert not NotificationMessage.objects.exists()
    assert not NotificationDelivery.objects.exists()


def test_what_waited_for_a_week_ends_beside_a_newer_message(
    server: MailServer, owner: User, settings: Any
) -> None:
    """A person has one message at most that is not sent yet; before, the clock ended by that."""
    tell(owner)
    let_pass(days=8)
    server.answers["connect"] = "bye"
    first = NotificationDelivery.objects.get()
    tell(owner, "failed")
    NotificationMessage.objects.create(
        recipient=owner, way="email", created_at=Now(), retry_at=Now()
    ).deliveries.set(NotificationDelivery.objects.exclude(pk=first.pk))
    forget_old()
    first.refresh_from_db()
    assert first.message
    assert first.message.given_up_at
    assert NotificationMessage.objects.filter(given_up_at=None).count() == 1


def test_what_was_begun_and_never_settled_is_said_too(
    server: MailServer, owner: User, settings: Any
) -> None:
    server.answers["connect"] = "bye"
    tell(owner)
    send_due(owner)
    settings.EMAIL_HOST = ""
    let_pass(days=8)
    forget_old()
    message = NotificationMessage.objects.get()
    assert message.given_up_at
    assert message.problem == (f"1 notification waited for a week and was not sent: {mails.SILENT}")


def test_after_a_day_it_is_given_up_and_what_follows_is_tried(
    server: MailServer, owner: User
) -> None:
    server.answers["RCPT"] = "450 full"
    tell(owner)
    send_due(owner)
    let_pass(days=1)
    send_due(owner)
    trouble = find_last_trouble(owner, "email")
    assert trouble
    assert trouble.given_up_at
    assert send_due(owner) == "not due"
    tell(owner, "failed")
    server.answers.clear()
    send_due(owner)
    assert [mail["Subject"] for mail in server.taken] == ["Tare: Runs failed: What?"]
    assert find_last_trouble(owner, "email") is None


def test_the_clock_asks_for_what_is_due_and_deletes_what_is_old(
    server: MailServer, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(clock, "enqueue_deliver", asked.append)
    tell(owner)
    retried_at: dict[str, float] = {}
    clock.enqueue_deliveries(retried_at, 0)
    let_pass(minutes=3)
    clock.enqueue_deliveries(retried_at, 1)
    assert asked == []
    clock.enqueue_deliveries(retried_at, 5)
    assert asked == [owner.pk]
    send_due(owner)
    forget_old()
    assert NotificationMessage.objects.exists()
    let_pass(days=8)
    clock.forget_old_rows(retried_at, 3600)
    assert not NotificationDelivery.objects.exists()


def test_nothing_is_kept_for_a_site_without_a_mail_server(owner: User, settings: Any) -> None:
    assert settings.EMAIL_HOST == ""
    tell(owner)
    assert not NotificationDelivery.objects.exists()
    assert owner.notifications.count() == 1


def test_what_waits_is_not_sent_to_who_wants_no_mail_about_it_any_more(
    server: MailServer, owner: User
) -> None:
    made = tell(owner, "failed", failed=1)
    send_due(owner)
    tell_of(made, "failed", failed=2)  # waits for six hours
    tell(owner, "ended", question="Over?")
    client = Client()
    client.force_login(owner)
    client.post("/account/notifications/", {"ended-email": "on", "failed-site": "on"})
    let_pass(hours=7)
    send_due(owner)
    assert [mail["Subject"] for mail in server.taken[1:]] == ["Tare: Ended: Over?"]
    assert not NotificationDelivery.objects.filter(message=None).exists()


def test_what_its_reader_may_not_see_any_more_is_not_sent(server: MailServer, owner: User) -> None:
    made = tell(owner)
    Experiment.objects.filter(pk=made.pk).update(owner=UserFactory(), visibility="private")
    send_due(owner)
    assert server.taken == []
    assert find_last_trouble(owner, "email") is None
    assert send_due(owner) == "not due"


def test_nobody_who_may_not_log_in_gets_mail(server: MailServer, owner: User) -> None:
    tell(owner)
    User.objects.update(is_active=False)
    assert send_due(owner) == "not due"


@pytest.mark.parametrize("address", ["", "a@b.org\nBcc: c@d.org", "nobody", "ä ö@b.org"])
def test_an_address_that_is_none_is_no_mail_and_no_crash(
    server: MailServer, owner: User, address: str
) -> None:
    tell(owner)
    User.objects.filter(pk=owner.pk).update(email=address)
    server.answers["RCPT"] = "550 what?"
    send_due(owner)
    assert server.taken == []
    trouble = find_last_trouble(owner, "email")
    assert trouble
    assert trouble.problem


def test_a_log_in_that_is_refused_is_not_shown_with_its_words(
    server: MailServer, owner: User, settings: Any
) -> None:
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "tare", "pass-word"
    server.answers.update({"EHLO": "250-tests\r\n250 AUTH PLAIN", "AUTH": "535 no pass-word"})
    tell(owner)
    send_due(owner)
    assert "AUTH" in server.asked
    trouble = find_last_trouble(owner, "email")
    assert trouble
    assert trouble.problem == mails.SILENT
    assert issubclass(smtplib.SMTPAuthenticationError, OSError)
