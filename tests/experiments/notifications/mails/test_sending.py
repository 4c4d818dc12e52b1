"""Notifications by e-mail: together, once, in the end, by a real mail server that says no."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from experiments import settings_checks
from experiments.execution import tasks
from experiments.models import (
    Experiment,
    NotificationChoices,
    NotificationDelivery,
    NotificationMessage,
    User,
)
from experiments.notifications import (
    deliver,
    find_last_trouble,
    list_due_people,
    mails,
    outbox,
)
from tests.experiments.notifications.mails.conftest import (
    ALL,
    Killed,
    kill,
    let_pass,
    send_due,
    tell,
    tell_of,
)
from tests.factories import LaunchedFactory, UserFactory
from tests.smtp_server import MailServer

pytestmark = pytest.mark.django_db


def test_what_comes_within_minutes_is_one_mail(server: MailServer, owner: User) -> None:
    first, second = tell(owner, question="Fast?"), tell(owner, "failed", "Slow?", failed=2)
    assert list_due_people("email") == []  # it waits for others
    assert send_due(owner) == "email"
    (mail,) = server.taken
    assert mail["To"] == "owner@example.org"
    assert mail["From"] == "Tare <tare@example.org>"
    assert mail["Subject"] == "Tare: 2 notifications"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail.get_content_type() == "text/plain"
    text = mail.get_content()
    assert (
        f"Ended: Fast?\nAll 3 runs are over: 3 succeeded.\nhttps://tare.example.org/experiments/{first.pk}/"
        in text
    )
    assert f"https://tare.example.org/experiments/{second.pk}/" in text
    assert "https://tare.example.org/account/notifications/" in text
    assert send_due(owner) == "not due"


def test_two_thousand_failures_are_one_mail(server: MailServer, owner: User) -> None:
    made = tell(owner, "failed", failed=1, runs=2000)
    for failed in range(2, 2001, 111):
        tell_of(made, "failed", failed=failed, runs=2000)
    tell_of(made, "failed", failed=2000, runs=2000)
    send_due(owner)
    assert [mail["Subject"] for mail in server.taken] == ["Tare: Runs failed: What?"]
    assert "2000 of 2000 runs have failed so far." in server.taken[0].get_content()
    tell_of(made, "failed", failed=2001, runs=3000)
    let_pass(hours=5)
    assert send_due(owner) == "not due"  # runs that go on failing are told every six hours
    let_pass(hours=1)
    send_due(owner)
    assert "2001 of 3000" in server.taken[1].get_content()


def test_there_is_a_quarter_of_an_hour_between_two_mails(server: MailServer, owner: User) -> None:
    tell(owner)
    send_due(owner)
    for _ in range(3):
        tell(owner)
        assert send_due(owner) == "not due"
    let_pass(minutes=15)
    send_due(owner)
    assert [mail["Subject"] for mail in server.taken[1:]] == ["Tare: 3 notifications"]


def test_five_thousand_are_one_mail_with_the_first_fifty(server: MailServer, owner: User) -> None:
    made = tell(owner)
    row = NotificationDelivery.objects.get()
    NotificationDelivery.objects.bulk_create(
        NotificationDelivery(
            recipient=owner,
            way="email",
            kind="ended",
            subject=f"s {number}",
            experiment=made,
            facts=row.facts,
            created_at=row.created_at,
            changed_at=row.changed_at,
            due_at=row.due_at,
        )
        for number in range(4999)
    )
    send_due(owner)
    (mail,) = server.taken
    assert mail["Subject"] == "Tare: 5000 notifications"
    assert mail.get_content().count("Ended: What?") == 50
    assert "And 4950 more: https://tare.example.org/notifications/" in mail.get_content()


@pytest.mark.parametrize(
    ("command", "answer", "problem"),
    [
        ("RCPT", "451 come back later", "The mail server said: 451 come back later"),
        ("MAIL", "530 who are you", "The mail server said: 530 who are you"),
        ("content", "452 too many", "The mail server said: 452 too many"),
        ("DATA", "421 full", "The mail server said: 421 full"),
        ("connect", "554 not you", mails.SILENT),
        ("connect", "bye", mails.SILENT),
        ("connect", "", mails.SILENT),
        ("MAIL", "bye", mails.SILENT),
        ("content", "", mails.SILENT),
    ],
)
def test_a_server_that_says_no_for_an_hour_gets_it_in_the_end_once(
    server: MailServer, owner: User, settings: Any, command: str, answer: str, problem: str
) -> None:
    settings.EMAIL_TIMEOUT = 60 if answer else 0.2  # short for those that hang alone
    server.answers[command] = answer
    tell(owner)
    tries = 0
    for _ in range(20):  # an hour
        tries += send_due(owner) == "email"
        trouble = find_last_trouble(owner, "email")
        assert trouble
        assert trouble.problem == problem
    assert 4 <= tries <= 8
    assert server.taken == []
    tell(owner, "failed")  # what comes meanwhile waits for the next
    server.answers.clear()
    settings.EMAIL_TIMEOUT = 60
    let_pass(hours=1)
    assert send_due(owner) == "email"
    assert [mail["Subject"] for mail in server.taken] == ["Tare: Ended: What?"]
    assert find_last_trouble(owner, "email") is None
    assert send_due(owner) == "not due"
    let_pass(minutes=15)
    send_due(owner)
    assert [mail["Subject"] for mail in server.taken[1:]] == ["Tare: Runs failed: What?"]


def test_a_server_that_takes_it_and_then_hangs_at_the_farewell_has_it_once(
    server: MailServer, owner: User
) -> None:
    server.answers["QUIT"] = ""
    tell(owner)
    assert send_due(owner) == "email"
    let_pass(hours=1)
    assert send_due(owner) == "not due"
    assert len(server.taken) == 1


def test_one_whose_answer_was_lost_comes_again_under_the_same_name(
    server: MailServer, owner: User
) -> None:
    server.answers["content"] = "bye"  # it has the mail, and nobody hears so
    tell(owner)
    send_due(owner)
    server.answers.clear()
    send_due(owner)
    first, second = server.taken
    assert first["Message-ID"] == second["Message-ID"]
    assert str(first["Message-ID"]).endswith("@tare.example.org>")


@pytest.mark.parametrize("moment", ["write_mail", "keep_success"])
def test_a_crash_in_the_middle_loses_nothing(
    server: MailServer, owner: User, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    tell(owner)
    with monkeypatch.context() as patch:
        patch.setattr(mails, moment, kill)
        with pytest.raises(Killed):
            send_due(owner)
    assert send_due(owner) == "not due"  # somebody might still be sending it
    let_pass(minutes=11)
    assert send_due(owner) == "email"
    assert len({mail["Message-ID"] for mail in server.taken}) == 1


def test_what_is_rolled_back_is_not_sent(server: MailServer, owner: User) -> None:
    made = LaunchedFactory(owner=owner)
    with transaction.atomic():
        tell_of(made)
        transaction.set_rollback(True)
    assert send_due(owner) == "not due"


def test_a_server_that_does_not_answer_is_asked_once_a_minute_for_all(
    server: MailServer, owner: User
) -> None:
    other = UserFactory(email="other@example.org")
    NotificationChoices.objects.create(person=other, ways=ALL)
    for person in (owner, other):
        tell(person)
    server.answers["RCPT"] = "451 later"
    let_pass(minutes=3)
    for person in (owner, other):
        deliver(person.pk)
    server.answers["connect"] = "bye"
    let_pass(minutes=2)
    assert list_due_people("email") == [owner.pk, other.pk]
    deliver(owner.pk)
    assert list_due_people("email") == []
    let_pass(minutes=1)
    assert list_due_people("email") == [other.pk]


def test_only_two_tasks_send_at_the_same_time(server: MailServer) -> None:
    people = [UserFactory(email=f"p{number}@example.org") for number in range(5)]
    for person in people:
        NotificationChoices.objects.create(person=person, ways=ALL)
        tell(person)
    let_pass(minutes=3)
    assert len(list_due_people("email")) == 2
    claimed = [outbox.claim_message(person.pk, "email") for person in people]
    assert [bool(message) for message in claimed] == [True, True, False, False, False]
    assert list_due_people("email") == []
    assert [outbox.claim_message(person.pk, "email") for person in people] == [None] * 5


def test_a_worker_goes_on_with_the_next_person(
    server: MailServer,
    owner: User,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:
    other = UserFactory(email="other@example.org")
    NotificationChoices.objects.create(person=other, ways=ALL)
    for person in (owner, other):
        tell(person)
    let_pass(minutes=3)
    monkeypatch.setattr(tasks, "close_old_connections", lambda: None)
    asked: list[int] = []
    monkeypatch.setattr(tasks, "enqueue_deliver", asked.append)
    assert tasks.deliver(owner.pk) == "email"
    assert asked == [other.pk]
    assert tasks.deliver(owner.pk) == "nothing to send"
    assert tasks.deliver(other.pk) == "email"
    assert asked == [other.pk]
    assert tasks.deliver(0) == "nothing to send"


def test_who_wants_it_by_mail_alone_has_it_by_mail_alone(server: MailServer, owner: User) -> None:
    NotificationChoices.objects.update(ways={"ended": ["email"]})
    tell(owner)
    assert not owner.notifications.exists()
    send_due(owner)
    assert len(server.taken) == 1


@given(question=st.text(min_size=1, max_size=300).filter(lambda text: "\0" not in text))
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_name_adds_a_header_or_keeps_a_mail_from_being_written(
    question: str, settings: Any
) -> None:
    settings.SITE_ADDRESS = "https://tare.example.org"
    person = User(username="owner", email="owner@example.org")
    message = NotificationMessage(recipient=person, way="email")
    row = NotificationDelivery(
        kind="ended", subject="s", experiment=Experiment(pk=1, question=question), facts={}
    )
    mail = mails.write_mail(message, [row], 1).message()
    assert set(mail.keys()) == {
        *("Content-Type", "MIME-Version", "Content-Transfer-Encoding", "Subject", "From", "To"),
        *("Date", "Message-ID", "Auto-Submitted"),
    }
    assert len(mails.write_mail(message, [row], 1).subject) <= mails.LONGEST_SUBJECT + 6


def test_hostile_names_stand_in_one_line_of_the_text(server: MailServer, owner: User) -> None:
    tell(owner, question="Fast?\r\nBcc: x@example.org\r\n.\r\nMAIL FROM:<x>")
    send_due(owner)
    (mail,) = server.taken
    assert mail["Bcc"] is None
    assert mail["Subject"] == "Tare: Ended: Fast? Bcc: x@example.org . MAIL FROM:<x>"
    assert server.envelopes[0][1] == ["rcpt TO:<owner@example.org>"]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"SITE_ADDRESS": ""}, "SITE_ADDRESS"),
        ({"SITE_ADDRESS": "tare.example.org"}, "SITE_ADDRESS"),
        ({"SITE_ADDRESS": "https://*.example.org"}, "SITE_ADDRESS"),
        ({"DEFAULT_FROM_EMAIL": ""}, "DEFAULT_FROM_EMAIL"),
        ({"DEFAULT_FROM_EMAIL": "a@b\nBcc: c@d"}, "DEFAULT_FROM_EMAIL"),
        ({"EMAIL_USE_TLS": True, "EMAIL_USE_SSL": True}, "exclude each other"),
        ({"EMAIL_HOST_PASSWORD": "x"}, "unencrypted"),
        ({}, ""),
        ({"EMAIL_HOST": "", "SITE_ADDRESS": "", "WEBHOOKS": False}, ""),
        ({"EMAIL_HOST": "", "SITE_ADDRESS": "tare.example.org", "WEBHOOKS": False}, "SITE_ADDRESS"),
        ({"EMAIL_HOST": "", "SITE_ADDRESS": "", "WEBHOOKS": True}, "SITE_ADDRESS"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    server: MailServer, settings: Any, changed: dict[str, Any], problem: str
) -> None:
    for name, value in changed.items():
        setattr(settings, name, value)
    errors = [*settings_checks.check_email(), *settings_checks.check_site_address()]
    assert bool(errors) == bool(problem)
    assert all(problem in error.msg for error in errors)
