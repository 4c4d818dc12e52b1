"""When a visit that does not begin is late, and since when: what pages say of clusters."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from experiments.execution.overdue_visits import (
    compute_due,
    find_overdue,
    find_overdue_of_clusters,
    find_overdue_visit,
    is_late,
)
from experiments.models import Cluster, Event
from experiments.models.cluster import LONGEST_BACK_OFF
from tests.factories import NOON, ClusterFactory, LaunchedFactory

SECOND = timedelta(seconds=1)


def visited(**columns: Any) -> Cluster:
    """Return a cluster that was visited at noon, not stored."""
    return Cluster(**{"last_tick_at": NOON, "poll_seconds": 20, "transport": "local"} | columns)


@pytest.mark.parametrize(
    ("columns", "interval", "due"),
    [
        ({}, 10.0, 10),
        ({"last_tick_seconds": 9.0}, 10.0, 10),
        ({"last_tick_seconds": 11.0}, 10.0, 11),
        ({"retry_at": NOON + 5 * SECOND}, 10.0, 10),
        ({"retry_at": NOON + 15 * SECOND}, 10.0, 15),
        ({"retry_at": NOON + 15 * SECOND}, None, 15),
        ({"retry_at": NOON + 15 * SECOND, "last_tick_at": None}, 10.0, 15),
        ({"retry_at": NOON + 15 * SECOND}, float("inf"), 15),
        ({"retry_at": NOON + 15 * SECOND}, float("nan"), 15),
        ({}, None, None),
        ({"last_tick_at": None}, 10.0, None),
    ],
)
def test_the_next_visit_is_due_after_the_interval_the_last_one_and_the_back_off(
    columns: dict[str, Any], interval: float | None, due: int | None
) -> None:
    expected = None if due is None else NOON + due * SECOND
    assert compute_due(visited(**columns), interval) == expected


@pytest.mark.parametrize(
    ("late", "setting", "answer"),
    [(30.0, 5, False), (30.1, 5, True), (40.0, 20, False), (40.1, 20, True), (31.0, 20, False)],
)
def test_busy_workers_alone_make_no_visit_late(late: float, setting: float, answer: bool) -> None:
    assert is_late(late, setting) is answer


def test_a_visit_is_late_since_it_was_due() -> None:
    cluster = visited()
    due = NOON + 20 * SECOND
    assert find_overdue(cluster, due + 40 * SECOND, is_followed=True) is None
    assert find_overdue(cluster, due + 41 * SECOND, is_followed=True) == due


def test_where_nothing_is_followed_visits_are_further_apart() -> None:
    cluster = visited()
    assert cluster.idle_seconds == 60
    due = NOON + 60 * SECOND
    assert find_overdue(cluster, due + 120 * SECOND, is_followed=False) is None
    assert find_overdue(cluster, due + 121 * SECOND, is_followed=False) == due


def test_a_click_of_later_is_not_waited_for_before_it() -> None:
    cluster = visited()
    asked_at = NOON + 300 * SECOND
    assert find_overdue(cluster, asked_at, is_followed=True, asked_at=asked_at) is None
    later = asked_at + 41 * SECOND
    assert find_overdue(cluster, later, is_followed=True, asked_at=asked_at) == asked_at
    never = visited(last_tick_at=None)
    assert find_overdue(never, later, is_followed=True, asked_at=asked_at) == asked_at
    assert find_overdue(never, later, is_followed=True) is None


@pytest.mark.parametrize(
    "columns",
    [
        {"enabled": False},
        {"preparing": True},
        {"lease_until": NOON + 301 * SECOND},
        {"retry_at": NOON + 301 * SECOND + LONGEST_BACK_OFF},
        {"retry_at": NOON + 290 * SECOND},
    ],
)
def test_nothing_is_late_where_nobody_is_to_come_or_somebody_is_there(
    columns: dict[str, Any],
) -> None:
    now = NOON + 300 * SECOND
    assert find_overdue(visited(), now, is_followed=True)
    assert find_overdue(visited(**columns), now, is_followed=True) is None


def test_a_lease_that_has_expired_and_a_back_off_that_is_over_excuse_nobody() -> None:
    now = NOON + 300 * SECOND
    left = visited(lease_until=now)
    assert find_overdue(left, now, is_followed=True) == NOON + 20 * SECOND
    tried = visited(retry_at=NOON + 200 * SECOND)
    assert find_overdue(tried, now, is_followed=True) == NOON + 200 * SECOND


@pytest.mark.django_db
def test_an_experiment_waits_since_its_last_event_at_the_earliest() -> None:
    made = LaunchedFactory(cluster__last_tick_at=NOON, cluster__poll_seconds=20)
    launched = made.launched_at
    assert launched == NOON
    assert find_overdue_visit(made, NOON + 61 * SECOND) == NOON + 20 * SECOND
    for minutes in (9, 2):
        event = Event.objects.create(experiment=made, what="planned → submitting")
        Event.objects.filter(pk=event.pk).update(at=NOON + minutes * 60 * SECOND)
    newest = NOON + 540 * SECOND
    assert find_overdue_visit(made, newest + 40 * SECOND) is None
    assert find_overdue_visit(made, newest + 41 * SECOND) == newest


@pytest.mark.django_db
def test_of_many_clusters_those_with_a_late_visit_are_named() -> None:
    now = timezone.now()
    ago = now - 100 * SECOND
    late, idle, fresh = (
        ClusterFactory(poll_seconds=5, last_tick_at=at) for at in (ago, ago, now - SECOND)
    )
    rows = list(Cluster.objects.all())
    since = find_overdue_of_clusters(rows, followed={late.pk, fresh.pk})
    assert since == {late.pk: ago + 5 * SECOND}, "an idle one is visited each minute"
    assert idle.pk not in since
