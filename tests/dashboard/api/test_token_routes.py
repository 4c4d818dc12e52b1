"""Tokens by the API: listed without their texts, withdrawn by owners or administrators."""

from __future__ import annotations

import pytest
from django.test import Client

from experiments.models import ApiToken, Role
from tests.dashboard.api.requests_by_token import get, log_in
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db


def test_one_sees_and_withdraws_ones_own(client: Client) -> None:
    owner, other = UserFactory(), UserFactory()
    headers, foreign = log_in(owner, "experiments"), log_in(other, "experiments")
    (item,) = get(client, "tokens", headers)["items"]
    assert (item["owner"], item["scopes"]) == (str(owner), ["experiments"])
    row = ApiToken.objects.get(owner=owner)
    assert row.token_hash not in str(item)
    get(client, "tokens?everybody=true", headers, 403)
    path = f"/api/v1/tokens/{row.pk}"
    assert client.delete(path, headers=foreign).status_code == 404
    assert client.delete(path, headers=log_in(owner)).status_code == 403, "it may only read"
    assert client.delete(path, headers=headers).status_code == 204
    get(client, "me", headers, 401)


def test_site_administrators_see_and_withdraw_those_of_all(client: Client) -> None:
    owner, administrator = UserFactory(), UserFactory(role=Role.SITE_ADMINISTRATOR)
    headers, foreign = log_in(administrator, "experiments"), log_in(owner)
    assert [row["owner"] for row in get(client, "tokens", headers)["items"]] == [str(administrator)]
    items = get(client, "tokens?everybody=true", headers)["items"]
    assert {row["owner"] for row in items} == {str(owner), str(administrator)}
    (pk,) = [row["id"] for row in items if row["owner"] == str(owner)]
    assert client.delete(f"/api/v1/tokens/{pk}", headers=headers).status_code == 204
    assert client.delete(f"/api/v1/tokens/{pk}", headers=headers).status_code == 404
    get(client, "me", foreign, 401)
