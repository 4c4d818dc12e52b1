"""What a machine or the site's rule ended is tried again by rule; what a program ended is not."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from experiments import execution
from experiments.comparisons import TRIED_AGAIN
from experiments.execution import collect, collect_together, lifecycle
from experiments.execution.attempts_by_rule import (
    MOST_BY_RULE,
    NOT_TRIED,
    TRIED_BY_RULE,
    must_wait,
    plan_by_rule,
)
from experiments.execution.moves import record_event
from experiments.execution.requeued_jobs import REQUEUED
from experiments.models import Event, Experiment, Job, Pause, Run
from runners.ends import ENDS
from runners.errors import NotNow
from runners.job_failures import name_failure
from runners.records import Record, read_record
from runners.runner import Runner
from runners.schedulers import JobEnding, Status
from tests.conftest import finish, tick_until
from tests.factories import ContainerFactory, JobFactory, RunFactory

pytestmark = pytest.mark.django_db(transaction=True)

Make = Callable[..., Experiment]
# The program is no part of that group: it ends by itself, and with it the job leaves the machine.
KILL_JOB = "kill -s KILL -- -$(cut -d- -f1 <../../started)"
NODE_FAIL = JobEnding("NODE_FAIL", "1:0", "", "node2", "node failure", "sacct")
BY_RULE = sorted(reason for reason, end in ENDS.items() if end.by_rule)


def failed_job(*outcomes: tuple[str, str], reason: str = "node failure") -> Job:
    """Return a failed job whose runs are in these states, for these reasons."""
    job: Job = JobFactory(
        state=Job.State.FAILED, reason=reason, message="sacct: NODE_FAIL 1:0, node2. Its files are"
    )
    for position, (state, why) in enumerate(outcomes):
        environment = ContainerFactory(cluster=job.cluster, name=f"environment {position}")
        RunFactory(
            job=job,
            environment=environment,
            position=position,
            state=state,
            reason=why,
            exit_code=0 if state == "succeeded" else None,
        )
    return job


def states_of(job: Job) -> list[tuple[str, int]]:
    runs = Run.objects.filter(experiment=job.experiment).order_by("position")
    return [(run.state, run.job.attempt if run.job_id == job.pk else 0) for run in runs]


@pytest.mark.parametrize("reason", sorted(ENDS))
def test_only_what_the_table_says_is_tried_again(reason: str) -> None:
    job = failed_job(("failed", reason), ("failed", "not started"), reason=reason)
    plan_by_rule([job])
    planned = [("planned", 2), ("planned", 2)]
    as_before = [("failed", 1), ("failed", 1)]
    assert states_of(Job.objects.get(pk=job.pk)) == (planned if reason in BY_RULE else as_before)
    by_rule = job.experiment.events.filter(what=TRIED_BY_RULE)
    assert [event.why for event in by_rule] == (
        [f"{reason} (sacct: NODE_FAIL 1:0, node2)"] if reason in BY_RULE else []
    )
    assert not job.experiment.events.filter(what=TRIED_AGAIN).exists(), "nobody has chosen"


@pytest.mark.parametrize(
    ("outcomes", "afterwards"),
    [
        ([("failed", "node failure")] * 2, [("planned", 2)] * 2),
        ([("succeeded", ""), ("failed", "not started")], [("succeeded", 1), ("planned", 0)]),
        ([("succeeded", ""), ("failed", "node failure")], [("succeeded", 1), ("failed", 1)]),
    ],
)
def test_a_node_that_ends_many_jobs_takes_no_more_statements_than_one(
    outcomes: list[tuple[str, str]], afterwards: list[tuple[str, int]]
) -> None:
    counts = []
    for count in (1, 4):
        jobs = [failed_job(*outcomes) for _ in range(count)]
        with CaptureQueriesContext(connection) as queries:
            plan_by_rule(jobs)
        counts.append(len(queries))
        for job in jobs:
            assert states_of(Job.objects.get(pk=job.pk)) == afterwards
    assert counts[0] == counts[1]


def test_jobs_of_one_block_count_together() -> None:
    """Two jobs of a block may end in one portion: the second one is the third try."""
    job = failed_job(("failed", "node failure"))
    second = failed_job(("failed", "node failure"))
    Job.objects.filter(pk=second.pk).update(experiment=job.experiment, block=job.block)
    Event.objects.create(experiment=job.experiment, job=job, what=TRIED_BY_RULE)
    plan_by_rule([job, second])
    assert list(Job.objects.order_by("pk").values_list("state", flat=True)) == ["planned", "failed"]
    assert second.events.get().what == NOT_TRIED


def test_second_jobs_of_one_block_count_together() -> None:
    first = failed_job(("succeeded", ""), ("failed", "not started"))
    second = failed_job(("succeeded", ""), ("failed", "not started"))
    Job.objects.filter(pk=second.pk).update(experiment=first.experiment, block=first.block)
    Event.objects.create(experiment=first.experiment, job=first, what=TRIED_BY_RULE)
    plan_by_rule([first, second])
    assert Job.objects.filter(repairs=first).count() == 1
    assert not Job.objects.filter(repairs=second).exists()
    assert second.events.get().what == NOT_TRIED


def test_beside_a_result_only_what_never_began_is_run_by_a_second_job() -> None:
    job = failed_job(("succeeded", ""), ("failed", "node failure"), ("failed", "not started"))
    Run.objects.filter(job=job, position=0).update(node="node2")
    plan_by_rule([job])
    second = Job.objects.get(repairs=job)
    assert (second.block, second.node, second.state) == (job.block, "node2", "planned")
    assert states_of(job) == [("succeeded", 1), ("failed", 1), ("planned", 0)]
    assert "by rule, after node failure" in second.events.get(what="block repaired").why
    assert not job.experiment.events.filter(what=TRIED_AGAIN).exists()


@pytest.mark.parametrize(
    "outcomes",
    [
        [("succeeded", ""), ("failed", "node failure")],
        [("failed", "crashed"), ("failed", "node failure")],
        [("excluded", ""), ("failed", "node failure")],
    ],
)
def test_what_has_begun_beside_another_outcome_is_not_run_again(
    outcomes: list[tuple[str, str]],
) -> None:
    job = failed_job(*outcomes)
    plan_by_rule([job])
    assert [state for state, _ in states_of(job)] == [state for state, _ in outcomes]
    assert not Job.objects.filter(repairs=job).exists()
    assert "another run of it has an outcome" in job.events.get(what=NOT_TRIED).why


def test_a_run_that_ended_well_is_not_run_again_though_its_files_are_missing() -> None:
    job = failed_job(("failed", "preempted"), ("failed", "not started"), reason="preempted")
    Run.objects.filter(job=job, position=0).update(exit_code=0)  # as the journal said
    plan_by_rule([job])
    assert states_of(job) == [("failed", 1), ("planned", 0)]


@pytest.mark.parametrize(
    ("exit_code", "missing", "waits"),
    [(None, [], True), (143, ["runs/0-a/exit_code"], True), (143, [], False)],
)
def test_late_files_are_waited_for_before_the_rule_acts(
    exit_code: int | None, missing: list[str], waits: bool
) -> None:
    job = JobFactory(state=Job.State.COLLECTING, scheduler_id="1", gone_at=timezone.now())
    record = dataclasses.replace(read_record({}), exit_code=exit_code, missing=missing)
    assert must_wait(job, record, "preempted") is waits


def test_the_next_attempt_avoids_nodes_without_gpus() -> None:
    job = failed_job(("failed", "not started"), reason="no GPU")
    Job.objects.update(message="node1: nvidia-smi says: No devices were found. Its files are")
    plan_by_rule([job])
    job.refresh_from_db()
    assert (job.attempt, job.avoided_nodes) == (2, "node1")
    again = {"state": "failed", "reason": "no GPU", "message": "node-2.x: nvidia-smi says: nothing"}
    Job.objects.update(**again)
    Run.objects.update(state="failed", reason="not started")
    plan_by_rule([Job.objects.get()])
    job.refresh_from_db()
    assert (job.attempt, job.avoided_nodes) == (3, "node1,node-2.x")
    Job.objects.update(**again)
    Run.objects.update(state="failed", reason="not started")
    lifecycle.retry(Job.objects.get(), job.experiment.owner)
    job.refresh_from_db()
    assert (job.attempt, job.avoided_nodes) == (4, ""), "a person knows better"


def test_a_job_that_no_other_node_can_take_is_sent_without_avoiding_any(
    experiment: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = experiment()
    Job.objects.update(avoided_nodes="node1")
    words = (
        "sbatch: error: Batch job submission failed: Requested node configuration is not available"
    )
    submit = Runner.submit_all

    def refuse(self: Runner, jobs: Any) -> Any:
        if any(job.resources.avoided_nodes for job in jobs):
            return [NotNow(words, kind="nodes", scope="request") for _ in jobs]
        return submit(self, jobs)

    monkeypatch.setattr(Runner, "submit_all", refuse)
    finish(made)
    job = made.jobs.get()
    assert (job.state, job.avoided_nodes) == ("done", "")
    assert not Pause.objects.exists()
    reason = job.events.get(what="submitting → planned").why
    assert reason == f"no other nodes than node1: {words}"


@pytest.mark.parametrize("prevented_by", ["limit", "experiment", "person"])
def test_the_rule_has_limits(prevented_by: str) -> None:
    job = failed_job(("failed", "node failure"))
    if prevented_by == "limit":
        for _ in range(MOST_BY_RULE):
            record_event(job.experiment, TRIED_BY_RULE, job=job)
    elif prevented_by == "experiment":
        Experiment.objects.update(cancelled_at=timezone.now())
    else:
        Job.objects.update(cancel_requested_at=timezone.now())
    plan_by_rule([job])
    assert states_of(Job.objects.get(pk=job.pk)) == [("failed", 1)]
    reasons = [event.why for event in job.events.filter(what=NOT_TRIED)]
    assert [why.rpartition(": ")[2] for why in reasons] == (
        ["its block has been, 2 times"] if prevented_by == "limit" else []
    )


@pytest.fixture
def dies_once(tmp_path: Path) -> str:
    """A program that kills its job the first time, and then works; each start is counted."""
    program = tmp_path / "program"
    program.write_text(
        f"#!/bin/sh\necho ran >>{tmp_path}/count\n"
        f'if [ -e {tmp_path}/died ]; then exec {sys.executable} "$@"; fi\n'
        f": >{tmp_path}/died\n{KILL_JOB}\n"
    )
    program.chmod(0o755)
    return str(program)


def test_a_node_failure_waits_for_late_files_and_is_then_tried_again(
    experiment: Make, dies_once: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_after_a_node_failure(record: Record, ending: Any, **options: Any) -> tuple[str, str]:
        return name_failure(record, NODE_FAIL, **options)

    monkeypatch.setattr(collect, "name_failure", as_after_a_node_failure)
    made = experiment()
    for run in made.runs.all():
        run.spec["environment"]["python"] = dies_once
        run.save(update_fields=["spec"])
    job = made.jobs.get()
    tick_until(made.cluster, Job.objects.filter(state="collecting").exists)
    Job.objects.update(gone_at=timezone.now())
    execution.tick(made.cluster.pk)
    job.refresh_from_db()
    assert job.state == "collecting", f"the last files may still appear: {job.message}"
    Job.objects.update(gone_at=timezone.now() - timedelta(minutes=5))
    finish(made)
    job.refresh_from_db()
    assert (job.state, job.attempt, job.reason) == ("done", 2, "")
    assert [run.state for run in made.runs.all()] == ["succeeded", "succeeded"]
    assert (tmp_path / "count").read_text().split() == ["ran"] * 3, "once, and the block anew"
    moves = [event.what for event in job.events.filter(run=None)]
    start = moves.index("collecting → failed")
    assert moves[start : start + 3] == ["collecting → failed", TRIED_BY_RULE, "failed → planned"]


def test_a_requeued_job_is_taken_out_of_the_queue_and_planned_anew(
    experiment: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    program.write_text(
        f"#!/bin/sh\necho ran >>{tmp_path}/count\n"
        f'if [ -e {tmp_path}/again ]; then exec {sys.executable} "$@"; fi\nexec sleep 600\n'
    )
    program.chmod(0o755)
    made = experiment()
    for run in made.runs.all():
        run.spec["environment"]["python"] = str(program)
        run.save(update_fields=["spec"])
    tick_until(made.cluster, made.runs.filter(state="running").exists)
    job = made.jobs.get()
    poll = Runner.poll

    def put_back(self: Runner, ids: list[str]) -> dict[str, Status]:
        waits = Status("queued", "BeginTime", "PENDING")
        return dict.fromkeys(poll(self, ids), waits)

    (tmp_path / "again").touch()
    with monkeypatch.context() as patched:
        patched.setattr(Runner, "poll", put_back)
        tick_until(made.cluster, Job.objects.exclude(state="running").exists)
    finish(made)
    job.refresh_from_db()
    assert (job.state, job.attempt) == ("done", 2)
    requeued = job.events.get(what=REQUEUED)
    assert "PENDING BeginTime, though it had begun" in requeued.why
    assert [run.state for run in made.runs.all()] == ["succeeded", "succeeded"]
    assert "requeued (the scheduler's queue: " in job.events.get(what=TRIED_BY_RULE).why
    assert (tmp_path / "count").read_text().split() == ["ran"] * 3


def test_a_job_that_waits_again_before_it_began_is_left(
    experiment: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a prolog that failed: its second start runs what the first could not."""
    made = experiment()
    waits = Status("queued", "BeginTime", "PENDING")
    monkeypatch.setattr(Runner, "find_started", lambda self, jobs: {})
    monkeypatch.setattr(Runner, "poll", lambda self, ids: dict.fromkeys(ids, waits))
    execution.tick(made.cluster.pk)
    Job.objects.update(state="running")
    cancelled: list[Any] = []
    monkeypatch.setattr(Runner, "cancel", lambda self, ids: cancelled.extend(ids))
    execution.tick(made.cluster.pk)
    assert cancelled == []
    assert not made.events.filter(what=REQUEUED).exists()


