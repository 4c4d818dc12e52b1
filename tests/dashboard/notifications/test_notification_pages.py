"""The list of notifications and the page on which they are chosen."""

from __future__ import annotations

from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client

from experiments.models import (
    Experiment,
    Notification,
    NotificationChoices,
    NotificationMessage,
    User,
)
from experiments.models.database_time import database_now
from experiments.notifications import Subject, count_unread, notify_person
from tests.dashboard.conftest import People
from tests.factories import LaunchedFactory

pytestmark = pytest.mark.django_db
CHOICES = "/account/notifications/"
HOSTILE = "<script>alert(1)</script> & “what”?"


def tell(person: User, kind: str = "ended", **facts: Any) -> Experiment:
    made: Experiment = LaunchedFactory(owner=person, question=HOSTILE)
    subject = Subject(f"experiment {made.pk}", experiment=made)
    assert notify_person(person, kind, subject=subject, facts={"runs": 3, "succeeded": 3, **facts})
    return made


def read(client: Client, address: str = "/notifications/") -> BeautifulSoup:
    answer = client.get(address)
    assert answer.status_code == 200
    return BeautifulSoup(answer.content, "html.parser")


def bell(page: BeautifulSoup) -> str:
    link = page.select_one("header a.bell")
    assert link
    return f"{link['aria-label']} {link.text.strip()}".strip()


def test_the_head_of_each_page_counts_what_is_unread(people: People, as_owner: Client) -> None:
    assert bell(read(as_owner, "/docs/")) == "Notifications"
    tell(people.owner)
    assert bell(read(as_owner, "/docs/")) == "Notifications, 1 unread 1"
    User.objects.filter(pk=people.owner.pk).update(unread_notifications=100)
    assert bell(read(as_owner, "/docs/")) == "Notifications, 100 unread 99+"
    assert not read(Client(), "/docs/").select("a.bell")


def test_opening_a_notification_reads_it(people: People, as_owner: Client) -> None:
    made = tell(people.owner)
    page = read(as_owner)
    item = page.select_one(".notices .unread")
    assert item
    assert HOSTILE in item.text
    assert "All 3 runs are over: 3 succeeded." in item.text
    answer = as_owner.get(item.a["href"])  # type: ignore[index]
    assert answer["Location"] == made.get_absolute_url()
    assert not read(as_owner).select(".unread")
    assert bell(read(as_owner)) == "Notifications"


def test_mark_all_as_read_leaves_what_came_after_the_page(people: People, as_owner: Client) -> None:
    tell(people.owner)
    until = read(as_owner).select_one("input[name=until]")
    assert until
    tell(people.owner)
    as_owner.post("/notifications/read/", {"until": until["value"]})
    assert people.owner.notifications.filter(read_at=None).count() == 1
    assert bell(read(as_owner)) == "Notifications, 1 unread 1"


def test_mark_all_as_read_on_a_further_page_reads_all(people: People, as_owner: Client) -> None:
    for _ in range(60):
        tell(people.owner)
    page = BeautifulSoup(as_owner.get("/notifications/?page=2").content, "html.parser")
    (until,) = page.select("input[name=until]")
    as_owner.post("/notifications/read/", {"until": until["value"]})
    assert not people.owner.notifications.filter(read_at=None).exists()


@pytest.mark.parametrize("until", ["", "2026-02-31", "2026-02-31T00:00:00Z", "x" * 5000, "\x00"])
def test_odd_moments_mark_all_as_read(people: People, as_owner: Client, until: str) -> None:
    tell(people.owner)
    assert as_owner.post("/notifications/read/", {"until": until}).status_code == 302
    assert count_unread(people.owner) == 0


def test_nobody_reads_or_opens_those_of_others(people: People) -> None:
    tell(people.owner)
    row = Notification.objects.get()
    for who in ("other", "admin"):
        client = people.client(who)
        assert client.get(f"/notifications/{row.pk}/").status_code == 404
        assert HOSTILE not in read(client).text
        client.post("/notifications/read/")
    assert people.owner.notifications.filter(read_at=None).exists()


