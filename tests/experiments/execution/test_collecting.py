"""How a job that has left the queue ends, by its directory and the scheduler's accounts."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from experiments.execution import collect
from experiments.execution.collect_together import collect_together
from experiments.execution.moves import record_event
from experiments.execution.requeued_jobs import REQUEUED
from experiments.models import Cluster, Experiment, Job, Operation
from runners.errors import NotNow, Refused
from runners.runner import Runner
from runners.schedulers import SCHEDULERS, JobEnding
from runners.transports import Local
from tests.factories import ClusterFactory, JobFactory, LaunchedFactory, RunFactory

pytestmark = pytest.mark.django_db
LONG_AGO = timedelta(hours=1)
OUT_OF_MEMORY = JobEnding("OUT_OF_MEMORY", "0:125", "", "node2", "out of memory", "sacct")


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    made: Cluster = ClusterFactory(name="far", work_directory=str(tmp_path), scheduler="slurm")
    return made


@pytest.fixture
def accounts(monkeypatch: pytest.MonkeyPatch) -> dict[str, JobEnding]:
    """What the scheduler remembers of ended jobs, by number."""
    endings: dict[str, JobEnding] = {}
    monkeypatch.setattr(Runner, "read_endings", lambda self, ids: endings)
    return endings


@pytest.fixture
def job(cluster: Cluster, accounts: object) -> Job:
    """A job of one run that has left the queue an hour ago, and whose directory is empty."""
    directory = Path(cluster.work_directory, "job")
    directory.mkdir()
    made: Job = JobFactory(
        experiment=LaunchedFactory(cluster=cluster),
        state="collecting",
        scheduler_id="7",
        directory=str(directory),
        gone_at=timezone.now() - LONG_AGO,
    )
    spec = {"workload": {"kind": "blas", "parameters": {}}}
    RunFactory(job=made, state="running", exit_code=None, spec=spec)
    return made


def leave(job: Job, **files: str) -> None:
    for name, content in files.items():
        Path(job.directory, name.replace("__", ".")).write_text(content)


def collected(job: Job, **columns: Any) -> Job:
    """Collect the job once, and return it as it is then."""
    Job.objects.filter(pk=job.pk).update(**columns)
    collect.collect(Job.objects.get(pk=job.pk), Runner(Local(), SCHEDULERS["slurm"]()))
    job.refresh_from_db()
    return job


def words(job: Job) -> tuple[str, str, str]:
    return job.state, job.reason, job.message


def refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Runner, directory: str, **options: object) -> None:
        raise Refused(f"Listing {directory} failed: Stale file handle")

    monkeypatch.setattr(Runner, "collect", fail)


def test_an_exit_code_of_0_is_a_success_of_the_job(job: Job) -> None:
    leave(job, exit_code="0\n")
    assert words(collected(job)) == ("done", "", "")
    assert job.exit_code == 0
    assert job.runs.get().reason == "not run"


def test_a_job_that_left_nothing_is_lost_once_its_files_cannot_come_any_more(job: Job) -> None:
    leave(job, started="7\n")
    assert collected(job, gone_at=timezone.now()).state == "collecting"
    state, reason, message = words(collected(job, gone_at=timezone.now() - LONG_AGO))
    assert (state, reason) == ("failed", "lost")
    assert message.endswith(f". Its files are in {job.directory} on far.")
    assert job.collect_at, "it is looked for again"


def test_a_directory_that_is_not_there_is_said(job: Job) -> None:
    Path(job.directory).rmdir()
    assert collected(job, gone_at=timezone.now()).state == "collecting"
    state, reason, message = words(collected(job, gone_at=timezone.now() - LONG_AGO))
    assert (state, reason) == ("failed", "lost")
    assert message.endswith(f" Its directory on far is not there. It was {job.directory}.")
    assert not job.runs.get().message.endswith(f"It was {job.directory}.")


def test_the_accounts_name_what_ended_it(job: Job, accounts: dict[str, JobEnding]) -> None:
    leave(job, started="7\n")
    accounts["7"] = OUT_OF_MEMORY
    state, reason, message = words(collected(job))
    assert (state, reason) == ("failed", "out of memory")
    assert "OUT_OF_MEMORY" in message
    assert job.runs.get().reason == "out of memory"


def test_a_job_that_a_person_has_cancelled_is_waited_for_no_longer(job: Job) -> None:
    leave(job, started="7\n")
    now = timezone.now()
    Experiment.objects.update(cancelled_at=now)
    assert words(collected(job, gone_at=now, cancel_requested_at=now)) == (
        "cancelled",
        "cancelled",
        "cancelled by a person",
    )
    assert job.collect_at is None
    assert job.runs.get().state == "cancelled"


def test_a_file_system_that_refuses_is_asked_again_and_then_told(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch)
    assert collected(job, gone_at=timezone.now()).state == "collecting"
    state, reason, message = words(collected(job, gone_at=timezone.now() - LONG_AGO))
    assert (state, reason) == ("failed", "unreadable")
    assert message == (
        f"Listing {job.directory} failed: Stale file handle. Its files are in {job.directory} on "
        "far."
    )


def test_it_is_not_asked_again_for_what_a_person_has_cancelled(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch)
    now = timezone.now()
    Experiment.objects.update(cancelled_at=now)
    assert collected(job, gone_at=now, cancel_requested_at=now).state == "cancelled"


@pytest.mark.parametrize(
    ("text", "reason"), [("No space left", "disk full"), ("Disk QUOTA exceeded", "quota")]
)
def test_where_there_is_no_room_that_is_the_reason(
    text: str, reason: str, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(job, started="7\n")
    full = NotNow(text, kind="disk full", scope="site")
    monkeypatch.setattr(Runner, "why_not_written", lambda self, directory: full)
    state, named, message = words(collected(job))
    assert (state, named) == ("failed", reason)
    assert message.startswith(
        f"the job left no exit code, and there is no room for one: {text}. Its files are in"
    )


def test_a_job_of_which_nothing_says_that_it_began_is_claimed_before_it_is_sent_again(
    job: Job,
) -> None:
    job.runs.update(state="planned")
    leave(job, job__sh="exit\n")
    assert collected(job, gone_at=timezone.now()).state == "collecting"
    started = Path(job.directory, "started")
    assert not started.exists(), "not while it may still show that it began"
    assert collected(job, gone_at=timezone.now() - LONG_AGO).attempt == 2
    assert started.exists(), "no copy of it can begin"
    (event,) = job.events.filter(what="collecting → failed", run=None)
    assert "it had not begun: Tare has claimed its directory" in event.why


def test_an_operation_says_why_it_failed_and_where_its_files_are(
    cluster: Cluster, accounts: dict[str, JobEnding]
) -> None:
    directory = Path(cluster.work_directory, "operation")
    directory.mkdir()
    row = Operation.objects.create(
        kind="inspect",
        cluster=cluster,
        owner=cluster.owner,
        state="collecting",
        scheduler_id="7",
        directory=str(directory),
        gone_at=timezone.now() - LONG_AGO,
    )
    accounts["7"] = OUT_OF_MEMORY
    collect.collect(row, Runner(Local(), SCHEDULERS["slurm"]()))
    row.refresh_from_db()
    assert (row.state, row.reason) == ("failed", "out of memory")
    assert row.message.endswith(f". Its files are in {directory} on far.")
    assert ".." not in row.message


def test_files_that_cannot_be_read_stay_where_they_are_and_are_named(job: Job) -> None:
    collect.end_as_damaged(job, "Tare itself failed.")
    job.refresh_from_db()
    assert words(job) == (
        "failed",
        "damaged",
        f"Tare itself failed. Its files are in {job.directory} on far.",
    )
    assert job.runs.get().reason == "damaged"


def test_a_portion_that_the_site_has_put_back_into_its_queue_is_told_so(
    cluster: Cluster, job: Job
) -> None:
    """They are collected together, and what was seen of each while it waited again counts."""
    jobs = [job]
    directory = Path(cluster.work_directory, "other")
    directory.mkdir()
    columns = {"state": "collecting", "scheduler_id": "8", "directory": str(directory)}
    jobs.append(JobFactory(experiment=job.experiment, gone_at=job.gone_at, **columns))
    for row in jobs:
        leave(row, started=f"{row.scheduler_id}\n", exit_code="143\n")
    record_event(job.experiment, REQUEUED, job=job)
    runner = Runner(Local(), SCHEDULERS["slurm"]())
    assert collect_together(jobs, runner) == []
    requeued, other = Job.objects.order_by("pk")
    assert (requeued.attempt, other.reason) == (2, "failed"), "the rule tries it again"
    (event,) = requeued.events.filter(what="collecting → failed", run=None)
    assert event.why.startswith(
        "the scheduler's queue: the job waited there again after it had begun. Its files are in"
    )
