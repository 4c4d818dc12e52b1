"""The client and the command against the real site, with real tokens."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer
from tare_client import Client, Refused
from tare_client.command_line import main

from experiments.models import ApiToken, Cluster, Environment, User, Workload
from experiments.models.api_token import make_token
from tests.factories import EnvironmentFactory, ExperimentFactory, UserFactory

pytestmark = pytest.mark.django_db(transaction=True)
Captured = pytest.CaptureFixture[str]


def make_token_of(user: User, *scopes: str) -> str:
    return make_token(user, "tests", list(scopes), timezone.now() + timedelta(days=1))[1]


@pytest.fixture
def owner() -> User:
    return UserFactory(username="ada")


@pytest.fixture
def ask(
    live_server: LiveServer, owner: User, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., int]:
    """Log in by the command, then run it."""
    token = make_token_of(owner, "experiments")
    monkeypatch.setattr("sys.stdin", io.StringIO(token))
    assert main(["login", live_server.url]) == 0
    return lambda *words: main([str(word) for word in words])


def test_a_person_logs_in_and_lists_experiments(
    ask: Callable[..., int], owner: User, live_server: LiveServer, capsys: Captured
) -> None:
    capsys.readouterr()
    keys = [ExperimentFactory(owner=owner).pk for _ in range(3)]
    ExperimentFactory(visibility="private")
    assert ask("list", "--json") == 0
    assert [row["id"] for row in json.loads(capsys.readouterr().out)] == keys[::-1]
    assert ask("list", "--limit", 1) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_lists_go_on_by_the_cursors_of_the_site(
    live_server: LiveServer, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tare_client.client.PAGE", 2)
    keys = [ExperimentFactory(owner=owner).pk for _ in range(5)]
    client = Client(live_server.url, make_token_of(owner, "read"))
    assert [row.id for row in client.experiments()] == keys[::-1]


def test_what_is_hidden_is_refused_as_what_is_missing(
    ask: Callable[..., int], capsys: Captured
) -> None:
    hidden = ExperimentFactory(visibility="private")
    capsys.readouterr()
    said = []
    for key in (hidden.pk, hidden.pk + 1):
        assert ask("open", key) == 4
        said.append(capsys.readouterr().err.replace(str(key), "KEY"))
    assert said == ["tare: There is no experiment KEY, or you may not view it.\n"] * 2


def test_a_token_that_was_withdrawn_says_what_to_do(
    ask: Callable[..., int], capsys: Captured
) -> None:
    ApiToken.objects.update(withdrawn_at=timezone.now())
    assert ask("list") == 4
    assert "token" in capsys.readouterr().err


def test_a_token_for_reading_launches_nothing(live_server: LiveServer, owner: User) -> None:
    draft = ExperimentFactory(owner=owner)
    client = Client(live_server.url, make_token_of(owner, "read"))
    with pytest.raises(Refused) as caught:
        client.launch(draft.pk)
    assert caught.value.status in (401, 403)


def test_a_draft_is_launched_once(
    here: Cluster, bare: Environment, quick: Workload, owner: User, live_server: LiveServer
) -> None:
    other = EnvironmentFactory(name="other", cluster=here, python=bare.python)
    draft = ExperimentFactory(
        owner=owner,
        cluster=here,
        partition=None,
        baseline=bare,
        environments=[bare, other],
        workloads=[quick],
        scales=["1x0"],
    )
    client = Client(live_server.url, make_token_of(owner, "experiments"))
    assert client.experiment(draft.pk).is_draft
    launched = client.launch(draft.pk)
    assert (launched.id, launched.is_draft) == (draft.pk, False)
    assert client.find_page(launched) == f"{live_server.url}/experiments/{draft.pk}/"
    with pytest.raises(Refused):
        client.launch(draft.pk)