def test_a_portion_that_was_preempted_is_tried_again_together(
    experiment: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_preempted(record: Record, ending: Any, **options: Any) -> tuple[str, str]:
        return "preempted", "sacct: PREEMPTED 0:0, node1"

    monkeypatch.setattr(collect_together, "name_failure", as_preempted)
    program = tmp_path / "program"
    program.write_text(
        f'#!/bin/sh\ncase $PWD in */jobs/*-2/*) exec {sys.executable} "$@" ;; esac\n'
        "kill -s TERM $(cut -d- -f1 <../../started); exec sleep 60\n"
    )
    program.chmod(0o755)
    made = experiment(repeats=3)
    for run in made.runs.all():
        run.spec["environment"]["python"] = str(program)
        run.save(update_fields=["spec"])
    collecting = made.jobs.filter(state=Job.State.COLLECTING)
    with monkeypatch.context() as patched:
        patched.setattr(sys.modules["experiments.execution.tick"], "_collect", lambda *a, **k: None)
        tick_until(made.cluster, lambda: collecting.count() == 3)
    finish(made)
    assert set(made.jobs.values_list("state", "attempt")) == {("done", 2)}
    assert set(made.runs.values_list("state", flat=True)) == {"succeeded"}
    assert made.events.filter(what=TRIED_BY_RULE, why__contains="PREEMPTED").count() == 3


def test_a_portion_that_waits_for_late_files_costs_no_command_a_job(
    experiment: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a power cut: hundreds of jobs wait together, and everybody else's are read too."""

    def as_after_a_node_failure(record: Record, ending: Any, **options: Any) -> tuple[str, str]:
        return name_failure(record, NODE_FAIL, **options)

    monkeypatch.setattr(collect_together, "name_failure", as_after_a_node_failure)
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{KILL_JOB}\n")
    program.chmod(0o755)
    made = experiment(repeats=3)
    for run in made.runs.all():
        run.spec["environment"]["python"] = str(program)
        run.save(update_fields=["spec"])
    collecting = made.jobs.filter(state=Job.State.COLLECTING)
    with monkeypatch.context() as patched:
        patched.setattr(sys.modules["experiments.execution.tick"], "_collect", lambda *a, **k: None)
        tick_until(made.cluster, lambda: collecting.count() == 3)
    Job.objects.update(gone_at=timezone.now())
    alone: list[str] = []
    monkeypatch.setattr(Runner, "collect", lambda self, directory, **k: alone.append(directory))
    assert execution.tick(made.cluster.pk) == "done"
    assert (collecting.count(), alone) == (3, [])
