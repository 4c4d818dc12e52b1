"""The page on which a person makes, sees once and withdraws tokens."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from experiments.models import ApiToken, AuditEntry, Role
from experiments.models.api_token import make_token
from tests.factories import PASSWORD, UserFactory

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


class TestEverybodys:
    """Site administrators see the tokens of all, without their texts, and withdraw them."""

    def test_they_are_listed_by_owner_and_withdrawn(self, client: Client) -> None:
        owner, administrator = UserFactory(), UserFactory(role=Role.SITE_ADMINISTRATOR)
        row, text = make_token(owner, "nightly", ["read"], timezone.now() + timedelta(days=1))
        headers = {"authorization": f"Bearer {text}"}
        assert Client().get("/api/v1/me", headers=headers).status_code == 200
        client.force_login(administrator)
        for query in ("", "?sort=owner", "?sort=-expires", "?page=7"):
            page = client.get(f"/account/tokens/all/{query}").content.decode()
            assert "nightly" in page
            assert str(owner) in page
            assert text not in page
            assert row.token_hash not in page
        assert "/account/tokens/all/" in client.get("/account/tokens/").content.decode()
        answer = client.post(f"/account/tokens/{row.pk}/withdraw/")
        assert answer["Location"] == "/account/tokens/all/"
        assert Client().get("/api/v1/me", headers=headers).status_code == 401
        entry = AuditEntry.objects.get(kind="apitoken", what="withdrawn")
        assert entry.actor == administrator

    def test_others_see_their_own_alone(self, client: Client) -> None:
        client.force_login(UserFactory(role=Role.CLUSTER_ADMINISTRATOR))
        assert client.get("/account/tokens/all/").status_code == 403
        assert "/account/tokens/all/" not in client.get("/account/tokens/").content.decode()


class TestANewPassword:
    """It offers to withdraw one's tokens, and leaves them otherwise."""

    @pytest.mark.parametrize("withdraws", [True, False])
    def test_tokens_go_with_it_if_wanted(self, client: Client, withdraws: bool) -> None:
        person, other = UserFactory(), UserFactory()
        for owner in (person, person, other):
            make_token(owner, "it", ["read"], timezone.now() + timedelta(days=1))
        client.force_login(person)
        page = client.get("/account/password/").content.decode()
        assert "Withdraw my 2 API tokens" in page
        new = "a-long-new-password-of-39"
        form = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
        form |= {"withdraws_tokens": "on"} if withdraws else {}
        page = client.post("/account/password/", form, follow=True).content.decode()
        assert "Your password is changed." in page
        assert ("2 API tokens are withdrawn." in page) == withdraws
        assert ApiToken.objects.valid().filter(owner=person).count() == (0 if withdraws else 2)
        assert ApiToken.objects.valid().filter(owner=other).count() == 1

    def test_without_tokens_there_is_nothing_to_choose(self, client: Client) -> None:
        client.force_login(UserFactory())
        page = client.get("/account/password/").content.decode()
        assert "API token" not in page.split("<main")[1]
