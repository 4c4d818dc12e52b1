"""A copy of a file is fetched once for whoever asks, if it can be and they wait for few others."""

from __future__ import annotations

import pytest
from django.utils import timezone

from experiments.execution import copy_requests
from experiments.execution.copy_requests import MOST_WANTED, request_copy
from experiments.execution.removed_files import explain_removal, find_removal
from experiments.images import store
from experiments.models import Removal, RunFile, User
from tests.factories import NOON, RunFactory, UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> User:
    made: User = UserFactory()
    return made


@pytest.fixture(autouse=True)
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[RunFile]:
    """The files that a worker was asked to fetch."""
    rows: list[RunFile] = []
    monkeypatch.setattr(copy_requests, "enqueue_copy", rows.append)
    return rows


def file(**columns: object) -> RunFile:
    known = {"path": "model.ckpt", "size_bytes": 9}
    return RunFile.objects.create(run=RunFactory(), **known | columns)


def test_a_copy_is_asked_for_anew_in_place_of_an_older_one(
    user: User, enqueued: list[RunFile]
) -> None:
    row = file(
        requested_at=NOON, seen_at=NOON, done_bytes=9, copied_at=NOON, problem="It has grown."
    )
    copy = store.copy_of(str(row.pk))
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(b"old")
    before = timezone.now()
    assert request_copy(row, user)
    assert not copy.exists()
    assert enqueued == [row]
    stored = RunFile.objects.get()
    assert stored.requested_at
    assert stored.requested_at >= before
    assert (stored.asked_by, stored.seen_at, stored.done_bytes) == (user, None, 0)
    assert (stored.copied_at, stored.problem) == (None, "")
    assert list(RunFile.objects.to_be_copied()) == [row]


@pytest.mark.parametrize(
    "columns",
    [
        {"has_plain_name": False},
        {"size_bytes": RunFile.MOST_BYTES + 1},
        {"requested_at": NOON},
    ],
)
def test_what_cannot_be_fetched_or_is_on_its_way_is_not_asked_for(
    columns: dict[str, object], user: User, enqueued: list[RunFile]
) -> None:
    row = file(**columns)
    assert not request_copy(row, user)
    assert not enqueued
    assert RunFile.objects.get().asked_by is None


def test_a_file_of_the_largest_size_is_fetched(user: User) -> None:
    assert request_copy(file(size_bytes=RunFile.MOST_BYTES), user)


def test_a_person_waits_for_so_many_copies_at_most(user: User, enqueued: list[RunFile]) -> None:
    run = RunFactory()
    waiting = [
        RunFile(run=run, path=f"{n}", size_bytes=1, requested_at=NOON, asked_by=user)
        for n in range(MOST_WANTED)
    ]
    RunFile.objects.bulk_create(waiting)
    assert not request_copy(file(), user)
    assert not enqueued
    assert request_copy(file(), UserFactory()), "another person does not wait for them"
    RunFile.objects.filter(path="0").update(copied_at=NOON)
    assert request_copy(file(), user)


def test_what_was_removed_by_rule_is_not_fetched(user: User, enqueued: list[RunFile]) -> None:
    row = file()
    job = row.run.job
    about = {"job": job, "attempt": job.attempt, "directory": job.directory, "days": 30}
    assert (find_removal(job), explain_removal(job)) == (None, "")
    removal = Removal.objects.create(**about, chosen_at=NOON, removed_at=NOON, freed_bytes=1)
    assert find_removal(job) == removal
    assert explain_removal(job) == removal.sentence
    assert not request_copy(row, user)
    assert not enqueued
    assert RunFile.objects.get().requested_at is None
    Removal.objects.update(attempt=job.attempt + 1)
    assert request_copy(row, user), "that was another attempt's directory"
