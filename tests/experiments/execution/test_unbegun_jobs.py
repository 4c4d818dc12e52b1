"""Jobs that the scheduler lost before they began are sent again, and never executed twice."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from experiments import execution
from experiments.comparisons import TRIED_AGAIN
from experiments.execution import attempts_by_rule, collect, lifecycle
from experiments.execution.attempts_by_rule import MOST_BY_RULE, NOT_TRIED, TRIED_BY_RULE
from experiments.execution.moves import record_event
from experiments.execution.unbegun_jobs import GONE, LOST
from experiments.models import Cluster, Experiment, Job
from runners.ends import ENDS
from runners.errors import TryAgain
from runners.runner import Runner
from runners.schedulers import Direct, JobEnding
from tests.conftest import finish, tick_until
from tests.faults.site import Load, launch

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def load(here: Cluster, tmp_path: Path) -> Iterator[Load]:
    """Three jobs: the first one has the machine, and the others are lost while they wait for it."""
    load = launch(here, tmp_path, str(tmp_path), blocks=3)
    tick_until(here, load.experiment.runs.filter(state="running").exists)
    for job in list_waiting(load.experiment):
        os.killpg(int(job.scheduler_id.partition("-")[0]), signal.SIGKILL)
    yield load
    load.gate.touch()


@pytest.fixture
def made(load: Load) -> Experiment:
    return load.experiment


def finish_all(load: Load) -> None:
    """Open the gate, and check what is promised after any fault: all is executed once."""
    load.gate.touch()
    finish(load.experiment)
    account = load.make_account()
    assert account.is_kept, account
    assert account.executions == account.runs == 6
    assert set(load.experiment.runs.values_list("state", flat=True)) == {"succeeded"}


def list_waiting(made: Experiment) -> list[Job]:
    return list(made.jobs.filter(block__gt=0).order_by("block"))


def notice(made: Experiment) -> None:
    """Have Tare see that they are gone, and wait as long as files may be late."""
    collecting = made.jobs.filter(block__gt=0, state=Job.State.COLLECTING)
    tick_until(made.cluster, lambda: collecting.count() == 2)
    for job in collecting:
        assert not Path(job.directory, "started").exists(), "nothing is claimed too early"
    Job.objects.filter(block__gt=0).update(gone_at=timezone.now() - timedelta(minutes=1))


def run_late_copy(directory: str) -> str:
    """Run a job's script, without its wait for the machine, and return what it prints."""
    _, _, rest = Path(directory, "job.sh").read_text().partition("# The runs of one block")
    copy = subprocess.run(
        ["bash", "-c", f"#{rest}"], capture_output=True, text=True, check=False, cwd=directory
    )
    return copy.stdout


