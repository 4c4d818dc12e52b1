"""What a run has left on the cluster: named on its page, and fetched one by one."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from experiments.execution import copy_file
from experiments.execution.file_copies import forget_old_copies
from experiments.images import store
from experiments.models import Job, Run, RunFile
from tests.dashboard.conftest import People

pytestmark = pytest.mark.django_db

CONTENT = b"w" * 3_000_000


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    """The run's directory on its cluster, which is this machine, with a checkpoint in it."""
    Job.objects.filter(pk=run.job_id).update(directory=str(tmp_path / "job"))
    made = tmp_path / "job" / run.folder
    made.mkdir(parents=True)
    (made / "model.ckpt").write_bytes(CONTENT)
    Run.objects.filter(pk=run.pk).update(files_count=3, files_bytes=len(CONTENT))
    return made


@pytest.fixture
def checkpoint(run: Run, folder: Path) -> RunFile:
    digest = hashlib.sha256(CONTENT).hexdigest()
    return RunFile.objects.create(
        run=run, path="model.ckpt", size_bytes=len(CONTENT), sha256=digest
    )


def fetch(file: RunFile, client: Client) -> str:
    address = reverse("run_file_fetch", args=[file.run.uid, file.pk])
    assert client.post(address).status_code == 302
    outcome = copy_file(file.pk)
    file.refresh_from_db()
    return outcome


def download(file: RunFile) -> str:
    return reverse("run_file", args=[file.run.uid, file.pk])


def test_a_file_is_named_fetched_and_downloaded(checkpoint: RunFile, as_owner: Client) -> None:
    page = as_owner.get(checkpoint.run.get_absolute_url()).content.decode()
    for words in ("model.ckpt", "3.00 MB", checkpoint.sha256, "not compared", "3 files"):
        assert words in page
    assert as_owner.get(download(checkpoint)).status_code == 404
    assert fetch(checkpoint, as_owner) == "copied"
    assert checkpoint.problem == ""
    assert download(checkpoint) in as_owner.get(checkpoint.run.get_absolute_url()).content.decode()
    answer = as_owner.get(download(checkpoint))
    assert b"".join(answer.streaming_content) == CONTENT
    assert answer["Content-Disposition"] == 'attachment; filename="model.ckpt"'
    assert answer["Content-Type"] == "application/octet-stream"


def test_the_list_asks_again_while_a_copy_is_on_its_way(
    checkpoint: RunFile, as_owner: Client
) -> None:
    address = f"{checkpoint.run.get_absolute_url()}?files&page=1"
    htmx = {"HX-Request": "true"}
    assert "every 3s" not in as_owner.get(address, headers=htmx).content.decode()
    as_owner.post(reverse("run_file_fetch", args=[checkpoint.run.uid, checkpoint.pk]))
    waiting = as_owner.get(address, headers=htmx).content.decode()
    assert "every 3s" in waiting
    assert "waiting for a worker" in waiting
    assert "Snapshot" not in waiting


def test_whoever_may_not_edit_sees_the_list_alone(
    checkpoint: RunFile, people: People, as_owner: Client
) -> None:
    fetch(checkpoint, as_owner)
    experiment = checkpoint.run.experiment
    experiment.visibility = "members"
    experiment.save(update_fields=["visibility"])
    other = people.client("other")
    page = other.get(checkpoint.run.get_absolute_url()).content.decode()
    assert "model.ckpt" in page
    assert "Fetch" not in page
    assert "Download" not in page
    assert other.get(download(checkpoint)).status_code == 403
    address = reverse("run_file_fetch", args=[checkpoint.run.uid, checkpoint.pk])
    assert other.post(address).status_code == 403


def test_what_is_gone_meanwhile_is_said(
    checkpoint: RunFile, folder: Path, as_owner: Client
) -> None:
    (folder / "model.ckpt").unlink()
    assert fetch(checkpoint, as_owner) == "failed"
    assert "no file" in checkpoint.problem
    assert checkpoint.problem.split(".")[0] in (
        as_owner.get(checkpoint.run.get_absolute_url()).content.decode()
    )
    assert list(store.copy_of("x").parent.iterdir()) == []


