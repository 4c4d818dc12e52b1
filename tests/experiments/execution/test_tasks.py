"""The tasks that workers run: each says what came of it, and asks for the visit that follows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from pytest_django import DjangoCaptureOnCommitCallbacks

from experiments import execution, notify
from experiments.execution import tasks
from experiments.models import Cluster
from tests.factories import CheckReportFactory, StagedImageFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return what is asked for, in the order in which it is."""
    asked: list[tuple[str, int]] = []
    monkeypatch.setattr(notify, "enqueue", lambda task, pk, **_: asked.append((task, pk)))
    return asked


@pytest.mark.parametrize(
    ("name", "make_row"), [("check", CheckReportFactory), ("send", StagedImageFactory)]
)
def test_whoever_is_done_has_the_cluster_visited_whose_jobs_may_have_waited(
    name: str,
    make_row: Callable[..., object],
    enqueued: list[tuple[str, int]],
    here: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    row = make_row(cluster=here)
    done: list[int] = []
    monkeypatch.setattr(execution, name, lambda pk: done.append(pk) or f"outcome of {pk}")
    monkeypatch.setattr(tasks, "close_old_connections", connection.ensure_connection)
    with django_capture_on_commit_callbacks(execute=True):
        assert getattr(tasks, name)(row.pk) == f"outcome of {row.pk}"
    assert done == [row.pk]
    assert ("experiments.execution.tasks.tick", here.pk) in enqueued
    others = {task for task, _ in enqueued} - {"experiments.execution.tasks.tick"}
    assert others == ({"experiments.execution.tasks.find_changes"} if name == "check" else set())


@pytest.mark.parametrize(
    "name", ["tick", "fetch_host_key", "test_connection", "receive", "copy_file"]
)
def test_a_task_hands_its_key_on_and_tells_what_came_of_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, name, lambda pk: f"outcome of {pk}")
    monkeypatch.setattr(tasks, "close_old_connections", connection.ensure_connection)
    assert getattr(tasks, name)(5) == "outcome of 5"
