"""How long visits to a cluster take and how far apart they are, as the page *Operations* says."""

from __future__ import annotations

import sys
from datetime import timedelta

import pytest
from django.utils import timezone

from experiments import execution
from experiments.execution.lease import Lease
from experiments.execution.visit_times import time_visit
from experiments.models import Cluster

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
    with time_visit(before, lease):
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
