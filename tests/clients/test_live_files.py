"""An experiment in a file: checked, launched, followed, exported and imported by the command."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer
from tare_client.command_line import main

from experiments.definitions.described_experiments import write_file
from experiments.imports.imported_bundles import import_bundle
from experiments.models import Cluster, Experiment, User
from tests.clients.test_live_site import make_token_of
from tests.conftest import finish
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db(transaction=True)


def test_from_the_file_to_the_verdict_and_the_bundle(
    here: Cluster,
    experiment: Callable[..., Experiment],
    live_server: LiveServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    owner: User = UserFactory(username="ada")
    monkeypatch.setenv("TARE_URL", live_server.url)
    monkeypatch.setenv("TARE_TOKEN", make_token_of(owner, "experiments"))
    first = experiment(owner=owner, repeats=2)
    text = "# our study\n" + write_file(first, owner, "yaml")
    study, wrong = tmp_path / "study.yaml", tmp_path / "wrong.yaml"
    study.write_text(text)
    wrong.write_text(text.replace("repeats:", "repeets:"))

    assert main(["check", str(wrong)]) == 4
    line = text[: text.index("repeats:")].count("\n") + 1
    assert f"{wrong}:{line}:" in capsys.readouterr().err
    assert main(["check", str(study)]) == 0
    assert "4 runs" in capsys.readouterr().out

    assert main(["launch", str(study), "--json"]) == 0
    key = json.loads(capsys.readouterr().out)["id"]
    made = Experiment.objects.get(pk=key)
    assert (made.owner, made.is_draft, made.repeats) == (owner, False, 2)
    finish(made)
    expected = main(["compare", str(key)])
    capsys.readouterr()
    assert main(["follow", str(key)]) == expected

    for option, ending in (
        *(("definition", "yaml"), ("bundle", "zip"), ("methods", "txt")),
        *(("csv", "csv"), ("tex", "tex"), ("parquet", "parquet")),
    ):
        target = tmp_path / f"out.{ending}"
        assert main(["export", str(key), f"--{option}", "-o", str(target)]) == 0
        assert target.stat().st_size > 50
    assert (tmp_path / "out.yaml").read_text() == text
    bundle = tmp_path / "out.zip"
    assert zipfile.ZipFile(bundle).testzip() is None
    made.delete()
    again = import_bundle(bundle, owner, file_name="out.zip").experiment
    assert again.question == first.question


def test_a_launched_experiment_is_cancelled(
    here: Cluster,
    experiment: Callable[..., Experiment],
    live_server: LiveServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    owner: User = UserFactory(username="ada")
    monkeypatch.setenv("TARE_URL", live_server.url)
    monkeypatch.setenv("TARE_TOKEN", make_token_of(owner, "experiments"))
    row = experiment(owner=owner, repeats=2)
    assert main(["cancel", str(row.pk)]) == 0
    row.refresh_from_db()
    assert row.cancelled_at
