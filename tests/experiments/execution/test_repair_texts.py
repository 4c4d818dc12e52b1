"""What is told of jobs that run what is missing, and which of them may leave their node."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from experiments.execution import repairs
from experiments.execution.further_attempts import NotDone
from experiments.execution.repairs import SecondJob, can_allow_any_node, plan_second_jobs
from experiments.models import Experiment, Job, Pause, Run
from tests.factories import NOON, ContainerFactory, JobFactory, RunFactory, UserFactory

pytestmark = pytest.mark.django_db


def failed_job(**columns: Any) -> Job:
    """Make a failed job of two runs: the first was cut off on node n2, the second never began."""
    about = {"state": "failed", "reason": "lost", "payload_hash": "p", "gpu_seconds": 7}
    job: Job = JobFactory(**about | columns)
    for position, reason in enumerate(("lost", "not started")):
        environment = ContainerFactory(cluster=job.cluster, name=f"box {position}")
        node = "" if position else "n2"
        RunFactory(
            job=job,
            environment=environment,
            state="failed",
            reason=reason,
            message="m",
            node=node,
            exit_code=3,
            command="c",
        )
    return job


def missing(job: Job) -> list[Run]:
    return list(repairs.list_missing_runs(job).select_related("environment"))


def test_only_what_never_began_is_missing() -> None:
    job = failed_job()
    Run.objects.filter(position=1).update(state="cancelled")
    assert missing(job) == []
    Run.objects.filter(position=1).update(state="failed")
    assert [run.position for run in missing(job)] == [1]
    assert repairs.find_node(job) == "n2"
    Run.objects.update(node="")
    assert repairs.find_node(job) == ""


def test_the_first_node_of_each_job_is_its_own() -> None:
    first, second, third = failed_job(), failed_job(), failed_job()
    Run.objects.filter(job=second, position=1).update(node="n9")
    Run.objects.filter(job=third).update(node="")
    assert repairs.find_nodes([first, second, third]) == {first.pk: "n2", second.pk: "n2"}


def test_a_second_job_is_like_the_first_and_is_told_with_its_cause() -> None:
    first, person = failed_job(scale="1x1"), UserFactory()
    (run,) = missing(first)
    plan = SecondJob(first, [run], "n2", why=", by the way")
    second = repairs.plan_second_job(plan, person)
    second.refresh_from_db()
    for name in ("experiment", "cluster", "workload", "scale", "repeat", "block", "payload_hash"):
        assert getattr(second, name) == getattr(first, name)
    assert (second.repairs, second.node, second.state) == (first, "n2", "planned")
    assert second.gpu_seconds > first.gpu_seconds == 7, "as long as its run may take"
    told, moved = second.experiment.events.order_by("run_id")
    if told.run_id:
        told, moved = moved, told
    assert (told.what, told.job, told.actor) == ("block repaired", second, person)
    assert told.why == (
        f"box 1: never began in {first} and will be run on n2, in this order, by the way"
    )
    assert (moved.what, moved.job, moved.run) == ("failed → planned", first, run)
    assert (moved.why, moved.actor) == (f"in {second}", person)
    run.refresh_from_db()
    assert (run.job, run.state, run.reason, run.message) == (second, "planned", "", "")
    assert (run.exit_code, run.command, run.began_at) == (None, "", None)


def test_several_are_planned_in_their_order() -> None:
    jobs = [failed_job(), failed_job()]
    plans = [SecondJob(job, missing(job), "", cause="was rejected") for job in reversed(jobs)]
    seconds = plan_second_jobs(plans)
    assert [second.repairs for second in seconds] == list(reversed(jobs))
    assert plan_second_jobs([]) == []
    (why,) = seconds[0].events.filter(what="block repaired").values_list("why", flat=True)
    assert why == f"box 1: was rejected in {jobs[1]} and will be run on any node, in this order"


@pytest.mark.parametrize(
    ("columns", "may"),
    [
        ({}, True),
        ({"state": "queued"}, True),
        ({"state": "submitting"}, False),
        ({"state": "running"}, False),
        ({"node": ""}, False),
        ({"node": "", "excluded_nodes": []}, False),
        ({"node": "", "excluded_nodes": ["n1"]}, True),
        ({"node": "", "excluded_nodes": ["n1"], "state": "queued"}, True),
        ({"cancel_requested_at": NOON}, False),
    ],
)
def test_a_job_that_waits_for_its_node_may_run_anywhere(columns: dict[str, Any], may: bool) -> None:
    job = JobFactory(**{"state": "planned", "node": "n2"} | columns)
    assert can_allow_any_node(job) is may
    Experiment.objects.update(cancelled_at=NOON)
    assert not can_allow_any_node(Job.objects.get())


def test_any_node_is_told_and_its_pause_is_tried_at_once() -> None:
    job = JobFactory(state="planned", node="n2")
    other = JobFactory(experiment=job.experiment, state="planned", node="n2")
    later = timezone.now() + timedelta(hours=1)
    Pause.objects.create(
        cluster=job.cluster,
        experiment=job.experiment,
        kind="nodes",
        message="",
        since=NOON,
        retry_at=later,
    )
    repairs.allow_any_node(job, job.experiment.owner)
    for row in (job, other):
        row.refresh_from_db()
    assert (job.node, job.cancel_requested_at) == ("", None)
    assert (other.node, other.cancel_requested_at) == ("n2", None)
    assert Pause.objects.get().retry_at < later
    (event,) = job.events.all()
    assert (event.what, event.why, event.actor) == (
        "any node allowed",
        "instead of n2 alone",
        job.experiment.owner,
    )
    with pytest.raises(NotDone, match=r"^Not changed: it does not wait for a node any more\.$"):
        repairs.allow_any_node(job, job.experiment.owner)


def test_what_waits_in_the_queue_is_taken_back_first() -> None:
    job = JobFactory(state="queued", node="n2")
    repairs.allow_any_node(job, job.experiment.owner)
    job.refresh_from_db()
    assert job.node == ""
    assert job.cancel_requested_at


@pytest.mark.parametrize(
    ("columns", "is_so"),
    [({}, True), ({"repairs": None, "node": "n2"}, True), ({"cancel_requested_at": None}, False)],
)
def test_a_job_was_taken_back_if_it_was_cancelled_and_its_experiment_was_not(
    columns: dict[str, Any], is_so: bool
) -> None:
    first = JobFactory()
    about = {"repairs": first, "cancel_requested_at": NOON, "experiment": first.experiment}
    job = JobFactory(**about | columns)
    assert repairs.is_taken_back(job) is is_so
    job.experiment.cancelled_at = NOON
    assert not repairs.is_taken_back(job)


def test_a_job_that_was_taken_back_is_planned_anew_with_what_it_had_to_run() -> None:
    first = JobFactory()
    job = JobFactory(
        experiment=first.experiment,
        repairs=first,
        state="collecting",
        cancel_requested_at=NOON,
        cancel_sent_at=NOON,
    )
    run = RunFactory(job=job, state="planned", exit_code=None)
    stale = Job.objects.get(pk=job.pk)
    repairs.plan_on_any_node(job)
    job.refresh_from_db()
    run.refresh_from_db()
    assert (job.state, job.attempt, job.reason, job.message) == ("planned", 2, "", "")
    assert (job.cancel_requested_at, job.cancel_sent_at, job.ended_at) == (None, None, None)
    assert job.excluded_nodes == [], "any node, not those that no other block ran on"
    assert (run.state, run.reason, run.message) == ("planned", "", "")
    why = "taken back from the queue before it began, to run on any node"
    told = job.events.order_by("pk").values_list("what", "why")
    assert list(told) == [
        ("collecting → failed", why),
        ("planned → failed", why),
        ("failed → planned", why),
        ("failed → planned", why),
    ]
    repairs.plan_on_any_node(stale)
    assert job.events.count() == 4, "another visit was faster"
