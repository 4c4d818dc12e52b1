"""The pages of a person's own webhooks: nobody else's, and a secret is seen once."""

from __future__ import annotations

import io
import re
from datetime import timedelta
from typing import Any

import pytest
from bs4 import BeautifulSoup
from cryptography.fernet import Fernet
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from experiments.models import AuditEntry, NotificationChoices, Role, Webhook, WebhookAnswer
from experiments.models.database_time import database_now
from experiments.notifications import webhooks
from tests.dashboard.conftest import People

pytestmark = pytest.mark.django_db
CHOICES = "/account/notifications/"
NEW = "/account/webhooks/new/"
ADDRESS = "https://hooks.example.org:8443/services/T0/very-secret-path"
HOSTILE = "<script>alert(1)</script> & “what”?"


def read(client: Client, address: str) -> BeautifulSoup:
    answer = client.get(address)
    assert answer.status_code == 200
    return BeautifulSoup(answer.content, "html.parser")


def add(client: Client, **typed: Any) -> tuple[Webhook, str]:
    """Add a webhook by the page; return it with the secret that the page shows."""
    answer = client.post(NEW, {"address": ADDRESS, "kinds": ["ended"], **typed}, follow=True)
    assert answer.status_code == 200
    shown = BeautifulSoup(answer.content, "html.parser").select_one("#secret")
    assert shown
    return Webhook.objects.latest("pk"), shown.text


@pytest.fixture
def added(people: People, as_owner: Client) -> Webhook:
    return add(as_owner)[0]


def test_a_webhook_is_added_and_its_secret_is_shown_once(people: People, as_owner: Client) -> None:
    assert f'href="{NEW}"' in str(read(as_owner, CHOICES))
    row, secret = add(as_owner)
    assert re.fullmatch(r"whsec_\S{44}", secret)
    assert (row.owner, row.address.reveal(), row.kinds) == (people.owner, ADDRESS, ["ended"])
    assert row.secret.reveal() == secret
    for address in (CHOICES, row.get_absolute_url(), NEW):
        assert secret not in as_owner.get(address).content.decode()
    other = as_owner.post(f"{row.get_absolute_url()}rotate/", follow=True)
    again = BeautifulSoup(other.content, "html.parser").select_one("#secret")
    assert again
    assert again.text not in (secret, "")
    assert "no-store" in other["Cache-Control"]
    assert "The one before signs too until" in read(as_owner, row.get_absolute_url()).text


def test_a_page_with_a_secret_that_is_loaded_again_makes_and_shows_no_other(
    people: People, as_owner: Client, added: Webhook
) -> None:
    answer = as_owner.post(f"{added.get_absolute_url()}rotate/")
    assert answer.status_code == 302
    made = Webhook.objects.get(pk=added.pk).secret.reveal()
    assert made not in str(dict(as_owner.session))
    assert people.client("other").get(answer["Location"]).status_code == 404
    assert made in as_owner.get(answer["Location"]).content.decode()
    again = as_owner.get(answer["Location"], follow=True)
    assert made not in again.content.decode()
    assert "A secret is shown once" in again.content.decode()
    assert Webhook.objects.get(pk=added.pk).secret.reveal() == made
    assert AuditEntry.objects.filter(what="secret rotated").count() == 1


def test_the_address_is_shown_in_its_form_alone(as_owner: Client, added: Webhook) -> None:
    """The path of an address may be a password."""
    page = read(as_owner, added.get_absolute_url())
    field = page.select_one("input[name=address]")
    assert field
    assert field["value"] == ADDRESS
    field.decompose()
    path = ADDRESS.partition("8443")[2]
    assert path not in str(page) + str(read(as_owner, CHOICES))
    with connection.cursor() as cursor:
        cursor.execute("SELECT w::text FROM experiments_webhook w")
        assert path not in str(cursor.fetchall())
    dumped = io.StringIO()
    call_command("dumpdata", "experiments", stdout=dumped)
    assert '"experiments.webhook"' in dumped.getvalue()
    assert path not in dumped.getvalue()