def test_they_are_sent_again_and_each_run_is_executed_once(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = load.experiment
    lost = sorted(job.directory for job in list_waiting(made))
    commands: list[Any] = []
    claim = Runner.claim

    def note(self: Runner, directories: Any) -> set[str]:
        commands.append(sorted(directories))
        return claim(self, directories)

    monkeypatch.setattr(Runner, "claim", note)
    notice(made)
    assert execution.tick(made.cluster_id) == "done"
    assert commands == [lost], "one command for all of them"
    finish_all(load)
    assert sorted(made.jobs.values_list("attempt", flat=True)) == [1, 2, 2]
    for event in made.events.filter(what="collecting → failed", run=None):
        assert event.why.startswith(
            "its process is gone, as after a restart of the machine, and it had not begun: Tare "
            "has claimed its directory, so no copy of it can begin. Its files are in "
        )
    reasons = made.events.filter(what=TRIED_BY_RULE).values_list("why", flat=True)
    assert [why.partition(" (")[0] for why in reasons] == [LOST, LOST]
    assert not made.events.filter(what=TRIED_AGAIN).exists(), "nobody has chosen"
    before = load.counter.read_text()
    for directory in lost:
        assert "steps aside" in run_late_copy(directory)
    assert load.counter.read_text() == before


def test_a_worker_that_dies_after_the_claim_costs_nothing(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    claim = Runner.claim

    def claim_and_die(self: Runner, directories: Any) -> set[str]:
        claim(self, directories)
        raise Killed

    notice(load.experiment)
    with monkeypatch.context() as patched:
        patched.setattr(Runner, "claim", claim_and_die)
        with pytest.raises(Killed):
            execution.tick(load.cluster.pk)
    assert {job.state for job in list_waiting(load.experiment)} == {"collecting"}
    Job.objects.update(collecting_attempts=0)  # else each is collected alone, with its own command
    finish_all(load)


def test_a_job_that_begins_at_that_moment_is_not_sent_again(
    made: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = list_waiting(made)
    claim = Runner.claim

    def begin_first(self: Runner, directories: Any) -> set[str]:
        Path(first.directory, "started").write_text(f"{first.scheduler_id}\n")
        return claim(self, directories)

    monkeypatch.setattr(Runner, "claim", begin_first)
    notice(made)
    execution.tick(made.cluster_id)
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, first.attempt, first.reason) == ("failed", 1, "lost")
    assert second.attempt == 2
    assert Path(first.directory, "started").read_text().strip() == first.scheduler_id


def test_a_job_that_comes_back_before_the_claim_is_not_sent_again(load: Load) -> None:
    first, second = list_waiting(load.experiment)
    notice(load.experiment)
    load.gate.touch()
    assert "steps aside" not in run_late_copy(first.directory)
    finish_all(load)
    first.refresh_from_db()
    second.refresh_from_db()
    assert [(job.state, job.attempt) for job in (first, second)] == [("done", 1), ("done", 2)]


@pytest.mark.parametrize("alone", [False, True])
def test_accounts_that_do_not_answer_are_waited_for(
    load: Load, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    """However long it lasts: nothing is claimed, nobody else waits, and the page says why."""
    made = load.experiment
    problem = "Slurm does not answer: sacct: error: Problem talking to the database"

    def away(self: Runner, ids: Any) -> Any:
        raise TryAgain(problem, kind="busy")

    notice(made)
    load.gate.touch()
    with monkeypatch.context() as patched:
        patched.setattr(Runner, "read_endings", away)
        if alone:
            Job.objects.update(collecting_attempts=1)
        tick_until(load.cluster, made.jobs.filter(block=0, state="done").exists)
        Job.objects.filter(block__gt=0).update(gone_at=timezone.now() - timedelta(hours=1))
        assert execution.tick(load.cluster.pk) == "done"
    for job in list_waiting(made):
        assert (job.state, job.attempt) == ("collecting", 1)
        assert not Path(job.directory, "started").exists()
    assert Cluster.objects.get().own_failure.endswith(
        f": it has ended, and waits for the scheduler's accounts. {problem}"
    )
    finish_all(load)


def test_what_the_accounts_know_is_not_lost(
    made: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    notice(made)
    word = JobEnding("CANCELLED by 1000", "0:0", "", "", "cancelled outside", "sacct")
    monkeypatch.setattr(Runner, "read_endings", lambda self, ids: dict.fromkeys(ids, word))
    execution.tick(made.cluster_id)
    for job in list_waiting(made):
        assert (job.state, job.reason, job.attempt) == ("failed", "cancelled outside", 1)


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(
    "word",
    [
        JobEnding("CANCELLED", "0:0", "by nobody", "", "controller failure", "sacct"),
        JobEnding("TIMEOUT", "0:0", "", "node2", "time-out", "sacct"),
    ],
)
def test_what_never_began_is_claimed_though_it_has_accounts(
    load: Load, monkeypatch: pytest.MonkeyPatch, word: JobEnding, alone: bool
) -> None:
    """As after slurmctld came back without its state, and where a node never started a job."""
    accounts = "TIMEOUT 0:0, node2" if word.node else "CANCELLED 0:0 by nobody"
    monkeypatch.setattr(attempts_by_rule, "LATE_RESULTS", timedelta(0))
    notice(load.experiment)
    with monkeypatch.context() as patched:
        patched.setattr(Runner, "read_endings", lambda self, ids: dict.fromkeys(ids, word))
        if alone:
            Job.objects.update(collecting_attempts=1)
        Job.objects.filter(block__gt=0).update(gone_at=timezone.now())
        execution.tick(load.cluster.pk)
        lost = list_waiting(load.experiment)
        assert {job.state for job in lost} == {"collecting"}, "it may still show that it began"
        Job.objects.filter(block__gt=0).update(gone_at=timezone.now() - timedelta(minutes=1))
        execution.tick(load.cluster.pk)
    reasons = load.experiment.events.filter(what=TRIED_BY_RULE).values_list("why", flat=True)
    claimed = "Tare has claimed its directory, so no copy of it can begin"
    why = f"{LOST} (sacct: {accounts}, and it had not begun: {claimed})"
    assert list(reasons) == [why, why]
    assert all("steps aside" in run_late_copy(job.directory) for job in lost)
    finish_all(load)


@pytest.fixture
def number_given_again(load: Load, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A lost job whose number the scheduler has given to the first one, as Slurm does."""
    first, lost = load.experiment.jobs.order_by("block")[:2]
    Job.objects.filter(pk=lost.pk).update(scheduler_id=first.scheduler_id)
    ended = JobEnding("CANCELLED by 1000", "0:0", "", "", "cancelled outside", "sacct", first.name)
    poll, owner = Runner.poll, first.name

    def poll_with_names(self: Runner, ids: Any) -> Any:
        return {
            key: replace(status, name=owner) if key == first.scheduler_id else status
            for key, status in poll(self, ids).items()
        }

    monkeypatch.setattr(Runner, "poll", poll_with_names)
    monkeypatch.setattr(Runner, "read_endings", lambda self, ids: dict.fromkeys(ids, ended))
    lost.refresh_from_db()
    return lost


def test_a_number_that_was_given_again_is_another_job(load: Load, number_given_again: Job) -> None:
    """Neither the queue's word nor the accounts' about that number is taken for the lost job's."""
    notice(load.experiment)
    finish_all(load)
    number_given_again.refresh_from_db()
    assert (number_given_again.state, number_given_again.attempt) == ("done", 2)


def test_no_other_job_is_cancelled_by_its_number(load: Load, number_given_again: Job) -> None:
    now = timezone.now()
    Experiment.objects.update(cancelled_at=now)  # else the job is taken back, to be sent again
    Job.objects.filter(pk=number_given_again.pk).update(cancel_requested_at=now)
    load.gate.touch()
    finish(load.experiment)
    states = load.experiment.jobs.order_by("block").values_list("state", flat=True)
    assert list(states)[:2] == ["done", "cancelled"]


def test_where_deleted_jobs_leave_no_account_a_person_decides(
    made: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Grid Engine's accounts have only what began: somebody may have deleted them on purpose."""
    monkeypatch.setattr(Direct, "remembers_deleted_jobs", False)
    notice(made)
    execution.tick(made.cluster_id)
    for job in list_waiting(made):
        assert (job.state, job.reason, job.attempt) == ("failed", GONE, 1)
        assert "steps aside" in run_late_copy(job.directory)
        lifecycle.retry(job, made.owner)
    assert not made.events.filter(what=TRIED_AGAIN).exists()


def test_the_rule_has_its_limit_here_too(made: Experiment) -> None:
    for job in list_waiting(made):
        for _ in range(MOST_BY_RULE):
            record_event(made, TRIED_BY_RULE, job=job)
    notice(made)
    execution.tick(made.cluster_id)
    for job in list_waiting(made):
        assert (job.state, job.reason) == ("failed", LOST)
        assert job.events.filter(what=NOT_TRIED).exists()
        assert "steps aside" in run_late_copy(job.directory)


def test_a_directory_that_cannot_be_claimed_proves_nothing(
    made: Experiment, tmp_path: Path
) -> None:
    """Without its directory nobody knows whether the job had begun."""
    first, second = list_waiting(made)
    Path(first.directory).rename(tmp_path / "elsewhere")
    notice(made)
    execution.tick(made.cluster_id)
    first.refresh_from_db()
    assert (first.state, first.reason, first.attempt) == ("failed", "lost", 1)
    second.refresh_from_db()
    assert second.attempt == 2


def test_what_a_person_cancelled_is_not_sent_again(made: Experiment) -> None:
    lifecycle.cancel(made, made.owner)
    finish(made)
    assert {job.state for job in list_waiting(made)} == {"cancelled"}


def test_both_ends_are_in_the_table() -> None:
    assert (ENDS[LOST].by_rule, ENDS[GONE].by_rule) == (True, False)
    assert {LOST, GONE} <= set(lifecycle.NEVER_STARTED)
    assert timedelta(minutes=1) >= collect.LATE_EXIT_CODE
