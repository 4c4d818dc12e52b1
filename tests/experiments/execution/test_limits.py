"""The limits of a cluster: submissions a minute, connections an hour, GPU-hours a month."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from django.db import connection
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from experiments import execution
from experiments.execution import lifecycle, limits
from experiments.execution.limits import (
    CONNECTIONS,
    SUBMISSIONS,
    LimitReached,
    claim_connection,
    compute_allowance,
    find_holds,
    note_use,
)
from experiments.models import Cluster, ClusterUse, Experiment
from runners.jobs import JobSpec
from runners.runner import Runner
from runners.submissions import Outcome
from tests.factories import ClusterFactory

Make = Callable[..., Experiment]
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
# `experiments.execution.tick` is the function too.
tick = sys.modules["experiments.execution.tick"]
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


@contextmanager
def taking_all() -> Iterator[list[str]]:
    """Have the scheduler take each job, and have it run for ever; yield their names."""
    names: list[str] = []

    def submit(self: Runner, jobs: Sequence[JobSpec]) -> list[Outcome]:
        names.extend(job.name for job in jobs)
        return [f"{os.getpid()}-{len(names)}"] * len(jobs)

    with mock.patch.object(Runner, "submit_all", submit):
        yield names


def age_uses(by: timedelta) -> None:
    """Let time pass since all that was used."""
    for row in ClusterUse.objects.all():
        ClusterUse.objects.filter(pk=row.pk).update(at=row.at - by)


USES = st.lists(st.tuples(st.integers(0, 59), st.integers(1, 9)), max_size=20)


@given(uses=USES, most=st.integers(1, 50))
def test_more_is_left_exactly_when_it_is_said_to_be(uses: Any, most: int) -> None:
    made = [(NOON + timedelta(seconds=at), count) for at, count in sorted(uses)]
    now = NOON + timedelta(seconds=59)
    allowance = compute_allowance(made, most, SUBMISSIONS)
    assert allowance.left == max(most - sum(count for _, count in made), 0)
    if not allowance.left:
        assert allowance.more_at
        assert now < allowance.more_at <= now + MINUTE

        def left_at(moment: datetime) -> int:
            later = [(at, count) for at, count in made if at > moment - MINUTE]
            return compute_allowance(later, most, SUBMISSIONS).left

        assert left_at(allowance.more_at) > 0
        assert left_at(allowance.more_at - timedelta(microseconds=1)) == 0


@pytest.mark.django_db
class TestSubmissionsAMinute:
    @pytest.fixture(autouse=True)
    def limit(self, here: Cluster) -> None:
        Cluster.objects.update(max_submissions_per_minute=3)

    def test_are_no_more_than_that_and_go_on_when_the_minute_is_over(
        self, experiment: Make
    ) -> None:
        made = experiment(repeats=7)
        with taking_all() as names:
            execution.tick(made.cluster_id)
            assert len(names) == 3
            execution.tick(made.cluster_id)
            assert len(names) == 3
            age_uses(MINUTE)
            execution.tick(made.cluster_id)
            assert len(names) == 6

    def test_count_what_is_tried_again(self, experiment: Make) -> None:
        made = experiment(repeats=2)
        with taking_all() as names:
            execution.tick(made.cluster_id)
            made.jobs.update(state="failed", reason="node failure", submitted_at=None)
            made.runs.update(state="failed")
            for job in made.jobs.all():
                lifecycle.retry(job, made.owner)
            execution.tick(made.cluster_id)
        assert len(names) == 3, "though no job says any more when it was submitted first"

    def test_are_counted_before_they_are_sent(self, experiment: Make) -> None:
        made = experiment(repeats=3)
        with (
            mock.patch.object(Runner, "submit_all", side_effect=SystemExit),
            pytest.raises(SystemExit),
        ):
            execution.tick(made.cluster_id)
        Cluster.objects.update(lease_token="", lease_until=None)
        assert set(made.jobs.values_list("state", flat=True)) == {"submitting"}
        with taking_all() as names:
            execution.tick(made.cluster_id)
            assert names == [], "the dead worker may have sent them in this minute"
            assert set(made.jobs.values_list("state", flat=True)) == {"planned"}
            age_uses(MINUTE)
            execution.tick(made.cluster_id)
            assert len(names) == 3

    def test_were_fewer_where_the_limit_was_lowered(self, here: Cluster) -> None:
        note_use(here.pk, SUBMISSIONS, 50)
        here.refresh_from_db()
        assert limits.count_submissions_left(here) == 0

    def test_of_a_clock_that_was_turned_back_hold_nothing(self, here: Cluster) -> None:
        note_use(here.pk, SUBMISSIONS, 3)
        here.refresh_from_db()
        assert limits.count_submissions_left(here) == 0
        age_uses(-HOUR)
        assert limits.count_submissions_left(here) == 3

    def test_are_forgotten_after_an_hour(self, here: Cluster) -> None:
        for _ in range(5):
            note_use(here.pk, SUBMISSIONS)
        age_uses(HOUR + MINUTE)
        note_use(here.pk, SUBMISSIONS)
        assert ClusterUse.objects.count() == 1

    def test_say_on_whom_jobs_wait_and_until_when(self, experiment: Make, here: Cluster) -> None:
        made = experiment(repeats=4)
        with taking_all():
            execution.tick(made.cluster_id)
        here.refresh_from_db()
        (hold,) = find_holds([here], timezone.now())[here.pk]
        use = ClusterUse.objects.get()
        assert hold.goes_on_at == use.at + MINUTE
        assert hold.text == (
            f"here takes at most 3 submissions a minute from Tare, the next at "
            f"{use.at + MINUTE:%Y-%m-%d %H:%M:%S} UTC"
        )
        made.jobs.filter(state="planned").delete()
        assert find_holds([here], timezone.now())[here.pk] == [], "nobody waits"


@pytest.mark.django_db
class TestConnectionsAnHour:
    def test_are_no_more_than_that(self) -> None:
        cluster = ClusterFactory(name="far", max_connections_per_hour=2)
        claim_connection(cluster.pk)
        claim_connection(cluster.pk)
        with pytest.raises(LimitReached) as caught:
            claim_connection(cluster.pk)
        first = ClusterUse.objects.order_by("at")[0]
        assert caught.value.goes_on_at == first.at + HOUR
        assert str(caught.value) == (
            "far takes at most 2 connections an hour from Tare, and has had them; the next one is "
            f"possible at {first.at + HOUR:%Y-%m-%d %H:%M} UTC."
        )
        age_uses(HOUR)
        claim_connection(cluster.pk)

    def test_are_counted_where_there_is_no_limit_yet(self) -> None:
        cluster = ClusterFactory()
        for _ in range(3):
            claim_connection(cluster.pk)
        assert limits.list_uses(cluster.pk, CONNECTIONS, timezone.now())
        Cluster.objects.update(max_connections_per_hour=3)
        with pytest.raises(LimitReached):
            claim_connection(cluster.pk)

    def test_of_a_cluster_that_is_gone_are_nobodys_matter(self) -> None:
        claim_connection(0)
        assert not ClusterUse.objects.exists()

    def test_a_visit_without_one_waits_and_has_not_failed(self, here: Cluster) -> None:
        reached = LimitReached("here takes at most 2.", timezone.now() + HOUR)
        with mock.patch.object(tick, "connect", side_effect=reached):
            assert execution.tick(here.pk) == "limit"
        here.refresh_from_db()
        assert (here.last_error, here.failures) == ("here takes at most 2.", 0)
        assert here.waits_for_connections
        assert here.retry_at
        assert here.retry_at < timezone.now() + HOUR, "the limit may be raised meanwhile"
        Cluster.objects.update(retry_at=None)
        assert execution.tick(here.pk) == "done"
        here.refresh_from_db()
        assert (here.last_error, here.waits_for_connections) == ("", False)

    def test_of_idle_visits_are_half_of_them_at_most(self) -> None:
        row = Cluster(poll_seconds=5, transport="ssh", max_connections_per_hour=10)
        assert row.idle_seconds == 720
        row.max_connections_per_hour = None
        assert row.idle_seconds == 60


@pytest.mark.django_db(transaction=True)
def test_two_workers_do_not_open_the_last_connection_both() -> None:
    cluster = ClusterFactory(max_connections_per_hour=3)
    outcomes: list[bool] = []

    def claim() -> None:
        try:
            claim_connection(cluster.pk)
        except LimitReached:
            outcomes.append(False)
        else:
            outcomes.append(True)
        finally:
            connection.close()

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False] * 5 + [True] * 3
