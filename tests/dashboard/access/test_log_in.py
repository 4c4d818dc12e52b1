"""Logging in, and for how long: who is kept out, who is not, and what people do themselves."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.conf import settings as site_settings
from django.core.exceptions import ImproperlyConfigured
from django.db.models import F
from django.test import Client, RequestFactory
from pytest_django import Settings

from dashboard import environment
from dashboard.access.log_in import FREE_FAILURES, LONGEST_WAIT_SECONDS, find_client_address
from experiments.models import AuditEntry, Role, User
from tests.factories import PASSWORD, UserFactory

pytestmark = pytest.mark.django_db


PROXY, ATTACKER, VICTIM = "10.1.2.3", "203.0.113.9", "198.51.100.7"
CLOSED = "Log-in is closed for a while"
NEW = "an empty pan weighs 12 g"


@pytest.fixture
def person() -> User:
    user: User = UserFactory(username="victim")
    return user


def log_in(
    name: str, password: str, *, remote: str = ATTACKER, forwarded: str = "", address: str = ""
) -> Any:
    headers = {"x-forwarded-for": forwarded} if forwarded else {}
    return Client(REMOTE_ADDR=remote).post(
        address or "/login/", {"username": name, "password": password}, headers=headers
    )


@pytest.mark.parametrize(
    ("remote", "forwarded", "found"),
    [
        (ATTACKER, "", ATTACKER),
        (ATTACKER, "1.2.3.4", ATTACKER),  # a header that anybody can send
        (PROXY, "", PROXY),
        (PROXY, VICTIM, VICTIM),
        (PROXY, f"1.2.3.4, {VICTIM}", VICTIM),
        (PROXY, f"{VICTIM}, 10.9.9.9", VICTIM),  # two proxies, both listed
        (PROXY, "nonsense", PROXY),
        (PROXY, f"{VICTIM},\x00", PROXY),
        (PROXY, "," * 5000, PROXY),
        ("::ffff:10.1.2.3", VICTIM, VICTIM),
        ("2001:db8:0:1:aaaa::1", "", "2001:db8:0:1::"),  # one customer's, whichever it is
        ("2001:db8:0:1:bbbb::2", "", "2001:db8:0:1::"),
        ("", VICTIM, None),
    ],
)
def test_only_listed_proxies_say_where_a_request_comes_from(
    remote: str, forwarded: str, found: str | None, settings: Settings
) -> None:
    settings.TRUSTED_PROXIES = ["10.0.0.0/8"]
    request = RequestFactory().get("/", REMOTE_ADDR=remote, HTTP_X_FORWARDED_FOR=forwarded)
    assert find_client_address(request) == found


def test_nobody_is_trusted_who_is_not_listed() -> None:
    assert site_settings.TRUSTED_PROXIES == []
    request = RequestFactory().get("/", REMOTE_ADDR=PROXY, HTTP_X_FORWARDED_FOR=VICTIM)
    assert find_client_address(request) == PROXY


def test_what_is_no_address_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUSTED_PROXIES", "10.0.0.1, proxy.example")
    with pytest.raises(ImproperlyConfigured, match=r"proxy\.example"):
        environment.read_networks("TRUSTED_PROXIES")
    monkeypatch.setenv("SESSION_DAYS", "9" * 5000 + "x")
    with pytest.raises(ImproperlyConfigured, match="SESSION_DAYS"):
        environment.read_number("SESSION_DAYS", 7)


def test_whoever_is_wrong_for_others_does_not_lock_them_out(
    person: User, settings: Settings
) -> None:
    settings.TRUSTED_PROXIES = [PROXY]
    answers = [
        log_in("victim", "wrong", remote=PROXY, forwarded=f"9.9.9.{n}, {ATTACKER}")
        for n in range(11)
    ]
    assert CLOSED in answers[-1].content.decode()
    refused = log_in("victim", PASSWORD, remote=PROXY, forwarded=ATTACKER)
    assert CLOSED in refused.content.decode()
    opened = log_in("victim", PASSWORD, remote=PROXY, forwarded=VICTIM)
    assert (opened.status_code, opened["Location"]) == (302, "/")


@pytest.mark.parametrize("address", ["/login/", "/admin/login/"])
def test_an_address_that_is_wrong_for_forty_names_has_to_wait(person: User, address: str) -> None:
    for number in range(FREE_FAILURES):
        answer = log_in(f"name{number}", "wrong", address=address)
        assert "Try again in" not in answer.content.decode()
    later = timedelta(minutes=1)  # so that no wait is over, however slow the machine is
    AccessAttempt.objects.update(attempt_time=F("attempt_time") + later)
    for number in range(20, 40):
        answer = log_in(f"name{number}", "wrong", address=address)
        assert "Too many wrong passwords came from your address" in answer.content.decode()
    failures = sum(AccessAttempt.objects.values_list("failures_since_start", flat=True))
    assert failures == FREE_FAILURES
    assert "Try again in" in log_in("victim", PASSWORD).content.decode()
    assert log_in("victim", PASSWORD, remote=VICTIM).status_code == 302
    # Whoever waits comes in, from that address too.
    waited = later + timedelta(seconds=LONGEST_WAIT_SECONDS)
    AccessAttempt.objects.update(attempt_time=F("attempt_time") - waited)
    assert log_in("victim", PASSWORD).status_code == 302


@pytest.mark.parametrize("role", Role)
def test_everybody_changes_their_own_password(role: Role) -> None:
    UserFactory(username="somebody", role=role)
    here, there = Client(), Client()
    for client in (here, there):
        assert client.login(
            request=RequestFactory().get("/"), username="somebody", password=PASSWORD
        )
    assert 'href="/account/password/"' in here.get("/").content.decode()
    answer = change(here, PASSWORD, NEW)
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert here.get("/").status_code == 200
    assert there.get("/")["Location"] == "/login/?next=/"
    assert log_in("somebody", PASSWORD).status_code == 200
    assert log_in("somebody", NEW).status_code == 302
    entry = AuditEntry.objects.get(what="changed", kind="user")
    assert str(entry.actor) == "somebody"
    assert NEW not in str(entry.changes)
    assert "password" in entry.changes


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("wrong", NEW, "old password was entered incorrectly"),
        (PASSWORD, "12345678", "too common"),
        (PASSWORD, "short", "too short"),
        (PASSWORD, "victim", "too similar to the username"),
    ],
)
def test_a_weak_password_is_refused(old: str, new: str, words: str, person: User) -> None:
    client = Client()
    client.force_login(person)
    page = change(client, old, new)
    assert words in page.content.decode()
    person.refresh_from_db()
    assert person.check_password(PASSWORD)
    assert not AuditEntry.objects.filter(kind="user").exists()


def change(client: Client, old: str, new: str) -> Any:
    asked = {"old_password": old, "new_password1": new, "new_password2": new}
    return client.post("/account/password/", asked)


@pytest.fixture
def client_of(person: User) -> Client:
    client = Client()
    client.force_login(person)
    assert client.get("/").status_code == 200
    return client


def age(client: Client, **seconds: float) -> None:
    session = client.session
    for name, passed in seconds.items():
        session[name] = time.time() - passed
    session.save()


def test_whoever_does_nothing_is_logged_out(client_of: Client) -> None:
    age(client_of, active=site_settings.SESSION_IDLE_SECONDS - 100)
    assert client_of.get("/").status_code == 200
    age(client_of, active=site_settings.SESSION_IDLE_SECONDS + 100)
    assert client_of.get("/runs/")["Location"] == "/login/?next=/runs/"
    page = client_of.get("/login/").content.decode()
    assert "You were logged out, because nothing was done here for a while." in page


def test_whoever_logged_in_long_ago_is_logged_out_whatever_they_do(client_of: Client) -> None:
    age(client_of, began=site_settings.SESSION_COOKIE_AGE + 100, active=0)
    assert client_of.get("/runs/").status_code == 302
    assert "some days old" in client_of.get("/login/").content.decode()


def test_a_page_that_asks_for_itself_is_nobody_who_does_something(client_of: Client) -> None:
    headers = {"hx-request": "true"}
    age(client_of, active=1000)
    before = client_of.session["active"]
    client_of.get("/", headers=headers)
    assert client_of.session["active"] == before
    client_of.get("/")
    assert client_of.session["active"] > before
    age(client_of, active=site_settings.SESSION_IDLE_SECONDS + 100)
    answer = client_of.get("/", headers=headers)
    assert answer["HX-Refresh"] == "true"  # a fragment is no place for the log-in page
    assert client_of.get("/").status_code == 302
