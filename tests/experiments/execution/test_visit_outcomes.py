"""What a cluster's page says after a visit that failed, and when the next one may begin."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest
from django.utils import timezone

from experiments.execution.limits import LimitReached
from experiments.execution.own_failures import Failure
from experiments.execution.visit_outcomes import back_off, back_off_from, wait_for_limit
from experiments.models import Cluster
from experiments.models.cluster import CONNECTION_LIMIT
from experiments.models.database_time import database_now
from runners.errors import TryAgain
from tests.factories import ClusterFactory

pytestmark = pytest.mark.django_db


def pause_after(failures: int, *, poll_seconds: int = 10) -> float:
    """Return how many seconds the next visit waits, after so many that failed before this one."""
    cluster = ClusterFactory(failures=failures, poll_seconds=poll_seconds)
    other = ClusterFactory()
    now = database_now()
    back_off(cluster, TryAgain("nobody there", kind="unreachable"))
    cluster.refresh_from_db()
    other.refresh_from_db()
    assert (other.failures, other.retry_at, other.last_error) == (0, None, "")
    assert cluster.failures == failures + 1
    assert cluster.retry_at
    return (cluster.retry_at - now).total_seconds()


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 10), (1, 20), (2, 40), (4, 160), (5, 300), (5000, 300)]
)
def test_each_visit_that_fails_doubles_the_pause_up_to_minutes(failures: int, seconds: int) -> None:
    assert pause_after(failures) == pytest.approx(seconds, abs=0.5)


def test_a_cluster_that_is_visited_each_day_is_tried_again_within_minutes() -> None:
    assert pause_after(0, poll_seconds=86_400) == pytest.approx(300, abs=0.5)


def test_the_error_is_on_the_page_and_in_the_log_without_odd_characters(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = ClusterFactory(name="far")
    with caplog.at_level(logging.WARNING):
        back_off(cluster, TryAgain("no\x00 route" + "x" * 3000, kind="unreachable"))
    cluster.refresh_from_db()
    assert cluster.last_error.startswith("no")
    assert "\x00" not in cluster.last_error
    assert len(cluster.last_error) == 2000
    assert cluster.last_error_kind == "unreachable"
    (record,) = caplog.records
    assert record.getMessage().startswith("far: no")
    assert record.getMessage().endswith("x (unreachable)")


def test_a_failure_of_tares_own_has_its_details_for_administrators() -> None:
    before = database_now()
    cluster = ClusterFactory(own_failure="an older one")
    back_off_from(cluster, Failure("Tare itself failed.", "KeyError: 'a'"))
    cluster.refresh_from_db()
    assert (cluster.last_error, cluster.last_error_kind) == (
        "Tare itself failed.",
        "Tare itself failed",
    )
    assert (cluster.failures, cluster.own_failure) == (1, "")
    assert cluster.own_failure_details == "KeyError: 'a'"
    assert cluster.own_failed_at
    assert before - timedelta(seconds=1) <= cluster.own_failed_at <= timezone.now()


@pytest.mark.parametrize(("minutes", "waits"), [(2, 2), (60, 5)])
def test_a_limit_is_waited_for_and_looked_at_again_within_minutes(minutes: int, waits: int) -> None:
    cluster: Cluster = ClusterFactory(failures=3)
    now = database_now()
    wait_for_limit(cluster, LimitReached("far takes 2.", now + timedelta(minutes=minutes)))
    cluster.refresh_from_db()
    assert (cluster.last_error, cluster.last_error_kind) == ("far takes 2.", CONNECTION_LIMIT)
    assert cluster.failures == 0
    assert cluster.retry_at
    assert (cluster.retry_at - now).total_seconds() == pytest.approx(60 * waits, abs=0.5)
