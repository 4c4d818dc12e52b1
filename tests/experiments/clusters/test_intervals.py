"""The interval between visits: short while jobs change, never longer than the setting."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from experiments import execution
from experiments.execution import lifecycle
from experiments.health.cluster_visits import list_cluster_visits
from experiments.management.commands import clock
from experiments.models import Cluster, Experiment, Job
from experiments.models.intervals import (
    IDLE_SECONDS,
    LEAST_SECONDS,
    MOST_OFTEN,
    SHARE_OF_QUIET,
    compute_floor,
    compute_interval,
)
from runners.runner import Runner
from runners.schedulers import Status
from tests.factories import ClusterFactory, JobFactory, LaunchedFactory

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
Make = Callable[..., Experiment]


def interval(setting: float, quiet: float | None, took: float | None = 0.1) -> float:
    changed_at = None if quiet is None else NOON - timedelta(seconds=quiet)
    return compute_interval(setting, took=took, last_visit=NOON, changed_at=changed_at)


@pytest.mark.parametrize(
    ("setting", "quiet", "took", "expected"),
    [
        (20, None, 0.1, 20),  # nothing has changed yet
        (20, 0, 0.1, 5),
        (20, 19, 0.1, 5),
        (20, 40, 0.1, 10),
        (20, 80, 0.1, 20),
        (20, 86_400, 0.1, 20),
        (20, 0, 2, 8),  # not more than a quarter of the time
        (20, 0, 300, 20),
        (2, 0, 0.1, 1),  # once a second at most
        (0.5, 0, 0.1, 0.5),
        (0, 0, 0.1, 0),
        (20, -300, 0.1, 5),  # at the end of a visit of five minutes
        (20, -3600, 0.1, 20),  # the clock was turned back since
    ],
)
def test_grows_with_the_time_for_which_nothing_has_changed(
    setting: float, quiet: float | None, took: float, expected: float
) -> None:
    assert interval(setting, quiet, took) == pytest.approx(expected)


@given(
    setting=st.floats(0, 86_400),
    quiet=st.none() | st.floats(-(10**7), 10**7),
    took=st.none() | st.floats(0, 600),
)
def test_is_between_its_bounds(setting: float, quiet: float | None, took: float | None) -> None:
    seconds = interval(setting, quiet, took)
    assert compute_floor(setting, took) <= seconds <= setting
    assert seconds >= min(setting, LEAST_SECONDS, setting / MOST_OFTEN)


@given(setting=st.floats(1, 3600), settings_quiet=st.floats(0, 50))
def test_a_change_is_noticed_within_a_share_of_the_time_before_it(
    setting: float, settings_quiet: float
) -> None:
    """Jobs change again after so many settings: visits follow their pace."""
    at, quiet = 0.0, setting * settings_quiet
    while at < quiet:
        at += interval(setting, at)
    # What the last visit before the change knew was less than `quiet`.
    assert at - quiet <= max(compute_floor(setting, 0.1), SHARE_OF_QUIET * quiet) + 1e-6


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The clusters that the clock has asked a visit for."""
    rows: list[int] = []
    monkeypatch.setattr(clock, "enqueue_tick", rows.append)
    return rows


@pytest.mark.django_db
class TestTheClock:
    def ask(self, seconds: float, **columns: Any) -> bool:
        """Return whether a visit is asked for so long after the last one."""
        pks: list[int] = []
        row = ClusterFactory(poll_seconds=20, last_tick_at=NOON, last_tick_seconds=0.1, **columns)
        JobFactory(experiment=LaunchedFactory(cluster=row), state="queued")
        with mock.patch.object(clock, "enqueue_tick", pks.append):
            clock.enqueue_due({row.pk: 1000.0}, 1000.0 + seconds)
        return row.pk in pks

    def test_asks_often_while_things_change(self) -> None:
        assert self.ask(5.1, changed_at=NOON)
        assert not self.ask(4.9, changed_at=NOON)

    def test_and_as_often_as_is_set_while_all_jobs_wait(self) -> None:
        long_ago = NOON - timedelta(hours=5)
        assert not self.ask(19.9, changed_at=long_ago)
        assert self.ask(20.1, changed_at=long_ago)

    def test_and_seldom_where_nothing_is_live(self, asked: list[int]) -> None:
        row = ClusterFactory(poll_seconds=20, last_tick_at=NOON, changed_at=NOON)
        clock.enqueue_due({row.pk: 1000.0}, 1000.0 + IDLE_SECONDS - 1)
        assert asked == []
        clock.enqueue_due({row.pk: 1000.0}, 1000.0 + IDLE_SECONDS + 1)
        assert asked == [row.pk]


@pytest.mark.django_db
def test_a_click_waits_no_longer_than_a_quarter_of_the_setting(here: Cluster) -> None:
    row = Cluster(poll_seconds=20, last_tick_at=timezone.now(), last_tick_seconds=0.1)
    assert row.due_at(timezone.now()) == row.last_tick_at + timedelta(seconds=5)


@pytest.mark.django_db
class TestAVisit:
    def changed(self, here: Cluster) -> bool:
        """Visit, and return whether something has changed."""
        Cluster.objects.update(changed_at=None)
        assert execution.tick(here.pk) == "done"
        return Cluster.objects.get(pk=here.pk).changed_at is not None

    def test_that_sends_follows_or_collects_a_job_notes_a_change(
        self, experiment: Make, here: Cluster
    ) -> None:
        made = experiment()
        job = made.jobs.get()
        status = {"1-1": Status("queued", "PENDING", "Priority")}
        with (
            mock.patch.object(Runner, "submit_all", return_value=["1-1"]),
            mock.patch.object(Runner, "poll", side_effect=lambda ids: status),
        ):
            assert self.changed(here), "submitted"
            assert not self.changed(here), "it waits"
            status["1-1"] = Status("queued", "PENDING", "Resources")
            assert not self.changed(here), "it waits for something else"
            status["1-1"] = Status("running", "RUNNING", "")
            assert self.changed(here), "it runs"
            assert not self.changed(here), "it goes on"
            line = f'{{"time": 1.0, "event": "run began", "run": "{made.runs.all()[0].uid}"}}\n'
            journal = {Job.objects.get(pk=job.pk).directory: line.encode()}
            with mock.patch.object(Runner, "read_journals", return_value=journal):
                assert self.changed(here), "a run has begun"
            assert not self.changed(here)
            status.clear()
            assert self.changed(here), "it left the queue"

    def test_without_jobs_notes_none(self, here: Cluster) -> None:
        assert not self.changed(here)

    def test_to_jobs_that_a_pause_holds_back_notes_none(
        self, experiment: Make, here: Cluster
    ) -> None:
        made = experiment(repeats=2)
        lifecycle.cancel(made, made.owner)
        assert not self.changed(here)


@pytest.mark.django_db
def test_operations_says_the_setting_and_what_the_interval_is_now() -> None:
    now = timezone.now()
    row = ClusterFactory(poll_seconds=20, last_tick_at=now, changed_at=now, last_tick_seconds=0.1)
    job = JobFactory(
        experiment=LaunchedFactory(cluster=row), state="queued", scheduler_id=f"{os.getpid()}-1"
    )
    (visits,) = list_cluster_visits(now)
    assert (visits.setting_seconds, visits.planned_seconds) == (20, 5)
    assert visits.due_at == now + timedelta(seconds=5)
    Job.objects.filter(pk=job.pk).update(state="done")
    (visits,) = list_cluster_visits(now)
    assert (visits.setting_seconds, visits.planned_seconds) == (60, 60)
