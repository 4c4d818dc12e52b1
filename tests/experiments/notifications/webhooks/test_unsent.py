"""Posts that are refused, given up or forgotten, and webhooks that are switched off or gone."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.models import (
    Experiment,
    Notification,
    NotificationMessage,
    User,
    Webhook,
    WebhookAnswer,
)
from experiments.notifications import (
    forget_old,
    receivers,
    webhooks,
)
from tests.experiments.notifications.webhooks.conftest import (
    add,
    let_pass,
    send_due,
    tell,
    tell_of,
)
from tests.factories import (
    UserFactory,
)
from tests.web_receiver import OK, Receiver, write_answer

pytestmark = pytest.mark.django_db


def test_one_message_that_is_refused_does_not_hold_back_the_others(
    receiver: Receiver, owner: User
) -> None:
    add(owner, receiver.address)
    receiver.answer = write_answer(400)
    tell(owner)
    assert send_due() == 1
    receiver.answer = OK
    tell(owner, "failed")
    assert send_due() == 1
    assert [taken.event["kind"] for taken in receiver.taken] == ["ended", "failed"]
    assert send_due(minutes=2) == 1
    assert receiver.taken[-1].event["kind"] == "ended"


def test_a_message_that_cannot_be_written_ends_among_the_answers(
    receiver: Receiver, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, _ = add(owner, receiver.address)
    tell(owner)
    with monkeypatch.context() as patch:
        patch.setattr(webhooks, "write_body", lambda *_: {}["sentence"])
        send_due()
    assert "(KeyError)" in row.answers.get().problem
    assert NotificationMessage.objects.get().given_up_at
    assert send_due(minutes=12) == 0
    tell(owner)
    assert send_due() == 1
    assert len(receiver.taken) == 1


def test_what_waited_for_a_week_for_a_webhook_is_said_among_its_answers(
    receiver: Receiver, owner: User
) -> None:
    row, _ = add(owner, receiver.address)
    tell(owner)
    tell(owner)
    webhooks.switch_webhook(row, on=False)
    let_pass(days=8)
    forget_old()
    assert row.answers.get().problem == (
        "2 notifications waited for a week and were not sent: the webhook is switched off."
    )
    webhooks.switch_webhook(row, on=True)
    assert send_due() == 0


def test_after_days_of_refusals_it_is_switched_off_and_its_owner_is_told(
    receiver: Receiver, owner: User
) -> None:
    row, _ = add(owner, receiver.address)
    other, _ = add(owner, receiver.address, ["webhook"])
    receiver.answer = write_answer(500)
    for _ in range(4):
        tell(owner)
    hours = 0
    while not Webhook.objects.get(pk=row.pk).switched_off_at:
        send_due(hours=1)
        hours += 1
        assert hours < 5 * 24
    assert 3 * 24 <= hours <= 4 * 24
    row.refresh_from_db()
    assert row.why_off.startswith("It has taken nothing since 2")
    told = owner.notifications.get(kind="webhook")
    assert told.facts["webhook"] == row.pk
    tell(owner)
    assert not row.deliveries.filter(message=None, created_at__gt=row.switched_off_at).exists()
    tries = len(receiver.taken)
    receiver.answer = OK
    send_due(days=1)
    assert [taken.event["kind"] for taken in receiver.taken[tries:]] == ["webhook"]
    assert other.is_on
    webhooks.switch_webhook(row, on=True)
    assert send_due() > 0  # what waited is posted then


def test_a_failure_now_and_then_switches_nothing_off(receiver: Receiver, owner: User) -> None:
    row, _ = add(owner, receiver.address)
    receiver.answer = write_answer(500)
    tell(owner)
    for _ in range(60):
        send_due(hours=1)
    assert Webhook.objects.get(pk=row.pk).is_on  # one message was given up, after its day
    let_pass(days=30)
    tell(owner)
    send_due()
    assert Webhook.objects.get(pk=row.pk).is_on  # the next one has its own day
    receiver.answer = OK
    send_due(hours=2)
    assert Webhook.objects.get(pk=row.pk).failing_since is None


def test_one_that_is_gone_is_switched_off_at_once(receiver: Receiver, owner: User) -> None:
    row, _ = add(owner, receiver.address)
    receiver.answer = write_answer(410)
    tell(owner)
    send_due()
    row.refresh_from_db()
    assert not row.is_on
    assert "410" in row.why_off
    assert owner.notifications.filter(kind="webhook").count() == 1


def test_the_last_answers_are_kept(receiver: Receiver, owner: User) -> None:
    row, _ = add(owner, receiver.address)
    made = tell(owner)
    for _ in range(25):
        tell_of(made)
        send_due(minutes=1)
    assert row.answers.count() == webhooks.ANSWERS_KEPT
    newest = row.answers.first()
    assert newest
    assert (newest.status, newest.problem, newest.kind) == (200, "", "ended")
    assert 0 < newest.seconds < 10


def test_an_address_that_moved_inside_is_not_asked_any_more(
    receiver: Receiver, owner: User, settings: Any
) -> None:
    row, _ = add(owner, receiver.address)
    settings.WEBHOOK_INSIDE_NETWORKS = []
    tell(owner)
    assert send_due() == 1
    assert receiver.taken == []
    assert "inside this site’s network" in row.answers.get().problem


def test_what_its_owner_may_not_see_any_more_is_not_posted(receiver: Receiver, owner: User) -> None:
    add(owner, receiver.address)
    made = tell(owner)
    Experiment.objects.filter(pk=made.pk).update(owner=UserFactory(), visibility="private")
    assert send_due() == 1
    assert receiver.taken == []
    assert send_due(days=1) == 0


def test_nobody_who_may_not_log_in_and_no_site_that_does_not_want_it_posts(
    receiver: Receiver, owner: User, settings: Any
) -> None:
    add(owner, receiver.address)
    tell(owner)
    User.objects.update(is_active=False)
    assert send_due() == 0
    User.objects.update(is_active=True)
    settings.WEBHOOKS = False
    assert send_due() == 0
    settings.WEBHOOKS = True
    assert send_due() == 1


def test_one_that_is_deleted_while_it_is_posted_to_is_gone(
    receiver: Receiver, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, _ = add(owner, receiver.address)
    tell(owner)
    post = receivers.post

    def post_and_delete(*given: Any) -> Any:
        answer = post(*given)
        Webhook.objects.filter(pk=row.pk).delete()
        return answer

    monkeypatch.setattr(receivers, "post", post_and_delete)
    assert send_due() == 1
    assert not NotificationMessage.objects.exists()
    assert not WebhookAnswer.objects.exists()


def test_ten_are_the_most_of_one_person(receiver: Receiver, owner: User) -> None:
    for _ in range(webhooks.MOST):
        add(owner, receiver.address)
    with pytest.raises(webhooks.NotDone, match="delete one first"):
        add(owner, receiver.address)
    add(UserFactory(), receiver.address)


def test_webhooks_of_others_get_nothing(receiver: Receiver, owner: User) -> None:
    add(UserFactory(), receiver.address)
    tell(owner)
    assert send_due() == 0
    assert Notification.objects.count() == 1
