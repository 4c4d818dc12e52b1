"""Pinned files stay on the cluster: who pinned them is told, and what removes them ends."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.execution import pins
from experiments.models import AuditEntry, Experiment, Job, Operation, Removal, User
from tests.factories import NOON, JobFactory, OperationFactory, UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def job() -> Job:
    made: Job = JobFactory()
    return made


@pytest.fixture
def user() -> User:
    made: User = UserFactory(username="ada")
    return made


def removing(job: Job, **columns: Any) -> Operation:
    """Make an operation that removes the directory of a job."""
    operation: Operation = OperationFactory(kind="clean_up", staged_image__cluster=job.cluster)
    about = {"job": job, "attempt": job.attempt, "directory": job.directory, "days": 30}
    Removal.objects.create(operation=operation, chosen_at=NOON, **about | columns)
    return operation


def is_asked_to_end(operation: Operation) -> bool:
    return Operation.objects.get(pk=operation.pk).cancel_requested_at is not None


def test_pinning_and_unpinning_are_told_with_who_did_it_once(job: Job, user: User) -> None:
    made = job.experiment
    for _ in range(2):
        assert pins.pin(made, user) == 0
    assert made.pinned_at
    assert Experiment.objects.get().pinned_at == made.pinned_at
    for _ in range(2):
        pins.unpin(made, user)
    assert made.pinned_at is None
    assert Experiment.objects.get().pinned_at is None
    events = made.events.order_by("pk").values_list("what", "actor__username")
    assert list(events) == [("files pinned", "ada"), ("files unpinned", "ada")]
    entries = AuditEntry.objects.filter(kind="experiment").order_by("pk")
    assert [(entry.what, entry.actor) for entry in entries] == [
        ("files pinned", user),
        ("files unpinned", user),
    ]


def test_what_removes_its_files_is_asked_to_end_and_counted(job: Job, user: User) -> None:
    operation = removing(job)
    of_another = removing(JobFactory())
    assert pins.pin(job.experiment, user) == 1
    assert is_asked_to_end(operation)
    assert not is_asked_to_end(of_another)


def test_what_is_removed_already_is_not_counted(job: Job, user: User) -> None:
    operation = removing(job, removed_at=NOON)
    assert pins.pin(job.experiment, user) == 0
    assert not is_asked_to_end(operation)
