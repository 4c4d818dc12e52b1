"""How long visits to a cluster take and how far apart they are, as the page *Operations* says."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from django.utils import timezone

from experiments import execution
from experiments.execution import lifecycle
from experiments.execution.lease import Lease
from experiments.execution.visit_times import LEAST_PAUSE, is_urgent, time_visit
from experiments.models import Cluster
from tests.factories import JobFactory, LaunchedFactory

pytestmark = pytest.mark.django_db


def test_a_visit_says_how_long_it_took_and_how_long_after_the_last_one_it_began(
    here: Cluster,
) -> None:
    assert execution.tick(here.pk) == "done"
    here.refresh_from_db()
    assert here.last_tick_seconds is not None
    assert here.last_tick_seconds > 0
    assert here.last_interval_seconds is None, "there was none before"
    Cluster.objects.update(last_tick_at=timezone.now() - timedelta(minutes=5))
    assert execution.tick(here.pk) == "done"
    here.refresh_from_db()
    assert 300 <= here.last_interval_seconds < 400
    Cluster.objects.update(last_tick_at=timezone.now() - timedelta(minutes=5), lease_token="x")
    Cluster.objects.update(lease_until=timezone.now() + timedelta(hours=1), last_tick_seconds=7)
    assert execution.tick(here.pk) == "busy"
    here.refresh_from_db()
    assert here.last_tick_seconds == 7, "no visit was made"


def test_a_clock_that_was_set_back_gives_no_negative_interval(here: Cluster) -> None:
    future = timezone.now() + timedelta(hours=1)
    before = Cluster(pk=here.pk, last_tick_at=future)
    lease = Lease(here, "token")
    with time_visit(before, lease, timezone.now()):
        pass
    assert lease.at_end["last_interval_seconds"] == 0


def test_a_visit_that_fails_says_how_long_it_took(
    here: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise ValueError("a fault of ours")

    monkeypatch.setattr(sys.modules["experiments.execution.tick"], "_visit", fail)
    with pytest.raises(ValueError, match="of ours"):
        execution.tick(here.pk)
    here.refresh_from_db()
    assert here.last_tick_seconds is not None


def test_a_visit_that_begins_while_an_experiment_is_being_cancelled_is_not_the_one_that_ends_it(
    here: Cluster,
) -> None:
    """With thousands of planned jobs that takes seconds, and no visit sees any of it before."""
    launched = LaunchedFactory(cluster=here, partition=None)
    JobFactory(experiment=launched, state="running", scheduler_id="1-1")
    real = lifecycle.move_all

    def begin_a_visit_meanwhile(*args: Any, **options: Any) -> int:
        Cluster.objects.update(last_tick_at=timezone.now())
        return real(*args, **options)

    with mock.patch.object(lifecycle, "move_all", begin_a_visit_meanwhile):
        lifecycle.cancel(launched, launched.owner)
    here.refresh_from_db()
    assert is_urgent(here, timezone.now() + LEAST_PAUSE)
