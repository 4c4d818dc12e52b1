"""Files over which Tare's own worker ends stop nobody: that row is given up, the others go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.utils import timezone
from rq.timeouts import JobTimeoutException

from experiments import execution
from experiments.execution import read_attempts
from experiments.execution.late_files import request_collection
from experiments.execution.lifecycle import retry
from experiments.execution.read_attempts import MOST_AT_A_TIME, MOST_ATTEMPTS, take_turn
from experiments.models import Cluster, Experiment, Job, Operation
from runners.errors import TryAgain
from tests.conftest import collecting_each, finish, tick_until
from tests.experiments.execution.test_odd_records import beside

# `experiments.execution.tick` is the function too.
tick = sys.modules["experiments.execution.tick"]
Make = Callable[..., Experiment]

VISIT = """
import os, signal, sys
import django
django.setup()
from experiments import execution
from experiments.execution import collect
read = collect.Runner.collect

def read_and_die(self, directory, **options):
    if directory == sys.argv[2]:
        read(self, directory, **options)
        os.kill(os.getpid(), signal.SIGKILL)
    return read(self, directory, **options)

read_all = collect.Runner.collect_all

def read_all_and_die(self, directories):
    if sys.argv[2] in directories:
        read_all(self, directories)
        os.kill(os.getpid(), signal.SIGKILL)
    return read_all(self, directories)

collect.Runner.collect = read_and_die
collect.Runner.collect_all = read_all_and_die
print(execution.tick(int(sys.argv[1])))
"""


def visit(job: Job) -> subprocess.CompletedProcess[str]:
    """Visit its cluster from a process of its own, which is killed while it reads `job`'s files."""
    database = connection.settings_dict
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "dashboard.settings",
        "DATABASE_URL": f"postgresql://{database['USER']}:{database['PASSWORD']}"
        f"@{database['HOST']}:{database['PORT']}/{database['NAME']}",
    }
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", VISIT, str(job.cluster_id), job.directory],
        env=environment,
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        check=False,
    )


def wait_to_be_collected(*made: Experiment) -> None:
    """Visit until the jobs have ended and only their files are to be fetched."""
    collecting = Job.objects.filter(state=Job.State.COLLECTING)
    with collecting_each(mock.Mock()):
        tick_until(made[0].cluster, lambda: collecting.count() == len(made))
    Job.objects.update(collecting_tried_at=None)


