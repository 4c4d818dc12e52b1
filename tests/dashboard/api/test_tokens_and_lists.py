"""The API's frame: who asks, what is refused and how, and how lists go on."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone

from experiments.models import ApiToken, User
from tests.dashboard.api.requests_by_token import get, log_in
from tests.factories import ExperimentFactory, UserFactory

pytestmark = pytest.mark.django_db


def test_a_token_names_its_owner_and_its_scopes(client: Client) -> None:
    user = UserFactory()
    me = get(client, "me", log_in(user, "experiments"))
    assert (me["username"], me["scopes"]) == (user.username, ["experiments"])


@pytest.mark.parametrize("text", ["", "Bearer x", "Bearer tare_x", "Basic eDp4", "Bearer é"])
def test_what_is_no_token_is_answered_in_words(client: Client, text: str) -> None:
    answer = client.get("/api/v1/me", headers={"authorization": text})
    assert (answer.status_code, answer["Content-Type"]) == (401, "application/problem+json")
    assert answer["WWW-Authenticate"].startswith("Bearer")


def test_a_token_that_expired_or_was_withdrawn_or_whose_owner_left_opens_nothing(
    client: Client,
) -> None:
    user = UserFactory()
    get(client, "me", log_in(user, days=-1), 401)
    headers = log_in(user)
    get(client, "me", headers)
    User.objects.filter(pk=user.pk).update(is_active=False)
    get(client, "me", headers, 401)
    User.objects.filter(pk=user.pk).update(is_active=True)
    ApiToken.objects.update(withdrawn_at=timezone.now())
    get(client, "me", headers, 401)


def test_a_list_goes_on_by_its_cursor_and_shows_no_more_than_its_person_may_view(
    client: Client,
) -> None:
    owner = UserFactory()
    keys = [ExperimentFactory(owner=owner).pk for _ in range(5)]
    ExperimentFactory(visibility="private")
    headers, seen, address = log_in(owner), [], "/api/v1/experiments?limit=2&fields=question"
    while address:
        part = client.get(address, headers=headers).json()
        assert all(item.keys() == {"id", "question"} for item in part["items"])
        seen += [item["id"] for item in part["items"]]
        address = part["next"]
    assert seen == keys[::-1]


def test_what_is_hidden_and_what_is_missing_look_alike(client: Client) -> None:
    hidden, headers = ExperimentFactory(visibility="private"), log_in(UserFactory())
    assert get(client, f"experiments/{hidden.pk}", headers, 404) == get(
        client, f"experiments/{hidden.pk + 1}", headers, 404
    )


def test_a_token_does_what_its_scope_says_and_no_browser_does_it_by_a_session(
    client: Client,
) -> None:
    experiment = ExperimentFactory()
    path = f"/api/v1/experiments/{experiment.pk}/launch"
    answer = client.post(path, headers=log_in(experiment.owner))
    assert (answer.status_code, "experiments" in answer.json()["detail"]) == (403, True)
    client.force_login(experiment.owner)
    assert client.post(path).status_code == 401
    assert client.get("/api/v1/me").status_code == 200
    answer = client.post(path, headers=log_in(experiment.owner, "experiments"))
    assert (answer.status_code, answer.json()["is_draft"]) == (200, False)
    answer = client.post(path, headers=log_in(experiment.owner, "experiments"))
    assert answer.status_code == 409
