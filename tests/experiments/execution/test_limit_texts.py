"""What pages say of a cluster's limits, and of a planned experiment that would meet one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from experiments.execution.gpu_hours import GPUUse, find_month
from experiments.execution.limits import (
    CONNECTIONS,
    SUBMISSIONS,
    compute_allowance,
    describe_limits,
    describe_use,
    find_holds,
    list_uses,
    note_submissions,
    warn_of_gpu_hours,
)
from experiments.models import Cluster, ClusterUse, GPUMonth, Job
from tests.factories import ClusterFactory, JobFactory, LaunchedFactory

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def use(cluster: Cluster, kind: str, ago: timedelta, count: int = 1) -> None:
    ClusterUse.objects.create(cluster=cluster, kind=kind, at=NOON - ago, count=count)


@pytest.mark.django_db
def test_limits_that_are_set_are_told_with_what_is_used_of_them() -> None:
    cluster = ClusterFactory()
    assert describe_limits(cluster, NOON) == []
    cluster.max_submissions_per_minute = 3
    cluster.max_connections_per_hour = 60
    cluster.max_gpu_hours_per_month = 100
    use(cluster, SUBMISSIONS, 59 * timedelta(seconds=1), 2)
    use(cluster, SUBMISSIONS, 2 * MINUTE, 7)
    use(cluster, CONNECTIONS, 59 * MINUTE)
    use(cluster, CONNECTIONS, 61 * MINUTE)
    use(ClusterFactory(), CONNECTIONS, MINUTE)
    GPUMonth.objects.create(cluster=cluster, month=find_month(NOON), gpu_seconds=9000)
    for _ in range(2):
        JobFactory(experiment__cluster=cluster, state="running", gpu_seconds=3600)
    assert describe_limits(cluster, NOON) == [
        ("Submissions", "at most 3 a minute; 2 in the last one"),
        ("Connections", "at most 60 an hour; 1 in the last one"),
        (
            "GPU-hours",
            "at most 100 a month; 2.5 are used in November, 2.0 kept for 2 live jobs; the month "
            "ends at 2026-12-01 00:00 UTC",
        ),
    ]


def test_gpu_hours_are_told_with_what_live_jobs_may_still_take() -> None:
    assert describe_use(GPUUse(used=5400), NOON) == "1.5 are used in November"
    assert describe_use(GPUUse(kept=3600, live=1), NOON) == (
        "0.0 are used in November, 1.0 kept for 1 live job"
    )


@pytest.mark.django_db
def test_what_is_used_counts_from_its_window_alone_the_oldest_first() -> None:
    cluster = ClusterFactory()
    for ago in (MINUTE, timedelta(seconds=10), timedelta(seconds=59), -MINUTE):
        use(cluster, SUBMISSIONS, ago, count=1 + int(ago.total_seconds()) % 7)
    use(cluster, CONNECTIONS, timedelta(seconds=1))
    uses = list_uses(cluster.pk, SUBMISSIONS, NOON)
    assert [NOON - at for at, _ in uses] == [timedelta(seconds=59), timedelta(seconds=10)]
    assert [count for _, count in uses] == [1 + 59 % 7, 1 + 10 % 7]
    assert compute_allowance([], 3, SUBMISSIONS).more_at is None
    assert compute_allowance(uses, 9, SUBMISSIONS).used == 8


@pytest.mark.django_db
def test_submissions_are_counted_where_they_are_limited() -> None:
    free, limited = ClusterFactory(), ClusterFactory(max_submissions_per_minute=0)
    note_submissions(free, 3)
    note_submissions(limited, 0)
    assert not ClusterUse.objects.exists()
    note_submissions(limited, 3)
    stored = ClusterUse.objects.get()
    assert (stored.cluster, stored.kind, stored.count) == (limited, SUBMISSIONS, 3)


def planned(cluster: Cluster, **columns: Any) -> Job:
    made: Job = JobFactory(
        experiment=LaunchedFactory(cluster=cluster), state="planned", gpu_seconds=7200
    )
    Job.objects.filter(pk=made.pk).update(**columns)
    return made


@pytest.mark.django_db
def test_a_limit_holds_back_one_experiment_and_not_another() -> None:
    cluster = ClusterFactory(name="far", max_gpu_hours_per_month=2)
    small, large = planned(cluster), planned(cluster, gpu_seconds=7201)
    assert find_holds([cluster], NOON)[cluster.pk] == [], "the smaller one may be sent"
    of_small = find_holds([cluster], NOON, experiment=small.experiment_id)
    assert of_small == {cluster.pk: []}
    (hold,) = find_holds([cluster], NOON, experiment=large.experiment_id)[cluster.pk]
    assert (hold.kind, hold.goes_on_at) == ("GPU-hours", None)
    assert hold.text == (
        "far has 2 GPU-hours a month for Tare, and the smallest of these jobs may take 2.0: "
        "somebody has to raise the limit, or cancel them"
    )
    Job.objects.filter(pk=small.pk).update(gpu_seconds=0)
    GPUMonth.objects.create(cluster=cluster, month=find_month(NOON), gpu_seconds=90_000)
    assert find_holds([cluster], NOON)[cluster.pk] == [], "one without a GPU may be sent"


@pytest.mark.django_db
def test_what_waits_for_a_person_is_held_by_no_limit() -> None:
    cluster = ClusterFactory(max_submissions_per_minute=0)
    use(cluster, SUBMISSIONS, timedelta(seconds=1))
    job = planned(cluster)
    (hold,) = find_holds([cluster], NOON)[cluster.pk]
    assert hold.kind == "submissions"
    for column in ("paused_at", "cancelled_at"):
        type(job.experiment).objects.update(**{"paused_at": None, column: NOON})
        assert find_holds([cluster], NOON) == {cluster.pk: []}


@pytest.mark.django_db
def test_a_planned_experiment_is_told_exactly_what_does_not_fit() -> None:
    now = timezone.now()
    cluster = ClusterFactory(name="far", max_gpu_hours_per_month=1)

    def warn(**hours: float) -> str:
        return warn_of_gpu_hours(cluster, now=now, **{"longest": 0.5, **hours})

    assert warn(gpu_hours=1.0) == ""
    assert warn(gpu_hours=0.0, longest=9.0) == "", "it takes no GPU"
    assert warn(gpu_hours=2.0, longest=1.0).startswith("far has 1.0 of 1 GPU-hour left")
    assert warn(gpu_hours=2.0, longest=1.5) == (
        "Its largest job may take 1.5 GPU-hours, more than the 1 that far has a month for Tare: "
        "it would never be sent."
    )
    next_month = (now.replace(day=1) + timedelta(days=32)).strftime("%Y-%m")
    end = (
        " does not fit waits until jobs have ended, or for the next month, which begins at "
        f"{next_month}-01 00:00 UTC."
    )
    assert warn(gpu_hours=1.1) == f"far has 1.0 of 1 GPU-hour left in {now:%B}: what{end}"
    assert warn(gpu_hours=1.0, further=0.1) == (
        f"far has 1.0 of 1 GPU-hour left in {now:%B}: where rules reject runs, what{end}"
    )
    GPUMonth.objects.create(cluster=cluster, month=find_month(now), gpu_seconds=9000)
    assert warn(gpu_hours=0.5).startswith("far has 0.0 of 1 GPU-hour left"), "never less"
