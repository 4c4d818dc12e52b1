"""What a visit makes of the scheduler's answer about the live jobs of its cluster."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from experiments import execution
from experiments.models import Cluster, Job, Operation, Pause
from runners.jobs import JobSpec
from runners.runner import Runner
from runners.schedulers import Status
from tests.factories import NOON, JobFactory, LaunchedFactory, OperationFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def queue(monkeypatch: pytest.MonkeyPatch, here: Cluster) -> dict[str, Status]:
    """What the scheduler says of each number; files of what it does not know never come."""
    statuses: dict[str, Status] = {}

    def poll(self: Runner, ids: Sequence[str]) -> dict[str, Status]:
        return {number: statuses[number] for number in ids if number in statuses}

    monkeypatch.setattr(Runner, "poll", poll)
    return statuses


@pytest.fixture(autouse=True)
def owners(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The numbers of the jobs that hold directories, by directory."""
    by_directory: dict[str, str] = {}

    def find_all(self: Runner, jobs: Sequence[JobSpec]) -> dict[str, str]:
        return {
            job.directory: by_directory[job.directory]
            for job in jobs
            if job.directory in by_directory
        }

    monkeypatch.setattr(Runner, "find_all", find_all)
    return by_directory


def live(here: Cluster, number: str, **columns: Any) -> Job:
    about = {"state": "queued", "scheduler_id": number, "started_at": None, "ended_at": None}
    made: Job = JobFactory(experiment=LaunchedFactory(cluster=here), **about | columns)
    return made


def visit(row: Job | Operation) -> None:
    assert execution.tick(row.cluster_id) == "done"
    row.refresh_from_db()


def test_what_the_scheduler_says_is_kept_as_it_says_it(
    here: Cluster, queue: dict[str, Status]
) -> None:
    job, other = live(here, "1"), live(here, "2", scheduler_state="PENDING Resources")
    queue["1"] = Status("queued", "Priority " + "x" * 300, "PENDING")
    queue["2"] = Status("queued", "Resources", "PENDING")
    visit(job)
    other.refresh_from_db()
    assert job.scheduler_state == "PENDING Priority ..."
    assert (job.state, job.started_at) == ("queued", None)
    assert other.scheduler_state == "PENDING Resources"
    assert not job.events.exists()


def test_a_job_that_runs_now_has_started_and_is_expected_no_more(
    here: Cluster, queue: dict[str, Status]
) -> None:
    job = live(here, "1", expected_start_at=NOON)
    runs = live(here, "2", state="running", started_at=NOON)
    queue |= dict.fromkeys(("1", "2"), Status("running", "", "RUNNING"))
    before = timezone.now()
    visit(job)
    runs.refresh_from_db()
    assert (job.state, job.expected_start_at, job.scheduler_state) == ("running", None, "RUNNING")
    assert job.started_at
    assert before <= job.started_at <= timezone.now()
    (event,) = job.events.all()
    assert (event.what, event.why) == ("queued → running", "RUNNING")
    assert (runs.started_at, runs.events.exists()) == (NOON, False)
    here.refresh_from_db()
    assert here.changed_at, "it is visited more often now"


def test_what_has_left_the_queue_is_collected_and_its_place_may_be_used(here: Cluster) -> None:
    job = live(here, "1", state="running")
    later = timezone.now() + timedelta(hours=1)
    for kind in ("limit", "account"):
        about = {"cluster": here, "experiment": job.experiment, "message": "", "since": NOON}
        if kind == "limit":
            about["experiment"] = LaunchedFactory(cluster=here)
        Pause.objects.create(kind=kind, retry_at=later, **about)
    before = timezone.now()
    visit(job)
    assert job.state == "collecting"
    assert job.gone_at
    assert before <= job.gone_at <= timezone.now()
    (event,) = job.events.all()
    assert (event.what, event.why) == ("running → collecting", "left the queue")
    assert not Pause.objects.filter(kind="limit", retry_at=later).exists()
    assert Pause.objects.get(kind="account").retry_at == later


def test_a_twin_that_holds_the_files_is_followed_instead(
    here: Cluster, owners: dict[str, str]
) -> None:
    job = live(here, "1", state="running", cancel_requested_at=NOON, cancel_sent_at=NOON)
    row = OperationFactory(
        staged_image__cluster=here, state="running", scheduler_id="3", directory="/nowhere"
    )
    owners |= {job.directory: "2", row.directory: "4"}
    visit(job)
    assert (job.state, job.scheduler_id, job.cancel_sent_at) == ("running", "2", None)
    (event,) = job.events.all()
    assert (event.what, event.why) == ("adopted", "2 instead of 1")
    row.refresh_from_db()
    assert (row.state, row.scheduler_id) == ("running", "4")


def test_its_own_files_are_no_twins(here: Cluster, owners: dict[str, str]) -> None:
    job = live(here, "1", state="running")
    owners[job.directory] = "1"
    visit(job)
    assert job.state == "collecting"


def test_a_number_that_was_given_to_another_job_is_gone(
    here: Cluster, queue: dict[str, Status]
) -> None:
    job = live(here, "1", state="running", scheduler_state="RUNNING")
    queue["1"] = Status("running", "", "RUNNING", name=f"tare-{'b' * 32}-1")
    visit(job)
    assert job.state == "collecting"