def test_a_link_that_took_its_place_is_not_followed(
    checkpoint: RunFile, folder: Path, as_owner: Client
) -> None:
    (folder / "model.ckpt").unlink()
    (folder / "model.ckpt").symlink_to("/etc/passwd")
    assert fetch(checkpoint, as_owner) == "failed"
    assert "no regular file" in checkpoint.problem


def test_a_file_that_has_changed_is_said(
    checkpoint: RunFile, folder: Path, as_owner: Client
) -> None:
    (folder / "model.ckpt").write_bytes(b"other")
    assert fetch(checkpoint, as_owner) == "copied"
    assert "differs from the check sum" in checkpoint.problem
    assert as_owner.get(download(checkpoint)).status_code == 200


@pytest.mark.parametrize("columns", [{"size_bytes": 2**40}, {"has_plain_name": False}])
def test_what_cannot_be_fetched_has_no_button(
    checkpoint: RunFile, as_owner: Client, columns: dict[str, object]
) -> None:
    RunFile.objects.filter(pk=checkpoint.pk).update(**columns)
    page = as_owner.get(checkpoint.run.get_absolute_url()).content.decode()
    assert "Fetch model.ckpt" not in page
    as_owner.post(reverse("run_file_fetch", args=[checkpoint.run.uid, checkpoint.pk]))
    assert not RunFile.objects.to_be_copied().exists()


def test_a_full_store_refuses(
    checkpoint: RunFile, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "count_free_bytes", lambda: 10**9)
    assert fetch(checkpoint, as_owner) == "failed"
    assert "no room" in checkpoint.problem


def test_copies_are_kept_for_a_day(
    checkpoint: RunFile, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch(checkpoint, as_owner)
    forget_old_copies()
    assert as_owner.get(download(checkpoint)).status_code == 200
    RunFile.objects.update(copied_at=timezone.now() - RunFile.KEPT)
    assert as_owner.get(download(checkpoint)).status_code == 404
    monkeypatch.setattr("time.time", lambda: timezone.now().timestamp() + 10**6)
    forget_old_copies()
    assert list(store.copy_of("x").parent.iterdir()) == []


def test_five_hundred_files_are_paged(run: Run, folder: Path, as_owner: Client) -> None:
    RunFile.objects.bulk_create(
        RunFile(run=run, path=f"shard-{number:03}", size_bytes=number) for number in range(500)
    )
    page = as_owner.get(run.get_absolute_url()).content.decode()
    assert "shard-499" in page
    assert page.count("<code>shard-") == 50


def test_what_nobody_foresaw_ends_a_copy_with_words(
    checkpoint: RunFile, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the clock would ask for it again, for ever."""

    def fail(*args: object, **options: object) -> str:
        raise ValueError("odd")

    monkeypatch.setattr("runners.directories.copy_file", fail)
    assert fetch(checkpoint, as_owner) == "failed"
    assert "Tare itself failed" in checkpoint.problem
    assert not RunFile.objects.to_be_copied().exists()


def test_a_run_that_left_nothing_alone_on_the_cluster_says_so(
    folder: Path, run: Run, as_owner: Client
) -> None:
    page = as_owner.get(run.get_absolute_url()).content.decode()
    assert "Nothing but caches stayed on the cluster alone." in page
    assert "Listed are" not in page


def test_a_cancelled_run_says_so_once(run: Run, as_owner: Client) -> None:
    Run.objects.filter(pk=run.pk).update(state="cancelled", reason="cancelled")
    for address in (reverse("runs"), run.job.experiment.get_absolute_url()):
        page = as_owner.get(address).content.decode()
        assert '<span class="muted">cancelled</span>' not in page
