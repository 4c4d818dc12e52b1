"""What has ended since a person came last: whose, when, in which order, and how many of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from experiments.execution.ended_since import list_ended_since
from experiments.models import Event, Experiment, Run, User
from tests.factories import NOON, LaunchedFactory, RunFactory, UserFactory

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def user() -> User:
    made: User = UserFactory()
    return made


def end(
    owner: User, hours: float, *, what: str = "collecting → done", **columns: Any
) -> Experiment:
    """Make an experiment whose last job ended so many hours after noon."""
    made: Experiment = LaunchedFactory(owner=owner, visibility="members", **columns)
    run = RunFactory(job__experiment=made)
    add_event(run, hours, what=what)
    return made


def add_event(run: Run, hours: float, *, what: str, of_run: bool = False) -> None:
    event = Event.objects.create(
        experiment=run.experiment, job=run.job, run=run if of_run else None, what=what
    )
    Event.objects.filter(pk=event.pk).update(at=NOON + hours * HOUR)


def test_what_ended_later_than_the_moment_is_listed_with_its_time(user: User) -> None:
    later = end(user, 2)
    end(user, 1)
    (row,) = list_ended_since(user, NOON + HOUR, 10)
    assert row == later
    assert row.ended_at == NOON + 2 * HOUR  # type: ignore[attr-defined]
    assert row.get_deferred_fields() == {"plan"}


@pytest.mark.parametrize("what", ["collecting → failed", "planned → cancelled", "failed → done"])
def test_every_end_of_a_job_is_one(user: User, what: str) -> None:
    row = end(user, 2, what=what)
    assert list_ended_since(user, NOON, 10) == [row]


def test_the_last_end_of_a_job_counts_and_nothing_else(user: User) -> None:
    row = end(user, 2)
    run = row.runs.get()
    add_event(run, 3, what="failed → done")
    add_event(run, 5, what="running → collecting")
    add_event(run, 6, what="running → failed", of_run=True)
    Event.objects.filter(pk=Event.objects.create(experiment=row, what="a → done").pk).update(
        at=NOON + 7 * HOUR
    )
    (listed,) = list_ended_since(user, NOON, 10)
    assert listed.ended_at == NOON + 3 * HOUR  # type: ignore[attr-defined]


def test_ones_own_come_first_and_the_newest_of_each(user: User) -> None:
    mine = [end(user, hours) for hours in (1, 3)]
    others = [end(UserFactory(), hours) for hours in (2, 4)]
    listed = list_ended_since(user, NOON, 10)
    assert listed == [mine[1], mine[0], others[1], others[0]]
    assert list_ended_since(user, NOON, 3) == listed[:3]


def test_of_those_that_ended_at_once_the_later_one_comes_first(user: User) -> None:
    first, second = end(user, 1), end(user, 1)
    assert list_ended_since(user, NOON, 10) == [second, first]


def test_what_lives_is_archived_or_hidden_is_not_listed(user: User) -> None:
    lives = end(user, 2)
    RunFactory(job__experiment=lives, state="running")
    end(user, 2, archived_at=NOON)
    hidden = end(UserFactory(), 2)
    Experiment.objects.filter(pk=hidden.pk).update(visibility="private")
    not_launched = end(user, 2)
    unfrozen = {"launched_at": None, "plan_hash": "", "order_seed": None}
    Experiment.objects.filter(pk=not_launched.pk).update(**unfrozen)
    assert list_ended_since(user, NOON, 10) == []
