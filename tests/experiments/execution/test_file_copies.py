"""Copies of files that runs have left on a cluster: fetched by one worker at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from experiments.execution import copy_file, file_copies
from experiments.execution.image_transfers import SILENCE, GivenUp, Meter
from experiments.images import store
from experiments.models import Job, RunFile
from tests.factories import RunFactory

pytestmark = pytest.mark.django_db

CONTENT = b"weights"


@pytest.fixture
def requested(tmp_path: Path) -> RunFile:
    """A file of a run, of which somebody wants a copy."""
    run = RunFactory()
    Job.objects.filter(pk=run.job_id).update(directory=str(tmp_path / "job"))
    folder = tmp_path / "job" / run.folder
    folder.mkdir(parents=True)
    (folder / "model.ckpt").write_bytes(CONTENT)
    return RunFile.objects.create(
        run=run,
        path="model.ckpt",
        size_bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        requested_at=timezone.now(),
    )


def test_a_second_worker_waits_until_the_first_has_fallen_silent(requested: RunFile) -> None:
    rows = RunFile.objects.filter(pk=requested.pk)
    rows.update(seen_at=timezone.now(), done_bytes=3)
    assert copy_file(requested.pk) == "copied or being copied"
    assert rows.get().done_bytes == 3
    rows.update(seen_at=timezone.now() - SILENCE - timedelta(seconds=1))
    assert copy_file(requested.pk) == "copied"
    assert store.copy_of(str(requested.pk)).read_bytes() == CONTENT
    assert (rows.get().problem, copy_file(requested.pk)) == ("", "copied or being copied")


def test_what_nobody_wants_a_copy_of_is_not_fetched(requested: RunFile) -> None:
    RunFile.objects.update(requested_at=None)
    assert copy_file(requested.pk) == "copied or being copied"
    assert not store.copy_of(str(requested.pk)).exists()


def test_how_far_a_copy_is_can_be_seen_until_nobody_wants_it(
    requested: RunFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = RunFile.objects.filter(pk=requested.pk)

    def fetch_in_two_seconds(
        work: Callable[[Meter], str], save_progress: Callable[[int], bool]
    ) -> str:
        assert save_progress(5)
        assert rows.get().done_bytes == 5
        rows.update(requested_at=None)
        assert not save_progress(6)
        raise GivenUp

    monkeypatch.setattr(file_copies, "run_with_progress", fetch_in_two_seconds)
    assert copy_file(requested.pk) == "given up"
    assert not store.copy_of(str(requested.pk)).exists()
