"""The bundle of an experiment: from its page, from the command, and nothing secret in it."""

from __future__ import annotations

import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from dashboard.comparisons import bundle_files
from dashboard.drawings.drawing_process import Busy, NotDrawn
from experiments.bundles import bundle_writer
from experiments.models import Cluster, Credential, Event, Experiment, Run
from tests.dashboard.access.test_links import link_to, visitor
from tests.dashboard.conftest import fetch
from tests.experiments.bundles.studies import end_runs, keep_records, launch, verify
from tests.factories import CredentialFactory, UserFactory
from tests.secrets_search import places_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are drawn in test_forest_figure.py."""
    monkeypatch.setattr(bundle_files, "draw", lambda *_, **__: b"<svg/>")


@pytest.fixture
def ended() -> Experiment:
    experiment = launch(containers=2, owner=UserFactory(username="maxine", email="me@example.org"))
    end_runs(experiment, steps=120)
    keep_records(experiment)
    return experiment


@pytest.fixture
def as_owner(ended: Experiment) -> Client:
    client = Client()
    client.force_login(ended.owner)
    return client


def test_it_comes_from_the_page_and_checks_itself(
    ended: Experiment, as_owner: Client, tmp_path: Path
) -> None:
    address = reverse("bundle_zip", args=[ended.pk])
    page = as_owner.get(reverse("experiment", args=[ended.pk])).content.decode()
    assert f'href="{address}"' in page
    content = fetch(as_owner, address)
    status, text = verify(content, tmp_path)
    assert status == 0, text
    with zipfile.ZipFile(BytesIO(content)) as file:
        names = {name.partition("/")[2] for name in file.namelist()}
        (folder,) = {name.partition("/")[0] for name in file.namelist()}
        methods = file.read(f"{folder}/data/methods.txt").decode()
    assert folder == as_owner.get(address)["Content-Disposition"].split('"')[1][: -len(".zip")]
    assert {"data/figures/forest.svg", "data/methods.txt", "verify.py", "README.txt"} <= names
    assert "Each environment" in methods or "ratio" in methods


def test_the_command_writes_the_same_file(
    ended: Experiment, as_owner: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "study.zip"
    call_command("export_bundle", str(ended.pk), "-o", str(path))
    assert str(path) in capsys.readouterr().out
    sent = fetch(as_owner, reverse("bundle_zip", args=[ended.pk]))

    def list_files(content: bytes) -> dict[str, int]:
        with zipfile.ZipFile(BytesIO(content)) as file:
            return {
                entry.filename: entry.CRC
                for entry in file.infolist()
                # These have the time at which it was made, or its check sums.
                if not entry.filename.endswith(("ro-crate-metadata.json", "-sha256.txt"))
            }

    assert list_files(path.read_bytes()) == list_files(sent)
    with pytest.raises(CommandError, match="is there already"):
        call_command("export_bundle", str(ended.pk), "-o", str(path))
    with pytest.raises(CommandError, match="There is no experiment 999999"):
        call_command("export_bundle", "999999", "-o", str(tmp_path / "other.zip"))
    assert [file.name for file in tmp_path.iterdir()] == ["study.zip"]


def test_there_is_none_while_runs_are_alive(
    ended: Experiment, as_owner: Client, tmp_path: Path
) -> None:
    ended.runs.filter(repeat=1).update(state=Run.State.PLANNED)
    answer = as_owner.get(reverse("bundle_zip", args=[ended.pk]))
    assert answer.status_code == 409
    assert "3 runs have not ended: a bundle is of all runs of a plan." in answer.content.decode()
    with pytest.raises(CommandError, match="3 runs have not ended"):
        call_command("export_bundle", str(ended.pk), "-o", str(tmp_path / "study.zip"))
    assert list(tmp_path.iterdir()) == []


def test_what_changes_while_it_is_written_leaves_no_file(
    ended: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_jobs = bundle_writer.write_jobs

    def change_and_write(experiment: Experiment) -> object:
        Event.objects.create(experiment=experiment, what="excluded after a verdict")
        return write_jobs(experiment)

    monkeypatch.setattr(bundle_writer, "write_jobs", change_and_write)
    with pytest.raises(CommandError, match="was changed while it was written"):
        call_command("export_bundle", str(ended.pk), "-o", str(tmp_path / "study.zip"))
    assert list(tmp_path.iterdir()) == []


def test_a_figure_that_is_not_drawn_is_left_out_and_one_that_will_be_is_waited_for(
    ended: Experiment, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(error: Exception) -> object:
        def draw(*_: object, **__: object) -> bytes:
            raise error

        return draw

    address = reverse("bundle_zip", args=[ended.pk])
    monkeypatch.setattr(bundle_files, "draw", refuse(NotDrawn("It cannot be drawn.")))
    with zipfile.ZipFile(BytesIO(fetch(as_owner, address))) as file:
        assert not [name for name in file.namelist() if name.endswith("forest.svg")]
    monkeypatch.setattr(bundle_files, "draw", refuse(Busy("Too many are drawn. Try again.")))
    answer = as_owner.get(address)
    assert (answer.status_code, "Try again" in answer.content.decode()) == (409, True)


def test_others_get_it_as_they_get_other_exports(ended: Experiment, as_owner: Client) -> None:
    address = reverse("bundle_zip", args=[ended.pk])
    assert Client().get(address).status_code == 302
    open_link, blind_link = link_to(ended), link_to(ended, hides_names=True)
    fetch(visitor(open_link), address)
    refused = visitor(blind_link).get(address)
    assert refused.status_code == 403
    assert "ask the owner of the experiment" in refused.content.decode()


def test_nothing_secret_is_in_it(ended: Experiment, as_owner: Client) -> None:
    key = CredentialFactory(user_name="account-on-the-cluster", passphrase="a passphrase, too")
    Cluster.objects.filter(pk=ended.cluster_id).update(credential=key)
    ended.owner.set_password("a secret of mine")
    ended.owner.save()
    as_owner.force_login(ended.owner)
    row = Credential.objects.get(pk=key.pk)
    with zipfile.ZipFile(BytesIO(fetch(as_owner, reverse("bundle_zip", args=[ended.pk])))) as file:
        texts = {name: file.read(name).decode(errors="replace") for name in file.namelist()}
    for ending in ("record.json", "output.txt", "job.sh", "confounders.json", "events.jsonl"):
        assert any(name.endswith(ending) for name in texts), ending
    secrets = places_of(str(row.private_key), str(row.passphrase), ended.owner.password)
    for name, text in texts.items():
        for what, secret in secrets.items():
            assert secret not in text, (name, what)
        assert "me@example.org" not in text, name
        assert row.user_name not in text, name