@pytest.mark.django_db(transaction=True)
def test_few_rows_are_read_alone_at_the_same_time(
    experiment: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row may need hundreds of megabytes, and the slots of a worker share its memory."""
    monkeypatch.setattr(read_attempts, "TURN_SECONDS", 0.0)
    made = experiment()
    wait_to_be_collected(made)
    with ExitStack() as others:
        for _ in range(MOST_AT_A_TIME):
            assert others.enter_context(take_turn())
        assert execution.tick(made.cluster.pk) == "done"
        job = made.jobs.get()
        assert (job.state, job.collecting_attempts) == ("collecting", 0)
    execution.tick(made.cluster.pk)
    assert made.jobs.get().state == "done"


@pytest.mark.django_db(transaction=True)
def test_a_visit_waits_for_its_turn_once(experiment: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each of its rows would wait, for minutes, and nothing be sent meanwhile."""
    monkeypatch.setattr(read_attempts, "TURN_SECONDS", 0.0)
    first = experiment()
    made = [first, beside(first), beside(first, "third")]
    wait_to_be_collected(*made)
    Job.objects.update(collecting_attempts=1)
    with ExitStack() as others:
        for _ in range(MOST_AT_A_TIME):
            assert others.enter_context(take_turn())
        with mock.patch.object(tick, "take_turn", side_effect=take_turn) as asked:
            assert execution.tick(first.cluster_id) == "done"
    assert asked.call_count == 1
    execution.tick(first.cluster_id)
    assert {row.jobs.get().state for row in made} == {"done"}


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_is_killed_over_one_jobs_files_stops_no_other(experiment: Make) -> None:
    culprit = experiment()
    innocent = [beside(culprit), beside(culprit, "third")]
    wait_to_be_collected(culprit, *innocent)
    job = culprit.jobs.get()
    for attempt in range(1, MOST_ATTEMPTS + 1):
        assert visit(job).returncode == -signal.SIGKILL
        job.refresh_from_db()
        assert (job.state, job.collecting_attempts) == ("collecting", attempt)
        # First all are read together, then each alone: the others come first, and come home.
        states = {row.jobs.get().state for row in innocent}
        assert states == ({"done"} if attempt == 3 else {"collecting"})
    last = visit(job)
    assert last.stdout == "done\n", last.stderr
    job.refresh_from_db()
    assert (job.state, job.reason) == ("failed", "damaged")
    assert "Tare's worker ended 3 times while it read this job's files" in job.message
    assert job.directory in job.message
    culprit.cluster.refresh_from_db()
    assert str(job) in culprit.cluster.recent_failure
    for row in innocent:
        assert set(row.runs.values_list("state", flat=True)) == {"succeeded"}


@pytest.mark.django_db
class TestAttempts:
    def given_up(self, made: Experiment) -> Job:
        wait_to_be_collected(made)
        Job.objects.update(collecting_attempts=MOST_ATTEMPTS)
        assert execution.tick(made.cluster_id) == "done"
        job = made.jobs.get()
        assert (job.state, job.reason) == ("failed", "damaged")
        made.cluster.refresh_from_db()
        assert made.cluster.own_failure == (
            f"{job}: Tare's worker ended 3 times while it read this job's files, by its memory or "
            "by its time: they are left alone until somebody has them read again."
        )
        return job

    def test_a_time_out_of_the_worker_counts(self, experiment: Make) -> None:
        made = experiment()
        wait_to_be_collected(made)
        for _ in range(MOST_ATTEMPTS):
            Cluster.objects.update(retry_at=None)
            with (
                collecting_each(mock.Mock(side_effect=JobTimeoutException("600 s"))),
                pytest.raises(JobTimeoutException),
            ):
                execution.tick(made.cluster_id)
        Cluster.objects.update(retry_at=None)
        assert execution.tick(made.cluster_id) == "done"
        assert made.jobs.get().reason == "damaged"

    @pytest.mark.parametrize(
        "error",
        [
            TryAgain("nobody answers", kind="unreachable"),
            TryAgain("no answer in 300 s", kind="time-out"),
            OperationalError("gone"),
            KeyboardInterrupt(),
        ],
    )
    def test_what_tare_sees_never_counts(self, experiment: Make, error: BaseException) -> None:
        made = experiment()
        wait_to_be_collected(made)
        for _ in range(MOST_ATTEMPTS + 2):
            Cluster.objects.update(retry_at=None)
            with (
                collecting_each(mock.Mock(side_effect=error)),
                suppress(OperationalError, KeyboardInterrupt),
            ):
                execution.tick(made.cluster_id)
            assert made.jobs.get().collecting_attempts == 0
        Cluster.objects.update(retry_at=None)
        finish(made)
        assert made.jobs.get().state == "done"

    def test_whoever_was_tried_in_vain_comes_last(self, experiment: Make) -> None:
        first = experiment()
        second = beside(first)
        wait_to_be_collected(first, second)
        order: list[int] = []

        def note(row: Job, *_: object) -> None:
            order.append(row.experiment_id)
            if row.experiment_id == first.pk:
                raise TryAgain("no answer in 300 s", kind="time-out")

        with collecting_each(note):
            execution.tick(first.cluster_id)
            third = beside(first, "third")
            third.jobs.update(state="collecting", scheduler_id="1-1", directory="/nowhere")
            execution.tick(first.cluster_id)
        assert order == [first.pk, second.pk, third.pk, first.pk, second.pk]

    def test_a_visit_that_has_read_for_long_sends_before_it_reads_more(
        self, experiment: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = experiment()
        wait_to_be_collected(made)
        other = beside(made)
        monkeypatch.setattr(tick, "COLLECTING_SECONDS", -1)
        execution.tick(made.cluster_id)
        assert made.jobs.get().state == "collecting"
        assert other.jobs.get().state == "queued"
        monkeypatch.undo()
        finish(made)
        finish(other)

    def test_nothing_reads_them_again_unless_a_person_asks(self, experiment: Make) -> None:
        job = self.given_up(experiment())
        rows = Job.objects.filter(pk=job.pk)
        assert job.collect_at
        rows.update(collect_at=timezone.now() - timedelta(seconds=1))
        with mock.patch.object(tick, "collect_again") as read:
            execution.tick(job.cluster_id)
            read.assert_not_called()
        job.refresh_from_db()
        assert job.collect_at is None
        assert request_collection(job, job.experiment.owner)
        execution.tick(job.cluster_id)
        job.refresh_from_db()
        assert (job.state, job.collecting_attempts) == ("done", 0)
        assert set(job.runs.values_list("state", flat=True)) == {"succeeded"}

    def test_a_late_job_over_which_the_worker_ends_is_put_off_before(
        self, experiment: Make
    ) -> None:
        job = self.given_up(experiment())
        rows = Job.objects.filter(pk=job.pk)
        rows.update(collecting_attempts=0, collect_at=timezone.now() - timedelta(seconds=1))
        with (
            mock.patch.object(tick, "collect_again", side_effect=JobTimeoutException("600 s")),
            pytest.raises(JobTimeoutException),
        ):
            execution.tick(job.cluster_id)
        job.refresh_from_db()
        assert job.collecting_attempts == 1
        assert job.collect_at
        assert job.collect_at > timezone.now()

    def test_the_next_attempt_of_a_job_begins_anew(self, experiment: Make) -> None:
        job = self.given_up(experiment())
        retry(job, job.experiment.owner)
        job.refresh_from_db()
        assert (job.collecting_attempts, job.collecting_tried_at) == (0, None)
        finish(job.experiment)

    def test_an_operation_is_given_up_in_the_same_way(self, here: Cluster) -> None:
        columns: dict[str, Any] = {"state": "collecting", "scheduler_id": "1-1", "directory": "/x"}
        operation = Operation.objects.create(
            kind="inspect", cluster=here, owner=here.owner, collecting_attempts=3, **columns
        )
        assert execution.tick(here.pk) == "done"
        operation.refresh_from_db()
        assert (operation.state, operation.reason) == ("failed", "damaged")
        assert "this operation's files" in operation.message
