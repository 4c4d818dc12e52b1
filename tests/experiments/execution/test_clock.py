"""The clock: a visit that was asked for too early is asked for again when it may begin."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from experiments import execution
from experiments.execution.lease import LEASE
from experiments.management.commands import clock
from experiments.models import Cluster, RunFile
from tests.factories import ClusterFactory, RunFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def rung(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The clusters that the clock has rung for."""
    found: list[int] = []
    monkeypatch.setattr(clock, "enqueue_tick", found.append)
    return found


def pass_time(cluster: Cluster, **columns: Any) -> None:
    """Let the pause since the last visit be over."""
    ago = timezone.now() - timedelta(hours=1)
    Cluster.objects.filter(pk=cluster.pk).update(**({"last_tick_at": ago} | columns))


@pytest.mark.parametrize("minutes", [None, 10, 120])
def test_a_visit_whose_task_was_lost_is_asked_for_again_within_minutes(
    here: Cluster, rung: list[int], minutes: int | None
) -> None:
    """As by a Valkey that was killed: otherwise it would be an hour late here."""
    last = None if minutes is None else timezone.now() - timedelta(minutes=minutes)
    Cluster.objects.update(poll_seconds=3600, last_tick_at=last)
    enqueued_at = {here.pk: 1000.0}
    clock.enqueue_due(enqueued_at, 1050.0)
    assert rung == [], "a worker may be about to take it"
    clock.enqueue_due(enqueued_at, 1100.0)
    assert rung == ([] if minutes == 10 else [here.pk])
    clock.enqueue_due(enqueued_at, 1101.0)
    assert len(rung) <= 1


def test_a_ring_inside_the_pause_is_not_lost(here: Cluster, rung: list[int]) -> None:
    Cluster.objects.update(poll_seconds=60)
    answered: dict[int, tuple[datetime, float]] = {}
    assert execution.tick(here.pk) == "done"
    clock.enqueue_early(answered, 0.0)
    assert rung == [], "nobody has asked for another"
    assert execution.tick(here.pk) == "early"
    clock.enqueue_early(answered, 0.0)
    assert rung == [], "polite: not before the pause is over"
    pass_time(here)
    clock.enqueue_early(answered, 0.0)
    assert rung == [here.pk]
    assert execution.tick(here.pk) == "done"
    clock.enqueue_early(answered, 0.0)
    assert rung == [here.pk], "what was asked for has been done"


def test_a_ring_during_a_visit_is_not_lost(here: Cluster, rung: list[int]) -> None:
    Cluster.objects.update(lease_token="another", lease_until=timezone.now() + LEASE)
    assert execution.tick(here.pk) == "busy"
    clock.enqueue_early({}, 0.0)
    assert rung == []
    Cluster.objects.update(lease_token="", lease_until=None)
    clock.enqueue_early({}, 0.0)
    assert rung == [here.pk]


def test_it_does_not_fill_the_queue_while_no_worker_comes(here: Cluster, rung: list[int]) -> None:
    Cluster.objects.update(poll_seconds=60)
    answered: dict[int, tuple[datetime, float]] = {}
    execution.tick(here.pk)
    execution.tick(here.pk)
    pass_time(here)
    for _ in range(10):
        clock.enqueue_early(answered, 0.0)
    assert rung == [here.pk]
    assert execution.tick(here.pk) == "done"
    assert execution.tick(here.pk) == "early"
    pass_time(here)
    clock.enqueue_early(answered, 0.0)
    assert rung == [here.pk] * 2


def test_it_asks_again_for_an_early_visit_whose_task_was_lost(
    here: Cluster, rung: list[int]
) -> None:
    """As by a Valkey that was killed: it would wait for an interval of an hour otherwise."""
    Cluster.objects.update(poll_seconds=3600, wanted_at=timezone.now())
    pass_time(here)
    answered: dict[int, tuple[datetime, float]] = {}
    for seconds in (0, 59, 60, 61, 119, 120):
        clock.enqueue_early(answered, 1000.0 + seconds)
    assert rung == [here.pk] * 3


def test_a_back_off_is_kept(here: Cluster, rung: list[int]) -> None:
    later = timezone.now() + timedelta(minutes=5)
    Cluster.objects.update(retry_at=later)
    assert execution.tick(here.pk) == "early"
    pass_time(here)
    clock.enqueue_early({}, 0.0)
    assert rung == []
    Cluster.objects.update(retry_at=None)
    clock.enqueue_early({}, 0.0)
    assert rung == [here.pk]


def test_what_is_switched_off_is_left_alone(rung: list[int]) -> None:
    ClusterFactory(enabled=False, wanted_at=timezone.now())
    clock.enqueue_early({}, 0.0)
    assert rung == []


class TestTasksOfTheBulkQueue:
    """One worker works there for hours at times: what waits for it is not asked for twice."""

    @pytest.fixture
    def waiting(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """The files that the clock asks copies of; thirty are wanted."""
        asked: list[int] = []
        monkeypatch.setattr(clock, "enqueue_copy", lambda row: asked.append(row.pk))
        run = RunFactory()
        now = timezone.now()
        for number in range(30):
            RunFile.objects.create(run=run, path=f"{number}", size_bytes=1, requested_at=now)
        return asked

    def test_pile_up_no_more(self, waiting: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(clock, "is_bulk_free", lambda: False)
        for minute in range(5):
            clock.enqueue_waiting({}, 60.0 * minute)
        assert waiting == []

    def test_are_asked_for_again_where_the_queue_has_lost_them(
        self, waiting: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(clock, "is_bulk_free", lambda: True)
        clock.enqueue_waiting({}, 0.0)
        assert len(set(waiting)) == 30