def test_a_count_that_is_wrong_is_mended_by_the_list(people: People, as_owner: Client) -> None:
    made = tell(people.owner)
    Experiment.objects.filter(pk=made.pk).update(owner=people.other, visibility="private")
    assert "Nothing new" in read(as_owner).text
    assert bell(read(as_owner)) == "Notifications"


def test_choices_are_kept_by_kind(people: People, as_owner: Client) -> None:
    boxes = read(as_owner, "/account/notifications/").select("input[type=checkbox]")
    assert all(box.has_attr("checked") for box in boxes)
    as_owner.post("/account/notifications/", {"failed-site": "on", "rubbish": "on"})
    kept = NotificationChoices.objects.get(person=people.owner)
    assert kept.list_ways("failed") == ["site"]
    assert kept.list_ways("ended") == kept.list_ways("verdict") == []
    boxes = read(as_owner, "/account/notifications/").select("input[checked]")
    assert [box["name"] for box in boxes] == ["failed-site"]


def test_five_thousand_notifications_are_pages(people: People, as_owner: Client) -> None:
    now = database_now()
    Notification.objects.bulk_create(
        Notification(
            recipient=people.owner,
            kind="failed",
            subject=f"s {number}",
            facts={},
            created_at=now,
            changed_at=now,
        )
        for number in range(5000)
    )
    count_unread(people.owner)
    page = read(as_owner)
    assert len(page.select(".notices li")) == 50
    assert bell(page) == "Notifications, 5000 unread 99+"
    assert as_owner.get("/notifications/?page=100").status_code == 200


@pytest.fixture
def has_mail(settings: Any) -> None:
    settings.EMAIL_HOST = "mail.example.org"


def test_without_a_mail_server_no_page_speaks_of_mail(people: People, as_owner: Client) -> None:
    User.objects.update(email="owner@example.org")
    NotificationChoices.objects.create(person=people.owner, ways={"ended": ["site", "email"]})
    assert "mail" not in read(as_owner, CHOICES).main.text  # type: ignore[union-attr]
    as_owner.post(CHOICES, {"failed-site": "on", "failed-email": "on"})
    kept = NotificationChoices.objects.get(person=people.owner)
    assert kept.list_ways("ended") == ["email"]  # as it was: the page did not offer it
    assert kept.list_ways("failed") == ["site"]


@pytest.mark.usefixtures("has_mail")
def test_mail_is_chosen_by_kind_and_off_at_first(people: People, as_owner: Client) -> None:
    User.objects.filter(pk=people.owner.pk).update(email="owner@example.org")
    page = read(as_owner, CHOICES)
    assert "E-mail goes to owner@example.org" in page.text
    mails = page.select("input[name$=-email]")
    assert len(mails) == 5
    assert not any(box.has_attr("checked") for box in mails)
    as_owner.post(CHOICES, {"failed-site": "on", "verdict-email": "on"})
    kept = NotificationChoices.objects.get(person=people.owner)
    assert [kept.list_ways(kind) for kind in ("ended", "failed", "verdict")] == [
        [],
        ["site"],
        ["email"],
    ]


@pytest.mark.usefixtures("has_mail")
def test_an_account_without_an_address_is_told_so(people: People, as_owner: Client) -> None:
    User.objects.filter(pk=people.owner.pk).update(email="")
    page = read(as_owner, CHOICES)
    assert "Your account has no e-mail address" in page.text
    assert not page.select("input[name$=-email]")


@pytest.mark.usefixtures("has_mail")
def test_what_the_mail_server_answered_is_shown(people: People, as_owner: Client) -> None:
    now = database_now()
    row = NotificationMessage.objects.create(
        recipient=people.owner, way="email", created_at=now, retry_at=now, problem=HOSTILE
    )
    page = read(as_owner, CHOICES)
    assert HOSTILE in page.text
    assert "could not be sent yet" in page.text
    assert HOSTILE not in read(people.client("other"), CHOICES).text
    NotificationMessage.objects.filter(pk=row.pk).update(given_up_at=now)
    assert "is not tried again" in read(as_owner, CHOICES).text
    NotificationMessage.objects.filter(pk=row.pk).update(problem="", sent_at=now)
    assert HOSTILE not in read(as_owner, CHOICES).text
