"""What the rule of a cluster removes from its disk: real directories, real jobs, PostgreSQL."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from django.db import connection, transaction
from django.utils import timezone

from experiments import execution
from experiments.execution import pins, retention_operations
from experiments.execution.copy_requests import request_copy
from experiments.execution.further_attempts import find_further_attempts
from experiments.execution.late_files import request_collection
from experiments.execution.retention import describe_future, list_due, summarize
from experiments.models import (
    AuditEntry,
    Cluster,
    Event,
    Experiment,
    Job,
    Operation,
    Removal,
    Run,
    RunFile,
    ShareLink,
)
from runners.runner import Runner
from tests.conftest import finish, pause_longer, tick_until
from tests.factories import JobFactory, LaunchedFactory, OperationFactory, RunFactory

pytestmark = pytest.mark.django_db

DAYS = 30


@pytest.fixture
def ruled(here: Cluster) -> Cluster:
    """A cluster with a rule."""
    Cluster.objects.update(retention_days=DAYS)
    here.refresh_from_db()
    return here


@pytest.fixture
def launched(ruled: Cluster) -> Experiment:
    made: Experiment = LaunchedFactory(cluster=ruled, partition=None, owner=ruled.owner)
    return made


def ended(experiment: Experiment, *, days: float = DAYS + 1, **columns: Any) -> Job:
    """Make an ended job, verified so many days ago, with a directory on the disk."""
    uid = uuid.uuid4().hex
    directory = Path(experiment.cluster.work_directory, "jobs", f"{uid}-1")
    directory.mkdir(parents=True)
    (directory / "exit_code").write_text("0\n")
    verified_at = timezone.now() - timedelta(days=days)
    about = {"uid": uid, "directory": str(directory), "verified_at": verified_at, **columns}
    made: Job = JobFactory(experiment=experiment, **about)
    RunFactory(job=made)
    return made


def is_there(job: Job) -> bool:
    return Path(job.directory).is_dir()


def clean_up(cluster: Cluster) -> Operation:
    """Visit until the rule was applied once more."""
    Cluster.objects.filter(pk=cluster.pk).update(removal_checked_at=None)
    operations = Operation.objects.filter(kind="clean_up", cluster=cluster)
    operations.update(requested_at=timezone.now() - timedelta(days=2))
    before = operations.count()
    final = operations.filter(state__in=Operation.FINAL)
    tick_until(cluster, lambda: final.count() > before)
    last: Operation = operations.order_by("pk").last()
    return last


def removal_of(job: Job) -> Removal:
    return Removal.objects.get(job=job)


def test_a_real_job_is_verified_removed_by_the_rule_and_says_so(
    ruled: Cluster, experiment: Callable[..., Experiment]
) -> None:
    finish(made := experiment())
    job = made.jobs.get()
    assert job.verified_at
    assert list(list_due(ruled)) == []
    assert summarize(ruled).next_at == job.verified_at + timedelta(days=DAYS)
    Job.objects.update(verified_at=job.verified_at - timedelta(days=DAYS))
    operation = clean_up(ruled)
    assert (operation.state, operation.message) == ("done", "")
    assert not is_there(job)
    removal = removal_of(job)
    assert removal.freed_bytes
    assert removal.sentence.startswith("Its files on the cluster were removed on ")
    assert f"by the rule of {DAYS} days" in removal.sentence
    event = Event.objects.get(what="files removed from the cluster")
    assert (event.job, event.why) == (job, removal.sentence)
    summary = summarize(ruled)
    assert (summary.removed, summary.freed_bytes) == (1, removal.freed_bytes)
    assert list(list_due(ruled)) == []


def test_without_a_rule_everything_stays(here: Cluster) -> None:
    job = ended(LaunchedFactory(cluster=here, partition=None), days=9999)
    execution.tick(here.pk)
    assert is_there(job)
    assert not Operation.objects.exists()
    assert describe_future(job) == ""


def pin(job: Job) -> None:
    pins.pin(job.experiment, job.experiment.owner)


def link(job: Job) -> None:
    Experiment.objects.filter(pk=job.experiment_id).update(visibility="public")
    ShareLink.objects.make(job.experiment)


def add_file(job: Job, **columns: Any) -> RunFile:
    run = job.runs.get()
    return RunFile.objects.create(run=run, path="model.ckpt", size_bytes=9, **columns)


def want(job: Job) -> None:
    assert request_copy(add_file(job), job.experiment.owner)


def set_columns(**columns: Any) -> Callable[[Job], object]:
    return lambda job: Job.objects.filter(pk=job.pk).update(**columns)


def copied_long_ago(job: Job) -> None:
    then = timezone.now() - timedelta(days=DAYS + 1)
    add_file(job, requested_at=then, copied_at=then)


def expire_link(job: Job) -> None:
    link(job)
    ShareLink.objects.update(expires_at=timezone.now() - timedelta(days=1))


def unpin(job: Job) -> None:
    pin(job)
    pins.unpin(job.experiment, job.experiment.owner)


STAY: dict[str, Callable[[Job], object]] = {
    "younger": set_columns(verified_at=timezone.now() - timedelta(days=DAYS - 1)),
    "never verified": set_columns(verified_at=None),
    "files still expected": set_columns(collect_at=timezone.now() + timedelta(hours=1)),
    "not final": set_columns(state="collecting"),
    "elsewhere": set_columns(directory="/etc"),
    "below an earlier work directory": lambda job: Job.objects.filter(pk=job.pk).update(
        directory=f"/old{job.directory}"
    ),
    "of an earlier attempt": set_columns(attempt=2),
    "pinned": pin,
    "behind a link": link,
    "a copy is waited for": want,
    "a copy was wanted lately": lambda job: add_file(
        job, requested_at=timezone.now() - timedelta(days=2), copied_at=timezone.now()
    ),
    "files were never copied": add_file,
}
GO: dict[str, Callable[[Job], object]] = {
    "unpinned": unpin,
    "the link has ended": expire_link,
    "its files were copied": copied_long_ago,
    "failed": set_columns(state="failed", exit_code=1),
}


@pytest.mark.parametrize("why", STAY)
def test_what_holds_a_directory(why: str, launched: Experiment) -> None:
    job, other = ended(launched), ended(LaunchedFactory(cluster=launched.cluster, partition=None))
    STAY[why](job)
    assert list(list_due(launched.cluster)) == [other]
    with mock.patch.object(retention_operations, "MOST_AT_A_TIME", 1):
        assert clean_up(launched.cluster).state == "done"
    assert (is_there(job), is_there(other)) == (True, False)


@pytest.mark.parametrize("why", GO)
def test_what_holds_no_directory(why: str, launched: Experiment) -> None:
    job = ended(launched)
    GO[why](job)
    assert list(list_due(launched.cluster)) == [job]


def test_files_that_were_never_copied_go_only_if_the_rule_says_so(launched: Experiment) -> None:
    job = ended(launched)
    add_file(job)
    assert summarize(launched.cluster).held == [("they hold files that were never copied", 1)]
    assert "some were never copied" in describe_future(job)
    Cluster.objects.update(removes_uncopied=True)
    cluster = Cluster.objects.get(pk=launched.cluster_id)
    assert list(list_due(cluster)) == [job]


def test_a_record_with_a_flaw_is_not_verified(experiment: Callable[..., Experiment]) -> None:
    made = experiment()
    real = Runner.collect

    def collect(runner: Runner, directory: str, **rest: Any) -> Any:
        record = real(runner, directory, **rest)
        record["snapshot/uname"] = b"another machine"
        return record

    with mock.patch.object(Runner, "collect", collect):
        finish(made)
    job = made.jobs.get()
    assert (job.state, job.collect_at, job.verified_at) == ("done", None, None)


def test_odd_things_on_the_disk_are_said_and_left(launched: Experiment, tmp_path: Path) -> None:
    gone, linked, usual = (ended(launched) for _ in range(3))
    for job in (gone, linked):
        Path(job.directory, "exit_code").unlink()
        Path(job.directory).rmdir()
    (tmp_path / "elsewhere").mkdir()
    Path(linked.directory).symlink_to(tmp_path / "elsewhere")
    assert clean_up(launched.cluster).state == "done"
    assert not is_there(usual)
    assert "gone already" in removal_of(gone).sentence
    assert Path(linked.directory).is_symlink()
    failed = removal_of(linked)
    assert (failed.removed_at, "link" in failed.problem) == (None, True)
    summary = summarize(launched.cluster)
    assert (summary.problems, summary.removed, summary.due) == ([failed], 2, 1)
    assert list(list_due(launched.cluster)) == [], "tried again after a day"
    Removal.objects.update(chosen_at=timezone.now() - timedelta(days=2))
    Path(linked.directory).unlink()
    Path(linked.directory).mkdir()
    clean_up(launched.cluster)
    assert not is_there(linked)


def test_after_it_nothing_is_offered_that_cannot_be_done(launched: Experiment) -> None:
    Cluster.objects.update(removes_uncopied=True)
    job = ended(launched, state="failed")
    Run.objects.update(state="failed")
    file = add_file(job)
    assert find_further_attempts(job).can_collect
    clean_up(launched.cluster)
    assert not find_further_attempts(job).can_collect
    assert not request_collection(job, launched.owner)
    assert not request_copy(file, launched.owner)
    assert find_further_attempts(job).can_retry, "a further attempt has a directory of its own"


def test_what_is_pinned_between_choosing_and_removing_stays(launched: Experiment) -> None:
    """The operation waits in the queue of the cluster meanwhile."""
    job, other = ended(launched), ended(LaunchedFactory(cluster=launched.cluster, partition=None))
    with mock.patch("runners.removals.SCRIPT", "sleep 600\n"):
        operation = until_live(launched.cluster)
    assert Removal.objects.under_way().count() == 2
    assert not request_collection(job, launched.owner)
    assert pins.pin(launched, launched.owner) == 1
    tick_until(launched.cluster, lambda: not Operation.objects.exclude(state="cancelled").exists())
    operation.refresh_from_db()
    assert operation.message == retention_operations.INTERRUPTED
    assert not Removal.objects.exists()
    clean_up(launched.cluster)
    assert (is_there(job), is_there(other)) == (True, False)
    assert pins.pin(launched, launched.owner) == 0
    assert AuditEntry.objects.filter(what="files pinned").count() == 1


def until_live(cluster: Cluster) -> Operation:
    """Visit until an operation of the rule runs."""
    live = Operation.objects.filter(state="running", kind="clean_up")
    tick_until(cluster, live.exists)
    return live.get()


HELD_MEANWHILE: dict[str, Callable[[Job], object]] = {
    "a link": link,
    "a longer rule": lambda job: Cluster.objects.update(retention_days=DAYS + 100),
    "no rule": lambda job: Cluster.objects.update(retention_days=None),
}


@pytest.mark.parametrize("why", HELD_MEANWHILE)
def test_what_is_held_meanwhile_ends_the_operation(why: str, launched: Experiment) -> None:
    job = ended(launched)
    with mock.patch("runners.removals.SCRIPT", "sleep 600\n"):
        operation = until_live(launched.cluster)
    HELD_MEANWHILE[why](job)
    tick_until(launched.cluster, Operation.objects.filter(state="cancelled").exists)
    assert operation.pk == Operation.objects.get().pk
    assert is_there(job)
    assert not Removal.objects.exists()


def test_what_is_pinned_before_it_is_sent_is_not_among_them(launched: Experiment) -> None:
    job = ended(launched)
    operation = OperationFactory(
        kind="clean_up", cluster=launched.cluster, staged_image=None, state="planned"
    )
    pin(job)
    tick_until(launched.cluster, Operation.objects.filter(state="failed").exists)
    operation.refresh_from_db()
    assert operation.message == "There is nothing to remove any more."
    assert is_there(job)


ASKED_FOR_MEANWHILE: dict[str, Callable[[Job], object]] = {
    "a copy": lambda job: request_copy(RunFile.objects.get(run__job=job), job.experiment.owner),
    "another collection": lambda job: request_collection(job, job.experiment.owner),
    "a pin": lambda job: pins.pin(job.experiment, job.experiment.owner),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("what", ASKED_FOR_MEANWHILE)
def test_what_is_asked_for_while_it_is_being_chosen_stays(what: str, launched: Experiment) -> None:
    """Whoever asks is first here, and the choice waits for them."""
    Cluster.objects.update(removes_uncopied=True)
    job = ended(launched)
    job.runs.update(state="failed")
    RunFile.objects.create(run=job.runs.get(), path="checkpoint", size_bytes=10)
    operation = OperationFactory(
        kind="clean_up", cluster=launched.cluster, staged_image=None, state="planned"
    )
    chosen: list[Job] = []

    def choose() -> None:
        chosen.extend(retention_operations._choose(operation))
        connection.close()

    chooser = threading.Thread(target=choose)
    with transaction.atomic():
        assert ASKED_FOR_MEANWHILE[what](job) is not False
        chooser.start()
        wait_for_a_lock()
    chooser.join(120)
    assert chosen == []
    assert not Removal.objects.exists()


def wait_for_a_lock() -> None:
    """Wait until another connection waits for a row that this one has locked."""
    query = """SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'"""
    for _ in zip(range(240), pause_longer(), strict=False):
        with connection.cursor() as cursor:
            # Within a transaction PostgreSQL tells again and again what it has told once.
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(query)
            if cursor.fetchone()[0]:
                return
    raise AssertionError("nobody waits")


