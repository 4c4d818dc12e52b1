"""Notifications by e-mail: together, once, in the end, by a real mail server that says no."""

from __future__ import annotations

import smtplib
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from experiments import settings_checks
from experiments.execution import tasks
from experiments.management.commands import clock
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
    find_last_trouble,
    forget_old,
    list_due_people,
    mails,
    notify_person,
    outbox,
)
from tests.factories import LaunchedFactory, UserFactory
from tests.smtp_server import MailServer, serve_mail

pytestmark = pytest.mark.django_db
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


class Killed(BaseException):
    """The worker ends here."""


def kill(*_: Any) -> None:
    raise Killed


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


def test_who_wants_it_by_mail_alone_has_it_by_mail_alone(server: MailServer, owner: User) -> None:
    NotificationChoices.objects.update(ways={"ended": ["email"]})
    tell(owner)
    assert not owner.notifications.exists()
    send_due(owner)
    assert len(server.taken) == 1


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
        ({"EMAIL_HOST": "", "SITE_ADDRESS": ""}, ""),
    ],
)
def test_settings_that_cannot_work_are_refused(
    server: MailServer, settings: Any, changed: dict[str, Any], problem: str
) -> None:
    for name, value in changed.items():
        setattr(settings, name, value)
    errors = settings_checks.check_email()
    assert bool(errors) == bool(problem)
    assert all(problem in error.msg for error in errors)


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
