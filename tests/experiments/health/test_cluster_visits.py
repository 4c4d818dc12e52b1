"""What is said of the visits to clusters, the worst first, with few statements for many."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from experiments.execution.holder import make_token
from experiments.execution.lease import LEASE
from experiments.health import cluster_visits
from experiments.health.cluster_visits import ClusterVisits, list_cluster_visits
from experiments.health.status_report import read_report
from experiments.models import Cluster, Job, Pause
from tests.experiments.health.conftest import MakeSign
from tests.factories import ClusterFactory, JobFactory, LaunchedFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def now() -> datetime:
    return timezone.now()


def visit(now: datetime, **columns: Any) -> ClusterVisits:
    """Return what is said of one cluster that was visited a moment ago."""
    row = ClusterFactory(
        **{"last_tick_at": now - timedelta(seconds=1), "poll_seconds": 5} | columns
    )
    (shown,) = [each for each in list_cluster_visits(now) if each.cluster.pk == row.pk]
    return shown


def test_one_that_is_visited_in_time(now: datetime) -> None:
    shown = visit(now, last_tick_seconds=0.3, last_interval_seconds=61.0)
    assert (shown.state, shown.mark) == ("on time", "yes")
    assert (shown.took_seconds, shown.interval_seconds) == (0.3, 61.0)
    assert shown.setting_seconds == 60, "it is idle"
    assert shown.due_at == now + timedelta(seconds=59)


def test_one_with_jobs_is_due_as_often_as_it_is_set(now: datetime) -> None:
    cluster = ClusterFactory(last_tick_at=now, poll_seconds=5)
    experiment = LaunchedFactory(cluster=cluster)
    JobFactory(experiment=experiment, state=Job.State.RUNNING)
    JobFactory(experiment=experiment, state=Job.State.PLANNED)
    JobFactory(experiment=experiment, state=Job.State.DONE)
    shown = list_cluster_visits(now)[0]
    assert (shown.live, shown.waiting, shown.setting_seconds) == (1, 1, 5)


def test_one_whose_time_has_come_is_due(now: datetime) -> None:
    """Before it is called late: workers may be busy."""
    shown = visit(now, last_tick_at=now - timedelta(seconds=61))
    assert (shown.state, shown.mark) == ("due", "yes")


def test_one_that_nobody_visits_is_late(now: datetime) -> None:
    shown = visit(now, last_tick_at=now - timedelta(hours=1))
    assert (shown.state, shown.late_seconds) == ("late", 3600 - 60)


def test_one_that_backs_off_says_why_and_is_not_late(now: datetime) -> None:
    shown = visit(
        now,
        last_tick_at=now - timedelta(minutes=2),
        failures=7,
        last_error="Nobody listens",
        last_error_kind="not reachable",
        retry_at=now + timedelta(minutes=3),
    )
    assert (shown.state, shown.due_at) == ("not reachable", now + timedelta(minutes=3))


def test_says_who_visits_it(now: datetime, sign: MakeSign) -> None:
    worker = sign()
    ClusterFactory(lease_token=make_token(), lease_until=now + LEASE)
    (shown,) = list_cluster_visits(now, [worker])
    assert shown.holder == f"worker default on {worker.host} (process {worker.pid})"
    (shown,) = list_cluster_visits(now, [])
    assert shown.holder == "a process that shows no sign of life"
    Cluster.objects.update(lease_until=now - LEASE)
    (shown,) = list_cluster_visits(now, [worker])
    assert shown.holder == ""


def test_jobs_where_nobody_goes_are_the_worst(now: datetime) -> None:
    fine = ClusterFactory(name="a", last_tick_at=now)
    late = ClusterFactory(name="b", last_tick_at=now - timedelta(hours=1))
    later = ClusterFactory(name="c", last_tick_at=now - timedelta(hours=2))
    off = ClusterFactory(name="d", enabled=False)
    JobFactory(experiment=LaunchedFactory(cluster=off), state=Job.State.QUEUED)
    paused = ClusterFactory(name="e", last_tick_at=now)
    Pause.objects.create(cluster=paused, kind="disk full", message="", since=now, retry_at=now)
    ClusterFactory(name="f", recorded=True, enabled=False)  # from logs: nobody ever goes there
    unused = ClusterFactory(name="g", enabled=False)
    shown = list_cluster_visits(now)
    assert [row.cluster for row in shown] == [off, later, late, paused, fine, unused]
    assert [row.state for row in shown] == [
        *("off, with jobs", "late", "late", "paused", "on time", "off")
    ]


@given(
    seconds=st.floats(),
    took=st.one_of(st.none(), st.floats()),
    ago=st.integers(-(10**9), 10**9),
)
def test_odd_numbers_and_times_break_nothing(seconds: float, took: float | None, ago: int) -> None:
    now = timezone.now()
    row = Cluster(
        name="odd",
        poll_seconds=seconds,
        last_tick_seconds=took,
        last_interval_seconds=took,
        last_tick_at=now - timedelta(seconds=ago),
    )

    shown = cluster_visits._make(row, now, [], 1, 1, 0)
    assert shown.state
    assert shown.late_seconds >= 0


def test_an_interval_that_is_no_number_is_said(now: datetime) -> None:
    assert visit(now, poll_seconds=float("nan")).state == "interval is no number"


def add_jobs(clusters: int, jobs: int) -> None:
    for _ in range(clusters):
        experiment = LaunchedFactory(cluster=ClusterFactory(last_tick_at=timezone.now()))
        like = JobFactory(experiment=experiment, state=Job.State.RUNNING)
        Job.objects.bulk_create(
            Job(
                experiment=experiment,
                cluster=experiment.cluster,
                workload=like.workload,
                scale="1x1",
                repeat=number,
                block=number,
                state=Job.State.RUNNING,
                scheduler_id=str(number),
            )
            for number in range(jobs - 1)
        )


def test_many_clusters_and_jobs_take_few_statements(
    all_run: None, django_assert_max_num_queries: Any
) -> None:
    add_jobs(clusters=50, jobs=100)
    with django_assert_max_num_queries(24):
        report = read_report()
    assert len(report.visits) == 50
    assert sum(row.live for row in report.visits) == 5000
