"""Jobs that people have cancelled are taken out of the queue, once, and no other by its number."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from experiments.execution.cancelling import (
    NewCancellations,
    cancel,
    find_last_cancellation,
    list_unwanted,
)
from experiments.execution.lease import Lease
from experiments.models import Cluster, Job, Operation
from runners.errors import Refused
from runners.runner import Runner
from runners.schedulers import SCHEDULERS, Status
from runners.transports import Local
from tests.factories import NOON, ClusterFactory, JobFactory, LaunchedFactory, OperationFactory

pytestmark = pytest.mark.django_db
RUNNING, QUEUED = Status("running", "", "RUNNING"), Status("queued", "", "PENDING")


@pytest.fixture
def cluster() -> Cluster:
    made: Cluster = ClusterFactory()
    return made


@pytest.fixture
def runner() -> Runner:
    return Runner(Local(), SCHEDULERS["slurm"]())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The numbers that the scheduler was asked to cancel, by call; it refuses any with "bad"."""
    calls: list[list[str]] = []

    def refuse_bad(self: Runner, ids: list[str]) -> None:
        calls.append(ids)
        if "bad" in ids:
            raise Refused("not yours")

    monkeypatch.setattr(Runner, "cancel", refuse_bad)
    return calls


def cancelled(cluster: Cluster, number: str, **columns: Any) -> Job:
    """Make a queued job of an experiment that a person has cancelled.

    One that repairs another was only taken back, to be sent again: its experiment goes on.
    """
    about = {"state": "queued", "scheduler_id": number, "cancel_requested_at": NOON}
    ended = None if "repairs" in columns else NOON
    experiment = LaunchedFactory(cluster=cluster, cancelled_at=ended)
    made: Job = JobFactory(experiment=experiment, **about | columns)
    return made


def operation(cluster: Cluster, **columns: Any) -> Operation:
    about = {"staged_image__cluster": cluster, "scheduler_id": "9", "cancel_requested_at": NOON}
    made: Operation = OperationFactory(**about | columns)
    return made


def test_the_last_click_of_which_the_scheduler_was_not_told_counts(cluster: Cluster) -> None:
    assert find_last_cancellation(cluster) is None
    for minutes, columns in enumerate(
        (
            {"cancel_sent_at": NOON},
            {"state": "collecting"},
            {"state": "planned"},
            {"cancel_requested_at": None},
        )
    ):
        cancelled(cluster, f"{minutes}", **{"cancel_requested_at": NOON} | columns)
    cancelled(ClusterFactory(), "8")
    assert find_last_cancellation(cluster) is None
    for minutes, state in enumerate(("submitting", "running", "queued")):
        cancelled(
            cluster, "7", state=state, cancel_requested_at=NOON - timedelta(minutes=minutes + 1)
        )
    assert find_last_cancellation(cluster) == NOON - timedelta(minutes=1)
    operation(cluster, cancel_requested_at=NOON + timedelta(minutes=1))
    assert find_last_cancellation(cluster) == NOON + timedelta(minutes=1)


def test_all_are_cancelled_by_one_call_and_it_is_noted_when(
    cluster: Cluster, runner: Runner, asked: list[list[str]]
) -> None:
    job, other = cancelled(cluster, "1"), cancelled(cluster, "2")
    told = cancelled(cluster, "3", cancel_sent_at=NOON)
    requeued = cancelled(cluster, "4", cancel_requested_at=None)
    row = operation(cluster)
    cancel([job, told, requeued, row], runner)
    assert asked == [["1", "3", "4", "9"]]
    for each in (job, told, requeued, row, other):
        each.refresh_from_db()
    assert job.cancel_sent_at
    assert row.cancel_sent_at
    assert told.cancel_sent_at == NOON, "as it was"
    assert (requeued.cancel_sent_at, other.cancel_sent_at) == (None, None)


def test_one_that_the_scheduler_refuses_keeps_no_other(
    cluster: Cluster, runner: Runner, asked: list[list[str]]
) -> None:
    jobs = [cancelled(cluster, number) for number in ("1", "bad", "2")]
    cancel(list(jobs), runner)
    assert asked == [["1", "bad", "2"], ["1"], ["bad"], ["2"]]
    cluster.refresh_from_db()
    assert cluster.own_failure == f"{jobs[1]}: not yours"
    assert not Job.objects.filter(cancel_sent_at=None).exists(), "it was asked, once a click"


def test_what_the_queue_has_of_them_is_unwanted(cluster: Cluster) -> None:
    waits, runs = cancelled(cluster, "1"), cancelled(cluster, "2", state="running")
    gone, wanted = cancelled(cluster, "3"), cancelled(cluster, "4", cancel_requested_at=None)
    another = cancelled(cluster, "5")
    statuses = {
        "1": QUEUED,
        "2": RUNNING,
        "4": RUNNING,
        "5": Status("running", "", "RUNNING", name=f"tare-{'b' * 32}-1"),
    }
    rows: list[Job | Operation] = [waits, runs, gone, wanted, another]
    assert list_unwanted(rows, statuses) == [waits, runs]


def test_what_was_to_be_taken_back_from_its_node_may_run_once_it_has_started(
    cluster: Cluster,
) -> None:
    first = JobFactory(experiment=LaunchedFactory(cluster=cluster))
    waits = cancelled(cluster, "1", repairs=first)
    runs = cancelled(cluster, "2", repairs=first, state="running", cancel_sent_at=NOON)
    assert list_unwanted([waits, runs], {"1": QUEUED, "2": RUNNING}) == [waits]
    runs.refresh_from_db()
    assert (runs.cancel_requested_at, runs.cancel_sent_at) == (None, None)


def test_each_is_cancelled_once_in_a_visit(
    cluster: Cluster, runner: Runner, asked: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    polled: list[list[str]] = []

    def poll(self: Runner, ids: list[str]) -> dict[str, Status]:
        polled.append(ids)
        return {number: QUEUED for number in ids if number != "gone"}

    monkeypatch.setattr(Runner, "poll", poll)
    cancellations = NewCancellations(Lease(cluster, "token"), runner)
    cancellations.cancel()
    assert polled == [], "nobody has cancelled anything"
    job = cancelled(cluster, "1")
    cancelled(cluster, "gone")
    cancelled(cluster, "2", state="submitting")
    cancelled(cluster, "3", cancel_requested_at=None)
    cancellations.cancel()
    assert (polled, asked) == ([["1", "gone"]], [["1"]])
    job.refresh_from_db()
    assert job.cancel_sent_at
    cancellations.cancel()
    assert (polled, asked) == ([["1", "gone"]], [["1"]]), "the one that is gone was looked for"
    cancelled(cluster, "4")
    cancellations.cancel()
    assert (polled[1:], asked[1:]) == ([["4"]], [["4"]])
