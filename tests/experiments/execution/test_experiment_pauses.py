"""Pausing an experiment keeps its jobs from being sent; cancelling it ends them without a wait."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from unittest import mock

import pytest
from django.utils import timezone

from experiments import execution
from experiments.execution import collect_together, experiment_pauses, lifecycle, submitting
from experiments.execution.visit_times import LEAST_PAUSE, is_urgent
from experiments.management.commands import clock
from experiments.models import Cluster, Experiment, Job, Pause, Run
from runners.errors import Refused
from runners.jobs import JobSpec
from runners.runner import Runner
from runners.schedulers import Status
from runners.submissions import Outcome
from tests.conftest import collecting_each, tick_until
from tests.factories import JobFactory, LaunchedFactory, OperationFactory

pytestmark = pytest.mark.django_db

Make = Callable[..., Experiment]
HOUR = timedelta(hours=1)


@contextmanager
def sent(before: Callable[[], object] = lambda: None) -> Iterator[list[str]]:
    """Yield the names of jobs that are sent from now on; `before` happens right before the first.

    The scheduler takes them all, and has them running for ever: this process.
    """
    names: list[str] = []

    def submit(self: Runner, jobs: Sequence[JobSpec]) -> list[Outcome]:
        names.extend(job.name for job in jobs)
        return [f"{os.getpid()}-{len(names)}"] * len(jobs)

    to_submitting = submitting.move_each

    def move_each(*args: object) -> object:
        moved = to_submitting(*args)  # type: ignore[arg-type]
        if args[2] == "submitting" and moved:
            before()
        return moved

    with (
        mock.patch.object(Runner, "submit_all", submit),
        mock.patch.object(submitting, "move_each", move_each),
    ):
        yield names


@contextmanager
def in_the_queue() -> Iterator[None]:
    """Have the scheduler know all jobs that it is asked about."""

    def poll(self: Runner, ids: Sequence[str]) -> dict[str, Status]:
        return {each: Status("running", "RUNNING", "") for each in ids}

    with mock.patch.object(Runner, "poll", poll):
        yield


def states(made: Experiment) -> set[str]:
    return set(made.jobs.values_list("state", flat=True))


class TestPause:
    def test_nothing_new_is_sent_until_it_is_continued(self, experiment: Make) -> None:
        made = experiment(repeats=3)
        assert experiment_pauses.pause(made, made.owner)
        with sent() as names:
            assert execution.tick(made.cluster_id) == "done"
        assert (names, states(made)) == ([], {"planned"})
        assert experiment_pauses.resume(made, made.owner)
        with sent() as names:
            execution.tick(made.cluster_id)
        assert (len(names), states(made)) == (3, {"queued"})
        events = made.events.filter(job=None).order_by("pk").values_list("what", "actor")
        who = made.owner.pk
        assert list(events) == [("launched", who), ("paused", who), ("continued", who)]

    def test_what_has_been_sent_goes_on(self, experiment: Make) -> None:
        made = experiment(repeats=2)
        Cluster.objects.update(max_live_jobs=1)
        execution.tick(made.cluster_id)
        experiment_pauses.pause(made, made.owner)
        live = made.jobs.exclude(state="planned").get()
        ended = made.jobs.filter(pk=live.pk, state="done")
        tick_until(made.cluster, ended.exists)
        assert set(live.runs.values_list("state", flat=True)) == {"succeeded"}
        assert made.jobs.exclude(pk=live.pk).get().state == "planned"

    def test_others_are_sent_meanwhile(self, experiment: Make) -> None:
        made = experiment(repeats=2)
        other = LaunchedFactory(cluster=made.cluster)
        JobFactory(experiment=other, state="planned")
        experiment_pauses.pause(other, other.owner)
        with sent() as names:
            execution.tick(made.cluster_id)
        assert len(names) == 2
        assert states(other) == {"planned"}

    def test_a_visit_that_is_about_to_send_them_takes_them_back(self, experiment: Make) -> None:
        """Whoever pauses is not told so while a visit that chose the jobs earlier sends them."""
        made = experiment(repeats=3)
        with sent(before=lambda: experiment_pauses.pause(made, made.owner)) as names:
            assert execution.tick(made.cluster_id) == "done"
        assert (names, states(made)) == ([], {"planned"})
        why = made.events.filter(what="submitting → planned").values_list("why", flat=True)
        assert set(why) == {submitting.PAUSED_BEFORE}

    def test_so_does_one_that_finds_them_after_a_worker_died(self, experiment: Make) -> None:
        made = experiment()
        made.jobs.update(state="submitting")
        experiment_pauses.pause(made, made.owner)
        with sent() as names:
            execution.tick(made.cluster_id)
        assert (names, states(made)) == ([], {"planned"})

    def test_a_job_that_is_planned_anew_waits_too(self, experiment: Make) -> None:
        made = experiment()
        made.jobs.update(state="failed", reason="node failure")
        made.runs.update(state="failed")
        experiment_pauses.pause(made, made.owner)
        lifecycle.retry(made.jobs.get(), made.owner)
        with sent() as names:
            execution.tick(made.cluster_id)
        assert (names, states(made)) == ([], {"planned"})

    def test_the_pause_of_a_site_is_kept(self, experiment: Make) -> None:
        made = experiment()
        now = timezone.now()
        common = {"cluster": made.cluster, "message": "", "since": now, "retry_at": now}
        Pause.objects.create(kind="disk full", **common)
        experiment_pauses.pause(made, made.owner)
        execution.tick(made.cluster_id)
        assert Pause.objects.exists(), "no job was tried"

    def test_a_draft_and_what_was_cancelled_are_not_paused(self, experiment: Make) -> None:
        made = experiment()
        assert not experiment_pauses.resume(made, made.owner)
        lifecycle.cancel(made, made.owner)
        assert not experiment_pauses.pause(made, made.owner)
        Experiment.objects.update(cancelled_at=None, paused_at=timezone.now())
        lifecycle.cancel(made, made.owner)
        made.refresh_from_db()
        assert made.paused_at is None


class TestCancel:
    def test_a_visit_that_is_about_to_send_its_jobs_ends_them(self, experiment: Make) -> None:
        made = experiment(repeats=3)
        with sent(before=lambda: lifecycle.cancel(made, made.owner)) as names:
            assert execution.tick(made.cluster_id) == "done"
        assert (names, states(made)) == ([], {"cancelled"})
        assert set(made.runs.values_list("state", flat=True)) == {"cancelled"}

    def test_jobs_are_ended_without_waiting_for_the_interval(self, experiment: Make) -> None:
        made = experiment(repeats=2)
        made.jobs.update(state="running", scheduler_id=f"{os.getpid()}-1")
        ago = timezone.now() - timedelta(seconds=5)
        Cluster.objects.update(poll_seconds=86_400, last_tick_at=ago)
        assert execution.tick(made.cluster_id) == "early"
        lifecycle.cancel(made, made.owner)
        with in_the_queue(), mock.patch.object(Runner, "cancel") as cancel:
            assert execution.tick(made.cluster_id) == "done"
            cancel.assert_any_call([f"{os.getpid()}-1"] * 2)
            assert execution.tick(made.cluster_id) == "early", "once a click"

    def test_nor_for_a_back_off(self, experiment: Make) -> None:
        made = experiment()
        made.jobs.update(state="running", scheduler_id=f"{os.getpid()}-1")
        Cluster.objects.update(last_tick_at=timezone.now() - HOUR)
        Cluster.objects.update(retry_at=timezone.now() + timedelta(minutes=4))
        assert execution.tick(made.cluster_id) == "early"
        lifecycle.cancel(made, made.owner)
        with in_the_queue(), mock.patch.object(Runner, "cancel") as cancel:
            assert execution.tick(made.cluster_id) == "done"
        cancel.assert_any_call([f"{os.getpid()}-1"])

    def test_a_job_found_after_a_worker_died_is_ended_by_the_same_visit(
        self, experiment: Make
    ) -> None:
        made = experiment()
        made.jobs.update(state="submitting")
        lifecycle.cancel(made, made.owner)
        with (
            mock.patch.object(Runner, "find", return_value="1-77"),
            mock.patch.object(Runner, "cancel") as cancel,
        ):
            execution.tick(made.cluster_id)
        assert ["1-77"] in [call.args[0] for call in cancel.call_args_list]

    def test_a_visit_that_collects_for_minutes_cancels_between_two_portions(
        self, experiment: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = experiment(repeats=3)
        running, *ended = made.jobs.order_by("pk")
        common = {"scheduler_id": f"{os.getpid()}-1", "directory": "/nowhere"}
        made.jobs.update(state="collecting", gone_at=timezone.now(), **common)
        made.jobs.filter(pk=running.pk).update(state="running", gone_at=None)
        happened: list[str] = []

        def collect(row: Job, runner: Runner) -> None:
            happened.append("collected")
            lifecycle.cancel(made, made.owner)

        monkeypatch.setattr(collect_together, "PORTION", 1)
        with (
            collecting_each(collect),
            in_the_queue(),
            mock.patch.object(Runner, "cancel") as cancel,
        ):
            cancel.side_effect = lambda ids: happened.extend(ids)
            execution.tick(made.cluster_id)
        assert len(ended) == 2
        assert happened == ["collected", f"{os.getpid()}-1", "collected"]


class TestUrgency:
    def cluster(self, ago: timedelta) -> Cluster:
        made = JobFactory(state="running", cancel_requested_at=timezone.now()).cluster
        Cluster.objects.filter(pk=made.pk).update(
            last_tick_at=timezone.now() - ago, poll_seconds=3600
        )
        made.refresh_from_db()
        return made

    def test_is_that_of_what_the_scheduler_was_not_asked_to_cancel(self) -> None:
        cluster = self.cluster(timedelta(minutes=1))
        assert is_urgent(cluster, timezone.now())
        Job.objects.update(cancel_sent_at=timezone.now())
        assert not is_urgent(cluster, timezone.now())
        OperationFactory(cluster=cluster, state="queued", cancel_requested_at=timezone.now())
        assert is_urgent(cluster, timezone.now())

    def test_is_that_of_a_click_too_late_for_the_visit_that_began_after_it(self) -> None:
        """It is committed after that visit has read the jobs, or its host's clock is ahead."""
        cluster = self.cluster(timedelta(seconds=5))
        Job.objects.update(cancel_requested_at=timezone.now() - timedelta(seconds=6))
        assert is_urgent(cluster, timezone.now())

    def test_comes_in_growing_pauses_while_visits_fail(self) -> None:
        now = timezone.now()
        cluster = self.cluster(timedelta())
        Job.objects.update(cancel_requested_at=now - timedelta(minutes=1))
        cluster.last_tick_at = now
        assert not is_urgent(cluster, now + timedelta(seconds=59))
        assert is_urgent(cluster, now + timedelta(seconds=61))
        Job.objects.update(cancel_requested_at=now)  # another click
        assert is_urgent(cluster, now + LEAST_PAUSE)

    def test_is_over_once_the_scheduler_was_asked(self, here: Cluster) -> None:
        """Also where it refuses, or somebody was faster: later visits ask again in their time."""
        ago = timezone.now() - timedelta(minutes=1)
        common = {"scheduler_id": f"{os.getpid()}-1", "cancel_requested_at": ago}
        row = JobFactory(
            experiment__cluster=here, experiment__cancelled_at=ago, state="running", **common
        )
        with in_the_queue(), mock.patch.object(Runner, "cancel", side_effect=Refused("no")):
            execution.tick(here.pk)
        row.refresh_from_db()
        assert row.cancel_sent_at
        Cluster.objects.update(last_tick_at=ago)
        here.refresh_from_db()
        assert not is_urgent(here, timezone.now())

    def test_leaves_a_second_between_two_visits(self) -> None:
        assert not is_urgent(self.cluster(timedelta()), timezone.now())

    def test_does_not_come_of_a_clock_that_was_turned_back(self) -> None:
        assert not is_urgent(self.cluster(-HOUR), timezone.now())

    def test_is_not_of_jobs_that_have_ended(self) -> None:
        cluster = self.cluster(timedelta(minutes=1))
        for state in (*Job.FINAL, Job.State.COLLECTING):
            Job.objects.update(state=state)
            assert not is_urgent(cluster, timezone.now())

    def test_has_the_clock_ask_for_a_visit_that_was_not_possible_at_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[int] = []
        monkeypatch.setattr(clock, "enqueue_tick", asked.append)
        cluster = self.cluster(timedelta(minutes=1))
        Cluster.objects.update(wanted_at=timezone.now())
        clock.enqueue_early({}, 0.0)
        assert asked == [cluster.pk]


def test_all_runs_of_a_paused_experiment_are_kept_as_they_are(experiment: Make) -> None:
    made = experiment(repeats=2)
    experiment_pauses.pause(made, made.owner)
    execution.tick(made.cluster_id)
    assert not made.runs.exclude(state=Run.State.PLANNED).exists()
