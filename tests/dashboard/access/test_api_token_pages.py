"""The page on which a person makes, sees once and withdraws tokens."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from experiments.models import ApiToken, AuditEntry
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db
FORM = {"name": "nightly", "scopes": ["read", "experiments"], "days": "30"}


def test_a_token_is_made_shown_once_used_and_withdrawn(client: Client) -> None:
    user = UserFactory()
    client.force_login(user)
    address = client.post("/account/tokens/", FORM)["Location"]
    page = client.get(address).content.decode()
    (text,) = re.findall(r"tare_[\w-]{43}", page)
    assert client.get(address)["Location"] == "/account/tokens/"
    assert text not in client.get("/account/tokens/").content.decode()
    headers = {"authorization": f"Bearer {text}"}
    assert Client().get("/api/v1/me", headers=headers).json()["scopes"] == FORM["scopes"]
    row = ApiToken.objects.get()
    assert row.used_at
    assert text not in str(row.__dict__)
    client.post(f"/account/tokens/{row.pk}/withdraw/")
    assert Client().get("/api/v1/me", headers=headers).status_code == 401
    entries = AuditEntry.objects.filter(kind="apitoken").values_list("what", flat=True)
    assert sorted(entries) == ["added", "withdrawn"]


@pytest.mark.parametrize(
    "wrong", [{"days": "367"}, {"days": "0"}, {"scopes": []}, {"scopes": ["all"]}, {"name": ""}]
)
def test_a_token_that_cannot_be_made(client: Client, wrong: dict[str, object]) -> None:
    client.force_login(UserFactory())
    answer = client.post("/account/tokens/", FORM | wrong)
    assert (answer.status_code, ApiToken.objects.count()) == (200, 0)
    assert "Not made" in answer.content.decode()


def test_tokens_of_others_are_not_there(client: Client) -> None:
    client.force_login(UserFactory())
    client.post("/account/tokens/", FORM)
    row = ApiToken.objects.get()
    client.force_login(UserFactory())
    assert client.get(f"/account/tokens/{row.pk}/").status_code == 404
    assert client.post(f"/account/tokens/{row.pk}/withdraw/").status_code == 404
