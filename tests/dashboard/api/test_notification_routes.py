"""A person's notifications and webhooks by the API: one's own, and secrets once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from experiments.models import AnsweredRequest, Notification, User, Webhook
from experiments.notifications import webhooks
from tests.dashboard.api.requests_by_token import get, log_in
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db
ADDRESS = "https://hooks.example.org:8443/services/T0/very-secret-path"


@pytest.fixture
def person() -> User:
    made: User = UserFactory()
    return made


def send(
    client: Client,
    person: User,
    path: str,
    body: Any = None,
    status: int = 200,
    *,
    method: str = "post",
    **headers: str,
) -> Any:
    sent = {} if body is None else {"data": json.dumps(body), "content_type": "application/json"}
    headers |= log_in(person, "experiments")
    answer = getattr(client, method)(f"/api/v1/{path}", headers=headers, **sent)
    assert answer.status_code == status, answer.content
    return answer.json() if answer.content else None


class TestNotifications:
    @pytest.fixture
    def rows(self, person: User) -> list[Notification]:
        return [
            Notification.objects.create(
                recipient=person,
                kind="webhook",
                subject=f"webhook {number}",
                facts={"webhook": number, "host": "example.org", "why": "It is gone."},
                created_at=timezone.now(),
                changed_at=timezone.now(),
            )
            for number in range(3)
        ]

    def test_they_are_listed_and_read(
        self, client: Client, person: User, rows: list[Notification]
    ) -> None:
        headers = log_in(person)
        listed = get(client, "notifications", headers)["items"]
        assert [row["id"] for row in listed] == [row.pk for row in rows[::-1]]
        assert listed[0]["sentence"].startswith("It is gone.")
        read = send(client, person, f"notifications/{rows[0].pk}/read")
        assert read["read_at"]
        unread = get(client, "notifications?unread=true", headers)["items"]
        assert [row["id"] for row in unread] == [rows[2].pk, rows[1].pk]
        until = {"until": rows[1].changed_at.isoformat()}
        assert send(client, person, "notifications/read", until) == {"marked": 1}
        assert send(client, person, "notifications/read", {}) == {"marked": 1}

    def test_those_of_others_are_not_there(
        self, client: Client, person: User, rows: list[Notification]
    ) -> None:
        other = UserFactory()
        assert get(client, "notifications", log_in(other))["items"] == []
        send(client, other, f"notifications/{rows[0].pk}/read", status=404)
        assert send(client, other, "notifications/read", {}) == {"marked": 0}
        assert Notification.objects.filter(read_at=None).count() == 3

    @pytest.mark.parametrize(
        "until", ["2026-11-27T03:00:00", "yesterday", "2026-02-30T00:00:00Z", "", 5, 1e300, True]
    )
    def test_a_moment_has_a_zone(self, client: Client, person: User, until: object) -> None:
        send(client, person, "notifications/read", {"until": until}, 422)

    @pytest.mark.parametrize(
        ("until", "status"),
        [
            ("0001-01-01T00:00:00+23:59", 422),
            ("9999-12-31T23:59:59-23:59", 422),
            ("2026-11-27T03:00:00+23:59", 200),  # which PostgreSQL does not take
        ],
    )
    def test_a_moment_of_an_odd_zone(
        self, client: Client, person: User, until: str, status: int
    ) -> None:
        send(client, person, "notifications/read", {"until": until}, status)
        client.force_login(person)
        assert client.post("/notifications/read/", {"until": until}).status_code == 302

    def test_choices(self, client: Client, person: User) -> None:
        assert get(client, "notifications/choices", log_in(person))["kinds"]["ended"] == ["site"]
        path = "notifications/choices"
        told = send(client, person, path, {"kinds": {"ended": []}}, method="patch")
        assert (told["kinds"]["ended"], told["kinds"]["failed"]) == ([], ["site"])
        assert get(client, path, log_in(person)) == told
        for kinds, field in (
            ({"nothing": []}, "kinds.nothing"),
            ({"storage": ["site"]}, "kinds.storage"),  # an administrator's
            ({"failed": ["webhook"]}, "kinds.failed"),
        ):
            answer = send(client, person, path, {"kinds": kinds}, 422, method="patch")
            assert [row["field"] for row in answer["problems"]] == [field]
        send(client, person, path, {"kinds": {"failed": ["pigeon"]}}, 422, method="patch")
        assert get(client, path, log_in(person)) == told


class TestWebhooks:
    def test_a_secret_is_sent_once_and_an_address_never(self, client: Client, person: User) -> None:
        key = {"Idempotency-Key": "k"}
        body = {"address": ADDRESS, "kinds": ["ended"]}
        made = send(client, person, "webhooks", body, 201, **key)
        row = Webhook.objects.get()
        assert made["secret"] == row.secret.reveal()
        assert (row.address.reveal(), row.kinds) == (ADDRESS, ["ended"])
        assert send(client, person, "webhooks", body, 201, **key) == made | {"secret": None}
        kept = bytes(AnsweredRequest.objects.get().content).decode()
        shown = get(client, f"webhooks/{row.pk}", log_in(person))
        listed = get(client, "webhooks", log_in(person))
        for text in (kept, json.dumps(shown), json.dumps(listed)):
            assert made["secret"] not in text
            assert "very-secret-path" not in text
        rotated = send(client, person, f"webhooks/{row.pk}/rotate")
        row.refresh_from_db()
        assert rotated["secret"] == row.secret.reveal() != made["secret"]

    def test_what_is_not_sent_stays(self, client: Client, person: User) -> None:
        row, _ = webhooks.add_webhook(person, ADDRESS, ["ended"])
        path = f"webhooks/{row.pk}"
        send(client, person, path, {"kinds": ["failed"]}, method="patch")
        row.refresh_from_db()
        assert (row.address.reveal(), row.kinds) == (ADDRESS, ["failed"])
        told = send(client, person, path, {"address": "https://example.org/"}, method="patch")
        assert (told["host"], told["kinds"]) == ("example.org", ["failed"])

    def test_it_is_switched_tested_and_deleted(self, client: Client, person: User) -> None:
        row, _ = webhooks.add_webhook(person, ADDRESS, ["ended"])
        path = f"webhooks/{row.pk}"
        assert send(client, person, f"{path}/off")["is_on"] is False
        send(client, person, f"{path}/test", status=409)
        assert send(client, person, f"{path}/on")["is_on"] is True
        send(client, person, f"{path}/test", status=202)
        assert row.deliveries.filter(kind="test").count() == 1
        send(client, person, path, status=204, method="delete")
        assert not Webhook.objects.exists()

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"address": "http://example.org/"}, "address"),
            ({"address": "ftp://example.org/"}, "address"),
            ({"address": "x" * 501}, "address"),
            ({"address": ""}, "address"),
            ({"address": ADDRESS, "kinds": ["storage"]}, "kinds"),
            ({"adress": ADDRESS, "address": ADDRESS}, ""),
        ],
    )
    def test_what_is_wrong_is_named(
        self, client: Client, person: User, body: Any, field: str
    ) -> None:
        problems = send(client, person, "webhooks", body, 422)["problems"]
        assert [row["field"] for row in problems] == [field]

    def test_nobody_has_more_than_some(self, client: Client, person: User) -> None:
        for _ in range(webhooks.MOST):
            webhooks.add_webhook(person, ADDRESS, [])
        assert "delete one" in send(client, person, "webhooks", {"address": ADDRESS}, 409)["detail"]

    def test_those_of_others_are_not_there(self, client: Client, person: User) -> None:
        row, _ = webhooks.add_webhook(person, ADDRESS, [])
        other = UserFactory()
        for method, end in (("get", ""), ("patch", ""), ("delete", ""), ("post", "/rotate")):
            body = {} if method == "patch" else None
            send(client, other, f"webhooks/{row.pk}{end}", body, 404, method=method)