def test_an_address_that_no_key_opens_is_typed_again(
    as_owner: Client, added: Webhook, settings: Settings
) -> None:
    settings.CREDENTIAL_KEYS = [Fernet.generate_key().decode()]
    page = read(as_owner, added.get_absolute_url())
    assert not page.select("input[name=address][value]")
    assert added.host in page.text
    as_owner.post(added.get_absolute_url(), {"address": ADDRESS, "kinds": ["ended"]})
    assert Webhook.objects.get(pk=added.pk).address.reveal() == ADDRESS


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("http://example.org/", "https only"),
        ("https://169.254.169.254/latest", "inside this site’s network"),
        ("https://[::1]/", "inside this site’s network"),
        ("https://me:word@example.org/", "no address of the web"),
        ("javascript:alert(1)", "no address of the web"),
        ("https://example.org/" + "x" * 500, "at most 500 characters"),
        ("", "required"),
    ],
)
def test_an_address_that_may_not_be_is_refused_with_words(
    people: People, as_owner: Client, address: str, problem: str
) -> None:
    answer = as_owner.post(NEW, {"address": address, "kinds": ["ended"]})
    assert problem in answer.content.decode()
    assert not Webhook.objects.exists()


def test_the_page_saves_address_and_kinds(as_owner: Client, added: Webhook) -> None:
    page = read(as_owner, added.get_absolute_url())
    assert [box["value"] for box in page.select("input[name=kinds][checked]")] == ["ended"]
    as_owner.post(
        added.get_absolute_url(),
        {"address": "https://other.example/", "kinds": ["failed", "verdict"]},
    )
    added.refresh_from_db()
    assert (added.host, added.kinds) == ("other.example", ["failed", "verdict"])
    answer = as_owner.post(added.get_absolute_url(), {"address": ADDRESS, "kinds": ["service"]})
    assert answer.status_code == 200  # of administrators, and not offered
    added.refresh_from_db()
    assert added.kinds == ["failed", "verdict"]


def test_another_address_has_not_failed(as_owner: Client, added: Webhook) -> None:
    now = timezone.now()
    failed = {"failures": 9, "failing_since": now, "retry_at": now}
    Webhook.objects.filter(pk=added.pk).update(**failed)
    as_owner.post(added.get_absolute_url(), {"address": ADDRESS, "kinds": ["failed"]})
    added.refresh_from_db()
    assert added.failures == 9
    as_owner.post(
        added.get_absolute_url(), {"address": "https://other.example/", "kinds": ["failed"]}
    )
    added.refresh_from_db()
    assert (added.failures, added.failing_since, added.retry_at) == (0, None, None)


def test_a_test_is_asked_for_and_the_page_waits_for_it(as_owner: Client, added: Webhook) -> None:
    as_owner.post(f"{added.get_absolute_url()}test/")
    assert added.deliveries.get().kind == "test"
    page = read(as_owner, added.get_absolute_url())
    assert "A test is on its way" in page.text
    part = as_owner.get(added.get_absolute_url(), headers={"HX-Request": "true"})
    assert part.content.decode().strip().startswith('<section class="panel" id="answers"')
    assert "data-live" in part.content.decode()
    asked_at = database_now() - timedelta(minutes=3)
    added.deliveries.update(changed_at=asked_at, created_at=asked_at)
    late = read(as_owner, added.get_absolute_url())
    assert "no worker runs" in late.text
    assert late.find("a", string="Look again")
    assert not late.select("#answers[data-live]")
    added.deliveries.all().delete()
    assert "on its way" not in read(as_owner, added.get_absolute_url()).text


def test_answers_are_shown_as_text(as_owner: Client, added: Webhook) -> None:
    for status, problem in ((200, ""), (500, "It answered with HTTP 500."), (None, "No host.")):
        WebhookAnswer.objects.create(
            webhook=added,
            kind="ended",
            message_uid="00000000-0000-0000-0000-000000000001",
            at=database_now(),
            seconds=0.25,
            status=status,
            body=HOSTILE,
            problem=problem,
        )
    page = read(as_owner, added.get_absolute_url())
    assert HOSTILE in page.text
    assert not [script for script in page.select("script") if "alert(1)" in script.text]
    assert "It answered with HTTP 500." in page.text


def test_one_that_fails_or_is_off_says_so(as_owner: Client, added: Webhook) -> None:
    now = database_now()
    Webhook.objects.update(failures=3, failing_since=now, retry_at=now)
    assert "It has taken nothing since" in read(as_owner, added.get_absolute_url()).text
    assert "failing" in read(as_owner, CHOICES).text
    as_owner.post(f"{added.get_absolute_url()}switch/", {"to": "off"})
    page = read(as_owner, added.get_absolute_url())
    assert "Nothing is posted" in page.text
    assert "Send a test" not in page.text
    as_owner.post(f"{added.get_absolute_url()}test/")
    assert not added.deliveries.exists()
    as_owner.post(f"{added.get_absolute_url()}switch/", {"to": "on"})
    added.refresh_from_db()
    assert (added.is_on, added.failures) == (True, 0)


