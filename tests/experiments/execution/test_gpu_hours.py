"""GPU-hours of a month: counted when jobs end, kept for live ones, and never promised twice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from experiments import execution
from experiments.execution import gpu_hours, lifecycle
from experiments.execution.gpu_hours import (
    GPUUse,
    find_next_month,
    read_gpu_use,
    split_by_month,
)
from experiments.execution.limits import (
    SUBMISSIONS,
    find_gpu_seconds_left,
    find_holds,
    note_use,
    warn_of_gpu_hours,
)
from experiments.execution.moves import Move, move, move_each
from experiments.execution.sending import cut_to_gpu_seconds
from experiments.models import Cluster, Experiment, GPUMonth, Job, Workload
from tests.experiments.execution.test_limits import taking_all
from tests.factories import ClusterFactory, ExperimentFactory, JobFactory, LaunchedFactory

Make = Callable[..., Experiment]
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
MOMENTS = st.datetimes(datetime(2024, 1, 1), datetime(2027, 12, 31), timezones=st.just(UTC))


@given(began=MOMENTS, seconds=st.floats(0, 10**7))
def test_months_share_the_whole_time_of_a_job(began: datetime, seconds: float) -> None:
    ended = began + timedelta(seconds=seconds)
    parts = list(split_by_month(began, ended))
    assert sum(part for _, part in parts) == pytest.approx((ended - began).total_seconds())
    months = [month for month, _ in parts]
    assert months == sorted(set(months))
    assert all(month.day == 1 for month in months)


def test_the_next_month_begins_at_midnight_in_utc() -> None:
    assert find_next_month(datetime(2026, 12, 31, 23, 59, tzinfo=UTC)) == datetime(
        2027, 1, 1, tzinfo=UTC
    )
    assert find_next_month(datetime(2026, 1, 31, tzinfo=UTC)) == datetime(2026, 2, 1, tzinfo=UTC)


@pytest.mark.django_db
class TestGPUTime:
    def job(self, **columns: Any) -> Job:
        """Return a job of four GPUs and an hour at most that is being collected."""
        known = {"state": "collecting", "scale": "2x2", "gpu_seconds": 4 * 3600}
        made: Job = JobFactory(**known | columns)
        return made

    def used(self, job: Job) -> dict[str, float]:
        rows = GPUMonth.objects.filter(cluster=job.cluster_id)
        return {f"{row.month:%Y-%m}": row.gpu_seconds for row in rows}

    def test_is_counted_when_a_job_ends_once_for_each_attempt(self) -> None:
        job = self.job(started_at=NOON, gone_at=NOON + 10 * MINUTE)
        assert move(job, Job.State.FAILED, ended_at=NOON + 9 * MINUTE)
        assert self.used(job) == {"2026-11": 4 * 540}
        assert move(job, Job.State.PLANNED, started_at=None, gone_at=None, ended_at=None)
        assert self.used(job) == {"2026-11": 4 * 540}
        Job.objects.update(state="collecting", started_at=NOON, gone_at=NOON + MINUTE)
        job.refresh_from_db()
        again = Job.objects.get(pk=job.pk)
        assert move(job, Job.State.DONE, ended_at=NOON + MINUTE)
        assert not move(again, Job.State.DONE, ended_at=NOON + MINUTE), "another was faster"
        assert self.used(job) == {"2026-11": 4 * 600}

    def test_of_a_portion_is_counted_together(self) -> None:
        cluster = ClusterFactory()
        times = {"started_at": NOON, "gone_at": NOON + MINUTE, "cluster": cluster}
        jobs = [self.job(**times) for _ in range(3)]
        jobs.append(self.job(gpu_seconds=0, scale="1x0", **times))
        moves = [Move(job, columns={"ended_at": NOON + MINUTE}) for job in jobs]
        move_each(moves, "collecting", "done")
        assert self.used(jobs[0]) == {"2026-11": 3 * 4 * 60}

    def test_of_a_job_over_midnight_of_the_last_is_two_months(self) -> None:
        midnight = datetime(2026, 12, 1, tzinfo=UTC)
        job = self.job(started_at=midnight - 10 * MINUTE, gone_at=midnight + 5 * MINUTE)
        move(job, Job.State.DONE, ended_at=midnight + 5 * MINUTE)
        assert self.used(job) == {"2026-11": 4 * 600, "2026-12": 4 * 300}

    def test_of_a_job_that_never_started_is_none(self) -> None:
        job = self.job(started_at=None, gone_at=NOON)
        move(job, Job.State.CANCELLED, ended_at=NOON)
        assert self.used(job) == {}

    @pytest.mark.parametrize("wrong", [timedelta(days=-20_000), -2 * HOUR, 5 * HOUR])
    def test_is_in_the_month_of_tares_clock_whatever_the_nodes_says(self, wrong: timedelta) -> None:
        began = NOON + wrong
        job = self.job(started_at=began, gone_at=NOON)
        move(job, Job.State.DONE, ended_at=began + MINUTE)
        assert self.used(job) == {"2026-11": pytest.approx(4 * 60)}

    def test_is_no_more_than_the_time_limit_though_it_was_noticed_late(self) -> None:
        job = self.job(started_at=NOON, gone_at=NOON + 9 * HOUR)
        move(job, Job.State.FAILED, ended_at=NOON + 9 * HOUR)
        assert self.used(job) == {"2026-11": 4 * 3600}

    def test_of_a_job_without_a_gpu_is_none(self, experiment: Make) -> None:
        made = experiment()
        assert set(made.jobs.values_list("gpu_seconds", flat=True)) == {0}


@pytest.mark.django_db
class TestGPUHoursAMonth:
    @pytest.fixture
    def planned(self, experiment: Make, here: Cluster) -> Experiment:
        """Four jobs of half a GPU-hour at most each."""
        made = experiment(repeats=4)
        Workload.objects.update(time_limit_seconds=870)
        made.jobs.update(scale="1x1", gpu_seconds=1800)
        return made

    def tick(self, made: Experiment, hours: int) -> int:
        """Set the limit, visit, and return how many jobs were sent."""
        Cluster.objects.update(max_gpu_hours_per_month=hours)
        with taking_all() as names:
            execution.tick(made.cluster_id)
        return len(names)

    def test_are_kept_for_what_is_live_and_never_promised_twice(self, planned: Experiment) -> None:
        assert self.tick(planned, 1) == 2
        assert self.tick(planned, 1) == 0
        live = planned.jobs.exclude(state="planned")[0]
        Job.objects.filter(pk=live.pk).update(
            state="collecting", started_at=NOON, gone_at=timezone.now()
        )
        live.refresh_from_db()
        move(live, Job.State.DONE, ended_at=NOON + MINUTE)
        assert self.tick(planned, 1) == 0, "of what was kept for it a minute is used"
        GPUMonth.objects.update(gpu_seconds=0)
        assert self.tick(planned, 1) == 1

    def test_that_were_lowered_below_what_is_used_send_nothing(self, planned: Experiment) -> None:
        month = gpu_hours.find_month(timezone.now())
        GPUMonth.objects.create(cluster=planned.cluster, month=month, gpu_seconds=9 * 3600)
        assert self.tick(planned, 5) == 0
        planned.cluster.refresh_from_db()
        left = find_gpu_seconds_left(planned.cluster)
        assert left == -4 * 3600
        assert self.tick(planned, 10) == 2

    def test_of_another_month_do_not_count(self, planned: Experiment) -> None:
        other = gpu_hours.find_month(timezone.now() - timedelta(days=40))
        GPUMonth.objects.create(cluster=planned.cluster, month=other, gpu_seconds=99 * 3600)
        assert self.tick(planned, 2) == 4

    def test_keep_no_job_without_a_gpu_waiting(self, planned: Experiment) -> None:
        month = gpu_hours.find_month(timezone.now())
        GPUMonth.objects.create(cluster=planned.cluster, month=month, gpu_seconds=9 * 3600)
        without = planned.jobs.order_by("-block")[0]
        Job.objects.filter(pk=without.pk).update(gpu_seconds=0, scale="1x0")
        assert self.tick(planned, 1) == 1
        without.refresh_from_db()
        assert without.state != "planned"

    def test_say_what_is_used_and_when_it_goes_on(self, planned: Experiment) -> None:
        now = timezone.now()
        cluster = planned.cluster
        Cluster.objects.update(max_gpu_hours_per_month=1)
        cluster.refresh_from_db()
        assert find_holds([cluster], now)[cluster.pk] == []
        month = gpu_hours.find_month(now)
        GPUMonth.objects.create(cluster=cluster, month=month, gpu_seconds=2700)
        (hold,) = find_holds([cluster], now)[cluster.pk]
        next_month = find_next_month(now)
        assert hold.goes_on_at == next_month
        assert hold.text == (
            f"here has 1 GPU-hour a month for Tare: 0.8 are used in {now:%B}, and each of these "
            f"jobs may take 0.5 or more; it goes on at {next_month:%Y-%m}-01 00:00 UTC"
        )
        JobFactory(cluster=cluster, state="running", gpu_seconds=360)
        (hold,) = find_holds([cluster], now)[cluster.pk]
        assert ", 0.1 kept for 1 live job, and" in hold.text
        assert "it goes on as live jobs end, or at 20" in hold.text
        planned.jobs.update(gpu_seconds=7200)
        (hold,) = find_holds([cluster], now)[cluster.pk]
        assert hold.goes_on_at is None
        assert hold.text.endswith("may take 2.0: somebody has to raise the limit, or cancel them")
        Experiment.objects.update(paused_at=now)
        assert find_holds([cluster], now)[cluster.pk] == [], "a person holds them back"

    def test_of_many_clusters_are_read_by_few_statements(
        self, django_assert_max_num_queries: Any
    ) -> None:
        limits_of_all = {"max_gpu_hours_per_month": 1, "max_submissions_per_minute": 1}
        for _ in range(10):
            cluster = ClusterFactory(**limits_of_all)
            job = JobFactory(cluster=cluster, experiment=LaunchedFactory(cluster=cluster))
            Job.objects.filter(pk=job.pk).update(state="planned", gpu_seconds=7200)
            note_use(cluster.pk, SUBMISSIONS)
        rows = list(Cluster.objects.filter(**limits_of_all))
        with django_assert_max_num_queries(4):
            holds = find_holds(rows, timezone.now())
        assert {len(found) for found in holds.values()} == {2}
        with django_assert_max_num_queries(0):
            find_holds([Cluster(pk=1)], timezone.now())


@given(
    sizes=st.lists(st.integers(0, 100), max_size=30),
    left=st.none() | st.floats(-50, 1000),
)
def test_a_portion_never_takes_more_gpu_time_than_is_left(
    sizes: list[int], left: float | None
) -> None:
    jobs = [Job(gpu_seconds=size) for size in sizes]
    chosen = cut_to_gpu_seconds(jobs, left)
    if left is None:
        assert chosen == jobs
    else:
        assert sum(job.gpu_seconds for job in chosen) <= max(left, 0)
        rest = left - sum(job.gpu_seconds for job in chosen)
        kept_back = [job for job in jobs if not any(job is other for other in chosen)]
        assert all(job.gpu_seconds > rest for job in kept_back), "nothing that fits is left out"


@pytest.mark.django_db
def test_a_planned_experiment_is_warned_of_what_is_left() -> None:
    now = timezone.now()
    cluster = ClusterFactory(name="far", max_gpu_hours_per_month=10)
    month = gpu_hours.find_month(now)
    GPUMonth.objects.create(cluster=cluster, month=month, gpu_seconds=7 * 3600)
    assert read_gpu_use([cluster.pk], now)[cluster.pk] == GPUUse(used=7 * 3600)
    assert warn_of_gpu_hours(cluster, gpu_hours=3, longest=1, now=now) == ""
    text = warn_of_gpu_hours(cluster, gpu_hours=4, longest=1, now=now)
    assert text.startswith(f"far has 3.0 of 10 GPU-hours left in {now:%B}: ")
    again = warn_of_gpu_hours(cluster, gpu_hours=2, further=1.5, longest=1, now=now)
    assert again.startswith(f"far has 3.0 of 10 GPU-hours left in {now:%B}: where rules reject ")
    assert warn_of_gpu_hours(cluster, gpu_hours=2, further=1, longest=1, now=now) == ""
    assert "never be sent" in warn_of_gpu_hours(cluster, gpu_hours=40, longest=11, now=now)
    cluster.max_gpu_hours_per_month = None
    assert warn_of_gpu_hours(cluster, gpu_hours=40, longest=11, now=now) == ""


@pytest.mark.django_db
def test_jobs_know_their_gpu_time_from_the_launch_on() -> None:
    made = ExperimentFactory(scales=["1x1"], cooldown_seconds=5)
    lifecycle.launch(made, made.owner)
    job = made.jobs.order_by("pk")[0]
    assert (job.runs.count(), job.workload.time_limit_seconds) == (2, 60)
    assert job.gpu_seconds == 240, "2 runs, a pause and the overhead, in whole minutes"


@pytest.mark.django_db
def test_jobs_of_before_learn_their_gpu_time_and_the_month_what_was_used() -> None:
    migration = import_module("experiments.migrations.0048_gpu_hours_so_far")
    made = ExperimentFactory(scales=["1x1"], cooldown_seconds=5)
    lifecycle.launch(made, made.owner)
    expected = list(made.jobs.order_by("pk").values_list("gpu_seconds", flat=True))
    made.jobs.update(gpu_seconds=0)
    now = timezone.now()
    times = {"started_at": now - HOUR, "ended_at": now, "gone_at": now}
    JobFactory(cluster=made.cluster, state="done", scale="2x4 srun", **times)
    long_ago = dict.fromkeys(times, now - timedelta(days=40))
    JobFactory(cluster=made.cluster, state="done", scale="2x4", **long_ago)
    migration.fill_jobs(apps, None)
    migration.fill_month(apps, None)
    assert list(made.jobs.order_by("pk").values_list("gpu_seconds", flat=True)) == expected
    month = GPUMonth.objects.get()
    in_this_month = dict(split_by_month(now - HOUR, now))[month.month]
    assert month.gpu_seconds == pytest.approx(8 * in_this_month)
