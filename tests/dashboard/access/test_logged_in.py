"""Sessions and their people are found by SQL that is made once, as Django would find them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth import BACKEND_SESSION_KEY
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from dashboard.access.logged_in import FORMER_BACKEND
from experiments.models import User
from tests.dashboard.conftest import People

pytestmark = pytest.mark.django_db

ENDS: dict[str, Callable[[], object]] = {
    "it is over": lambda: Session.objects.update(expire_date=timezone.now()),
    "it is gone": lambda: Session.objects.all().delete(),
    "the person may not log in any more": lambda: User.objects.update(is_active=False),
    "the person has another password": lambda: User.objects.update(password="!other"),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_session_ends_at_once(end: str, as_owner: Client) -> None:
    assert as_owner.get("/").status_code == 200
    ENDS[end]()
    assert as_owner.get("/")["Location"].startswith("/login/")


@pytest.mark.parametrize("key", ["", "x", "x" * 5_000, "' OR true --", "%s", "\xe9"])
def test_an_odd_key_is_no_session(key: str) -> None:
    client = Client()
    client.cookies["sessionid"] = key
    assert client.get("/")["Location"].startswith("/login/")


def test_a_session_from_before_there_was_a_backend_here_goes_on(people: People) -> None:
    client = people.client("owner")
    session = client.session
    session[BACKEND_SESSION_KEY] = FORMER_BACKEND
    session.save()
    answer = client.get("/")
    assert answer.status_code == 200
    assert answer.wsgi_request.user == people.owner