def test_a_worker_killed_after_sending_removes_nothing_twice(launched: Experiment) -> None:
    job = ended(launched)
    real = Runner.submit_all

    def submit(runner: Runner, jobs: Any) -> object:
        real(runner, jobs)
        raise SystemExit("the worker dies here")

    with mock.patch.object(Runner, "submit_all", submit), pytest.raises(SystemExit):
        execution.tick(launched.cluster_id)
    tick_until(launched.cluster, Operation.objects.filter(state="done").exists)
    assert not is_there(job)
    assert removal_of(job).freed_bytes is not None
    assert Event.objects.filter(what="files removed from the cluster").count() == 1


def test_what_was_removed_though_nobody_heard_of_it_is_said_to_be_gone(
    launched: Experiment,
) -> None:
    job = ended(launched)
    silent = f"rm -rf {job.directory}; kill -KILL $PPID $$\n"
    with mock.patch("runners.removals.SCRIPT", silent):
        assert clean_up(launched.cluster).state == "failed"
    assert not is_there(job)
    assert not Removal.objects.exists()
    clean_up(launched.cluster)
    assert "gone already" in removal_of(job).sentence


def test_an_operation_a_day_unless_there_is_much(launched: Experiment) -> None:
    ended(launched)
    clean_up(launched.cluster)
    ended(launched)
    with mock.patch.object(retention_operations, "LOOKED_FOR", timedelta(0)):
        execution.tick(launched.cluster_id)
        assert Operation.objects.count() == 1
        with mock.patch.object(retention_operations, "MOST_AT_A_TIME", 1):
            execution.tick(launched.cluster_id)
    assert Operation.objects.count() == 2


