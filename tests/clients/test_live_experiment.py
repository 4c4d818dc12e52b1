"""A real experiment, from its launch to its numbers, by the command and the real site."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from pytest_django.live_server_helper import LiveServer
from tare_client import Client
from tare_client.command_line import main

from experiments.models import Cluster, Experiment, User
from tests.clients.test_live_site import make_token_of
from tests.conftest import finish
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_experiment_is_followed_compared_and_fetched(
    here: Cluster,
    experiment: Callable[..., Experiment],
    live_server: LiveServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    owner: User = UserFactory(username="ada")
    token = make_token_of(owner, "experiments")
    monkeypatch.setenv("TARE_URL", live_server.url)
    monkeypatch.setenv("TARE_TOKEN", token)
    row = experiment(owner=owner, repeats=2)
    client, key = Client(live_server.url, token), str(row.pk)
    progress = client.progress(row.pk)
    assert (progress.is_alive, progress.n_runs, progress.n_ended) == (True, 4, 0)
    assert progress.problems
    finish(row)
    comparison = client.comparison(row.pk)
    assert len(comparison.rows) == 1
    for words in (["follow", key], ["compare", key]):
        assert main(words) == comparison.exit_code
        out = capsys.readouterr().out
        assert comparison.sentences[0] in out
        assert out.endswith(f"Verdict: {comparison.exit_word.replace('_', ' ')}\n")
    assert main(["results", key, "--json", "--metrics", "step_time"]) == 0
    runs = json.loads(capsys.readouterr().out)
    assert [run["state"] for run in runs] == ["succeeded"] * 4
    assert all(run["metrics"]["step_time"] > 0 for run in runs)
    assert len(client.runs(row.pk, metrics=["step_time"]).to_pandas()["step_time"]) == 4
    series = client.series(runs[0]["id"])
    assert "step_time" in {one.metric for one in series}
