"""Recurrences after a commit: a token that is shown once, and the address that takes it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from experiments.models import (
    AuditEntry,
    Experiment,
    LaunchReason,
    Recurrence,
    RecurringExperiment,
    User,
)
from tests.dashboard.conftest import People, fetch
from tests.factories import NOON, LaunchedFactory, RecurringExperimentFactory

pytestmark = pytest.mark.django_db

COMMIT = "4f2a91c0"


@pytest.fixture
def row(results: Experiment) -> RecurringExperiment:
    made: RecurringExperiment = RecurringExperimentFactory(source=results, owner=results.owner)
    return made


@pytest.fixture
def token(row: RecurringExperiment, as_owner: Client) -> str:
    page = as_owner.post(reverse("recurring_token", args=[row.pk])).content.decode()
    shown = re.search(r'<pre id="token" class="line">([\w-]{40,})</pre>', page)
    assert shown
    return shown[1]


def ask(token: str, client: Client | None = None, **sent: Any) -> Any:
    """Ask as a script does, without a session and without the token of a form."""
    script = client or Client(enforce_csrf_checks=True)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return script.post(reverse("recurring_trigger"), sent, headers=headers)


class TestTheToken:
    """Shown once, kept as a hash, replaced and withdrawn."""

    def test_stands_nowhere_after_it_was_shown(
        self, row: RecurringExperiment, token: str, as_owner: Client
    ) -> None:
        row.refresh_from_db()
        assert len(row.token_hash) == 64
        assert token not in fetch(as_owner, row.get_absolute_url()).decode()
        assert token not in fetch(as_owner, reverse("recurring_json", args=[row.pk])).decode()
        entries = AuditEntry.objects.filter(what="token made")
        assert entries.count() == 1
        assert token not in str(entries.values())
        assert row.token_hash not in str(AuditEntry.objects.values())

    def test_a_new_one_takes_its_place(
        self, row: RecurringExperiment, token: str, as_owner: Client
    ) -> None:
        as_owner.post(reverse("recurring_token", args=[row.pk]))
        assert ask(token, commit=COMMIT).status_code == 401

    def test_withdrawn_it_opens_nothing(
        self, row: RecurringExperiment, token: str, as_owner: Client
    ) -> None:
        as_owner.post(reverse("recurring_token", args=[row.pk]), {"withdraw": "1"})
        assert ask(token, commit=COMMIT).status_code == 401
        row.refresh_from_db()
        assert row.requested_at is None

    def test_others_make_none(self, row: RecurringExperiment, people: People) -> None:
        other = people.client("other")
        assert other.post(reverse("recurring_token", args=[row.pk])).status_code == 403


class TestAsking:
    """A commit asks for one recurrence."""

    def test_asks_with_its_commit(self, row: RecurringExperiment, token: str) -> None:
        answer = ask(token, commit=COMMIT)
        assert answer.status_code == 202
        assert answer.json()["recurring"] == row.pk
        row.refresh_from_db()
        assert row.requested_at
        assert (row.requested_reason, row.requested_commit) == (LaunchReason.COMMIT, COMMIT)

    def test_the_same_commit_twice_asks_once(self, row: RecurringExperiment, token: str) -> None:
        assert [ask(token, commit=COMMIT).status_code for _ in range(2)] == [202, 200]
        RecurringExperiment.objects.filter(pk=row.pk).update(requested_at=None, requested_commit="")
        Recurrence.objects.create(
            recurring=row,
            number=2,
            experiment=LaunchedFactory(),
            reason=LaunchReason.COMMIT,
            commit=COMMIT,
            launched_at=NOON,
        )
        assert ask(token, commit=COMMIT).status_code == 200
        row.refresh_from_db()
        assert row.requested_at is None

    def test_of_several_the_last_one_waits(self, row: RecurringExperiment, token: str) -> None:
        for commit in ("aaaa", "bbbb", "v1.2/rc+1"):
            assert ask(token, commit=commit).status_code == 202
        row.refresh_from_db()
        assert row.requested_commit == "v1.2/rc+1"

    @pytest.mark.parametrize(
        "commit", ["", "a b", "x" * 101, "<b>", "a\x00b", "ä", "-rf", "a\nb", "'; drop"]
    )
    def test_what_is_no_name_of_a_commit_is_refused(
        self, row: RecurringExperiment, token: str, commit: str
    ) -> None:
        assert ask(token, commit=commit).status_code == 400
        row.refresh_from_db()
        assert row.requested_at is None

    @pytest.mark.parametrize("odd", ["", "x", "x" * 5000, "é"])
    def test_without_the_token_nobody_asks(
        self, row: RecurringExperiment, token: str, odd: str, as_owner: Client
    ) -> None:
        for client in (None, as_owner):  # a session is no token
            answer = ask(odd, client, commit=COMMIT)
            assert answer.status_code == 401
            assert answer["WWW-Authenticate"] == "Bearer"
        row.refresh_from_db()
        assert row.requested_at is None

    def test_what_is_over_says_so(self, row: RecurringExperiment, token: str) -> None:
        RecurringExperiment.objects.filter(pk=row.pk).update(stopped_at=NOON)
        answer = ask(token, commit=COMMIT)
        assert (answer.status_code, "It is over" in answer.json()["state"]) == (409, True)

    @pytest.mark.parametrize("columns", [{"is_active": False}, {"role": "viewer"}])
    def test_for_an_owner_who_may_launch_nothing_nobody_asks(
        self, row: RecurringExperiment, token: str, columns: dict[str, Any]
    ) -> None:
        User.objects.filter(pk=row.owner_id).update(**columns)
        answer = ask(token, commit=COMMIT)
        assert answer.status_code == 409
        assert "its owner may launch no experiment" in answer.json()["error"]
        row.refresh_from_db()
        assert row.requested_at is None

    def test_a_thousand_that_are_refused_write_nothing(self, row: RecurringExperiment) -> None:
        before = RecurringExperiment.objects.filter(pk=row.pk).values().get()
        client = Client(enforce_csrf_checks=True)
        with CaptureQueriesContext(connection) as queries:
            answers = {ask(f"wrong{n}", client, commit=f"c{n}").status_code for n in range(1000)}
        assert (answers, len(queries)) == ({401}, 1000)  # each asks once whose token it is
        assert RecurringExperiment.objects.filter(pk=row.pk).values().get() == before

    def test_a_thousand_with_the_token_ask_for_one(
        self, row: RecurringExperiment, token: str
    ) -> None:
        client = Client(enforce_csrf_checks=True)
        answers = {ask(token, client, commit=f"c{number}").status_code for number in range(1000)}
        row.refresh_from_db()
        assert (answers, row.requested_commit) == ({202}, "c999")
        assert row.recurrences.count() == Recurrence.objects.count()

    def test_bytes_that_are_no_text_are_refused(self, token: str) -> None:
        answer = Client().post(
            reverse("recurring_trigger"),
            b"commit=\xff\xfe",
            content_type="application/x-www-form-urlencoded",
            headers={"Authorization": f"Bearer {token}"},
        )
        assert answer.status_code == 400


def test_odd_requests_are_refused_in_words_and_ask_for_nothing(
    row: RecurringExperiment, token: str
) -> None:
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    form = "application/x-www-form-urlencoded"
    bodies = [
        (b"commit=" + b"a" * 1_000_000, form),
        (b"commit=" + b"a" * 5_000_000, form),
        *(
            (body, form)
            for body in (b"commit=a%00b", b"commit=\xff\xfe", b"commit=%ff", b"a&" * 5000)
        ),
        (b"no parts", "multipart/form-data; boundary=x"),
        (b"no parts", "multipart/form-data"),
        (b'{"commit": "abc"}', "application/json"),
    ]
    address, headers = reverse("recurring_trigger"), {"Authorization": f"Bearer {token}"}
    for body, kind in bodies:
        answer = client.post(address, data=body, content_type=kind, headers=headers)
        assert 400 <= answer.status_code < 500, (body[:20], kind, answer.status_code)
    for odd in ("Bearer ", "Bearer \xff", "Bearer " + "a" * 5000, "bearer x", "Basic eDp5"):
        answer = client.post(address, {"commit": "abc"}, headers={"Authorization": odd})
        assert answer.status_code == 401
    assert client.get(address, headers=headers).status_code == 405
    row.refresh_from_db()
    assert (row.requested_at, row.requested_commit) == (None, "")
