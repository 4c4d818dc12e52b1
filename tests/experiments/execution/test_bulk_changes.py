"""One action on many experiments: each by its own rights, and none stops the others."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from django.utils import timezone

from experiments.execution import bulk_changes, labels, lifecycle
from experiments.execution.bulk_changes import Outcome
from experiments.models import Experiment, User
from experiments.models.experiment import ExperimentQuerySet
from tests.factories import ExperimentFactory, LaunchedFactory, RunFactory, UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner() -> User:
    made: User = UserFactory()
    return made


@pytest.fixture
def visited(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The clusters for which a visit was asked for."""
    keys: list[int] = []
    monkeypatch.setattr(bulk_changes, "enqueue_tick", keys.append)
    return keys


def alive(owner: User, **columns: object) -> Experiment:
    """Make a launched experiment with a run that has not ended."""
    made: Experiment = LaunchedFactory(owner=owner, **columns)
    RunFactory(job__experiment=made, job__state="planned", state="planned")
    return made


def keys_of(*rows: Experiment) -> list[int]:
    return [row.pk for row in rows]


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (Outcome(), "Archived 0 experiments."),
        (Outcome(done=1), "Archived 1 experiment."),
        (Outcome(done=3, unchanged=1), "Archived 3 experiments. 1 already archived."),
        (Outcome(done=2, forbidden=1), "Archived 2 experiments. 1 not: not yours to change."),
        (Outcome(done=2, missing=4), "Archived 2 experiments. 4 not: not there any more."),
        (
            Outcome(failed=1, missing=2),
            "Archived 0 experiments. 2 not: not there any more. 1 not: an error, which is in the"
            " server’s log.",
        ),
    ],
)
def test_what_happened_is_said_with_what_did_not(outcome: Outcome, text: str) -> None:
    assert outcome.describe("Archived", "already archived") == text


def test_each_is_archived_and_restored_by_the_rights_of_who_asks(owner: User) -> None:
    own, archived = ExperimentFactory(owner=owner), ExperimentFactory(owner=owner)
    Experiment.objects.filter(pk=archived.pk).update(archived_at=timezone.now())
    others = ExperimentFactory(visibility="members")
    hidden = ExperimentFactory(visibility="private")
    keys = [*keys_of(own, archived, others, hidden), 0]
    outcome = bulk_changes.archive(keys, owner)
    assert outcome == Outcome(done=1, unchanged=1, forbidden=1, missing=2)
    put_away = Experiment.objects.exclude(archived_at=None)
    assert set(put_away) == {own, archived}
    assert bulk_changes.restore(keys_of(own, others), owner) == Outcome(done=1, forbidden=1)
    assert set(put_away.all()) == {archived}


def test_portions_add_up_and_one_that_fails_stops_no_other(
    owner: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bulk_changes, "PORTION", 2)
    rows = [ExperimentFactory(owner=owner) for _ in range(5)]
    changed: list[list[int]] = []

    def fail_once(portion: ExperimentQuerySet, by: User) -> int:
        changed.append(list(portion.order_by("pk").values_list("pk", flat=True)))
        if len(changed) == 2:
            raise ZeroDivisionError
        return labels.add_tags(portion, by, ["paper"])

    with caplog.at_level(logging.ERROR):
        outcome = bulk_changes.change_labels(keys_of(*rows), owner, fail_once)
    assert outcome == Outcome(done=3, failed=2)
    assert changed == [keys_of(*rows[:2]), keys_of(*rows[2:4]), keys_of(rows[4])]
    assert "The labels of 2 experiments could not be changed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_what_is_alive_is_cancelled_and_its_clusters_are_visited_once(
    owner: User, visited: list[int]
) -> None:
    first = alive(owner)
    second = alive(owner, cluster=first.cluster)
    third = alive(owner)
    draft = ExperimentFactory(owner=owner)
    ended = LaunchedFactory(owner=owner)
    RunFactory(job__experiment=ended)
    stopped = alive(owner)
    Experiment.objects.filter(pk=stopped.pk).update(cancelled_at=timezone.now())
    others = alive(UserFactory(), visibility="members")
    keys = [*keys_of(third, second, first, draft, ended, stopped, others), 0]
    outcome = bulk_changes.cancel(keys, owner)
    assert outcome == Outcome(done=3, unchanged=3, forbidden=1, missing=1)
    for row in (first, second, third):
        assert row.events.get(what="cancelled").actor == owner
        assert set(row.jobs.values_list("state", flat=True)) == {"cancelled"}
    assert set(others.jobs.values_list("state", flat=True)) == {"planned"}
    assert visited == sorted({first.cluster_id, third.cluster_id})


def test_one_that_cannot_be_cancelled_stops_no_other(
    owner: User,
    visited: list[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(bulk_changes, "PORTION", 1)
    rows = [alive(owner) for _ in range(3)]
    real: Callable[[Experiment, User], object] = lifecycle.cancel

    def cancel(row: Experiment, by: User) -> None:
        if row.pk == rows[1].pk:
            raise ZeroDivisionError
        real(row, by)

    monkeypatch.setattr(lifecycle, "cancel", cancel)
    assert bulk_changes.cancel(keys_of(*rows), owner) == Outcome(done=2, failed=1)
    assert visited == [rows[0].cluster_id, rows[2].cluster_id]
    assert f"Experiment {rows[1].pk} could not be cancelled" in caplog.text
    assert [row.jobs.get().state for row in rows] == ["cancelled", "planned", "cancelled"]