def test_a_removal_asks_the_scheduler_for_an_hour(launched: Experiment) -> None:
    ended(launched)
    operation = OperationFactory(kind="clean_up", cluster=launched.cluster)
    assert retention_operations.CleanUp().work(operation).seconds == 3600


@pytest.mark.timeout(700)
def test_five_thousand_directories_go_a_bounded_number_at_a_time(launched: Experiment) -> None:
    folder = Path(launched.cluster.work_directory, "jobs")
    first = ended(launched)
    template = Job.objects.get(pk=first.pk)
    jobs = []
    for number in range(5000):
        uid = f"{number:032x}"
        directory = folder / f"{uid}-1"
        (directory / "runs").mkdir(parents=True)
        (directory / "runs" / "result.json").write_text("{}")
        template.pk, template.uid, template.directory = None, uid, str(directory)
        jobs.append(Job(**{f.attname: getattr(template, f.attname) for f in Job._meta.fields}))
    Job.objects.bulk_create(jobs, batch_size=1000)
    tick_until(launched.cluster, lambda: Removal.objects.done().count() >= 5000, seconds=600)
    assert len(list(folder.iterdir())) == 1, "the rest goes with tomorrow's"
    most = max(operation.removals.count() for operation in Operation.objects.all())
    assert most == retention_operations.MOST_AT_A_TIME
    assert Operation.objects.count() <= 11