def test_nobody_sees_or_changes_webhooks_of_others(people: People, added: Webhook) -> None:
    stored = Webhook.objects.values().get()
    for who in ("other", "admin"):
        client = people.client(who)
        assert "hooks.example.org" not in read(client, CHOICES).text
        page = added.get_absolute_url()
        assert client.get(page).status_code == 404
        for address in ("", "test/", "rotate/", "switch/", "delete/"):
            assert client.post(f"{page}{address}", {"address": ADDRESS}).status_code == 404
    assert Webhook.objects.values().get() == stored
    assert Client().get(added.get_absolute_url()).status_code == 302


def test_the_audit_log_says_what_was_done_and_shows_neither_address_nor_secret(
    people: People, as_owner: Client
) -> None:
    row, secret = add(as_owner)
    page = row.get_absolute_url()
    as_owner.post(page, {"address": ADDRESS, "kinds": []})
    second = as_owner.post(f"{page}rotate/", follow=True).content.decode()
    as_owner.post(f"{page}switch/", {"to": "off"})
    as_owner.post(f"{page}delete/")
    assert not Webhook.objects.exists()
    entries = AuditEntry.objects.filter(kind="webhook").order_by("pk")
    assert [entry.what for entry in entries] == [
        *("added", "changed", "secret rotated", "switched off", "deleted")
    ]
    assert {entry.actor for entry in entries} == {people.owner}
    log = people.client("admin").get("/audit/").content.decode()
    assert "webhook to hooks.example.org:8443" in log
    stored = repr(list(AuditEntry.objects.values()))
    for text in (log, stored):
        assert "very-secret-path" not in text
        assert secret not in text
        assert re.findall(r"whsec_\S{44}", second)[0] not in text


def test_a_site_can_do_without_webhooks(
    people: People, as_owner: Client, settings: Any, added: Webhook
) -> None:
    settings.WEBHOOKS = False
    assert "switched webhooks off" in read(as_owner, CHOICES).text
    assert "switched webhooks off" in read(as_owner, added.get_absolute_url()).text
    assert as_owner.get(NEW).status_code == 404
    assert as_owner.post(f"{added.get_absolute_url()}test/").status_code == 404
    as_owner.post(f"{added.get_absolute_url()}delete/")
    assert "Webhooks" not in read(as_owner, CHOICES).text


def test_more_than_ten_are_refused_with_words(people: People, as_owner: Client) -> None:
    for _ in range(webhooks.MOST):
        webhooks.add_webhook(people.owner, ADDRESS, [])
    answer = as_owner.post(NEW, {"address": ADDRESS, "kinds": ["ended"]})
    assert "which is the most" in answer.content.decode()
    assert people.owner.webhooks.count() == webhooks.MOST


@pytest.mark.parametrize(
    ("role", "offered"),
    [
        (Role.RESEARCHER, {"ended", "failed", "verdict", "recurring", "webhook"}),
        (
            Role.CLUSTER_ADMINISTRATOR,
            {"ended", "failed", "verdict", "recurring", "webhook", "cluster", "expiry"},
        ),
        (
            Role.SITE_ADMINISTRATOR,
            {
                *("ended", "failed", "verdict", "recurring", "webhook"),
                *("cluster", "expiry", "service", "storage"),
            },
        ),
    ],
)
def test_administrators_find_more_kinds(people: People, role: Role, offered: set[str]) -> None:
    people.other.role = role
    people.other.save()
    client = people.client("other")
    boxes = read(client, CHOICES).select("input[name$=-site]")
    assert {str(box["name"]).removesuffix("-site") for box in boxes} == offered
    boxes = read(client, NEW).select("input[name=kinds]")
    assert {box["value"] for box in boxes} == offered
    client.post(CHOICES, {"service-site": "on"})
    choices = NotificationChoices.objects.get(person=people.other)
    assert choices.list_ways("service") == ["site"]  # as it was, where it was not offered


def test_what_failed_since_the_page_was_asked_for_still_counts(added: Webhook) -> None:
    read_before = Webhook.objects.get(pk=added.pk)
    Webhook.objects.filter(pk=added.pk).update(failures=9)
    webhooks.change_webhook(read_before, ADDRESS, ["failed"], by=added.owner)
    added.refresh_from_db()
    assert (added.failures, added.kinds) == (9, ["failed"])
