"""What becomes of each run of an ended job, by what the job has left."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.utils import timezone

from experiments.execution.run_ends import (
    Ending,
    RunEnd,
    decide_run_end,
    describe_damaged_end,
    describe_own_end,
    has_ended_by_itself,
)
from experiments.models import Job, Run
from runners.records import Record, RunRecord, read_record
from tests.factories import ContainerFactory, JobFactory, RunFactory

pytestmark = pytest.mark.django_db

SPEC = {
    "workload": {"kind": "blas", "parameters": {}},
    "environment": {"image_digest": "sha256:1"},
}
LEFT = RunRecord(
    began=10.0,
    ended=20.0,
    exit_code=0,
    failure="",
    command="python train.py",
    output_tail="the end",
    runtime_version="1.3.4",
    files={},
    snapshot={"cpu": "EPYC"},
)


@pytest.fixture
def job() -> Job:
    """A job of two runs, of which neither has begun."""
    made: Job = JobFactory(state="collecting")
    for name in ("bare", "box"):
        environment = ContainerFactory(cluster=made.cluster, name=name)
        RunFactory(job=made, environment=environment, state="planned", exit_code=None, spec=SPEC)
    return made


def runs_of(job: Job) -> list[Run]:
    return list(job.runs.order_by("position"))


def journal(*lines: dict[str, Any], **columns: Any) -> Record:
    """Return the record of a job that left a journal, and what else is named."""
    text = "".join(json.dumps({"time": 1.0} | line) + "\n" for line in lines)
    return dataclasses.replace(read_record({"journal.ndjson": text.encode()}), **columns)


def decide(job: Job, record: Record, reason: str = "", **columns: Any) -> list[RunEnd]:
    """Return the ends of all runs of a job."""
    message = f"{reason} of the job." if reason else ""
    ending = Ending(job, record, reason, message, **columns)
    runs = runs_of(job)
    return [decide_run_end(ending, run, runs) for run in runs]


def test_what_ended_a_job_is_charged_to_the_run_that_had_begun(job: Job) -> None:
    first, second = runs_of(job)
    Run.objects.filter(pk=first.pk).update(state="running")
    record = journal({"event": "job started"}, {"event": "run began", "run": first.uid})
    charged, spared = decide(job, record, "node failure")
    assert (charged.to, charged.why) == ("failed", "node failure of the job.")
    assert dict(charged.columns) == {"reason": "node failure", "message": charged.why}
    assert (spared.to, spared.columns["reason"]) == ("failed", "not started")
    assert spared.why == (
        "Not started, because its job ended in its run of bare: node failure of the job."
    )
    assert spared.columns["message"] == spared.why
    assert (spared.run_record, spared.record) == (None, None)
    assert spared.run == second


@pytest.mark.parametrize(
    "record",
    [
        read_record({}),
        journal({"event": "job started"}, damage=("line 2: no JSON",)),
    ],
)
def test_without_a_whole_journal_nobody_can_say_that_a_run_never_began(
    job: Job, record: Record
) -> None:
    for end in decide(job, record, "lost"):
        assert (end.to, end.columns["reason"], end.why) == ("failed", "lost", "lost of the job.")


def test_a_run_that_was_seen_to_begin_is_not_spared(job: Job) -> None:
    job.runs.update(state="running")
    for end in decide(job, journal({"event": "job started"}), "lost"):
        assert end.columns["reason"] == "lost"


def test_a_person_who_cancels_a_job_cancels_all_its_runs(job: Job) -> None:
    ends = decide(job, journal({"event": "job started"}), "cancelled", cancelled=True)
    assert {(end.to, end.columns["reason"]) for end in ends} == {("cancelled", "cancelled")}


def test_a_job_that_ended_well_without_a_word_about_a_run_says_so(job: Job) -> None:
    (end, _) = decide(job, journal({"event": "job started"}, exit_code=0))
    assert (end.to, end.columns["reason"]) == ("failed", "not run")
    assert end.why == "The job ended without a word about this run."


def test_a_damaged_journal_is_the_reason_where_there_is_no_other(job: Job) -> None:
    record = journal({"event": "job started"}, exit_code=0, damage=("line 2", "line 3"))
    (end, _) = decide(job, record)
    assert (end.to, end.columns["reason"]) == ("failed", "damaged")
    assert end.why == "Its journal cannot be read: line 2; line 3."


def test_how_a_run_that_was_cut_off_ended_is_kept_with_what_it_printed(job: Job) -> None:
    first, _ = runs_of(job)
    lines = [
        {"event": "run began", "run": first.uid},
        {"event": "terminated", "time": 15.0},
        {"event": "run ended", "run": first.uid, "exit_code": 143},
    ]
    cut_off = dataclasses.replace(LEFT, exit_code=143)
    record = journal(*lines, exit_code=143, runs={first.uid: cut_off})
    end, _ = decide(job, record, "time-out")
    assert dict(end.columns) == {
        "reason": "time-out",
        "message": "time-out of the job.",
        "exit_code": 143,
        "command": "python train.py",
        "output_tail": "the end",
    }
    assert (end.run_record, end.record) == (cut_off, record)
    assert end.steps is not None
    assert end.result is None
    assert end.list_columns() == {*end.columns, "files"}


@pytest.mark.parametrize(
    ("columns", "job_code", "terminated", "by_itself"),
    [
        ({"failure": "no such file", "exit_code": None}, None, None, True),
        ({}, 0, 15.0, True),
        ({"ended": None}, 0, None, True),
        ({"exit_code": None}, 0, None, False),
        ({}, 143, None, True),
        ({}, 143, 20.5, True),
        ({}, 143, 20.0, False),
        ({}, None, 15.0, False),
        ({"ended": None}, 143, None, False),
        ({"exit_code": None}, 143, None, False),
    ],
)
def test_a_run_has_ended_by_itself_if_it_did_so_before_its_job_was_told_to_end(
    columns: dict[str, Any], job_code: int | None, terminated: float | None, by_itself: bool
) -> None:
    lines = [] if terminated is None else [{"event": "terminated", "time": terminated}]
    record = journal(*lines, exit_code=job_code)
    assert has_ended_by_itself(dataclasses.replace(LEFT, **columns), record) is by_itself


def test_the_journal_says_where_and_when_a_run_was(job: Job) -> None:
    run, _ = runs_of(job)
    run.job = job
    line = {"event": "run began", "run": run.uid, "node": "n9"}
    failed = dataclasses.replace(LEFT, exit_code=2)
    end = describe_own_end(run, failed, journal(line, exit_code=0))
    assert (end.to, end.columns["reason"], end.columns["exit_code"]) == ("failed", "crashed", 2)
    assert end.columns["node"] == "n9"
    assert end.columns["began_at"] == datetime.fromtimestamp(10.0, tz=UTC)
    assert end.columns["ended_at"] == datetime.fromtimestamp(20.0, tz=UTC)
    assert (end.columns["command"], end.columns["output_tail"]) == ("python train.py", "the end")
    assert end.columns["phases"] == {}
    assert end.snapshot == {"inside": {"cpu": "EPYC"}, "runtime": "1.3.4", "image": "sha256:1"}
    assert end.steps is not None
    assert end.list_columns() == {*end.columns, "files", "snapshot"}


def test_without_a_journal_a_run_keeps_what_visits_have_seen(job: Job) -> None:
    run, _ = runs_of(job)
    run.job, run.node = job, "seen"
    seen = (run.began_at, run.ended_at)
    unknown = dataclasses.replace(LEFT, exit_code=2, began=None, ended=None)
    end = describe_own_end(run, unknown, read_record({}))
    assert end.columns["node"] == "seen"
    assert (end.columns["began_at"], end.columns["ended_at"]) == seen
    run.ended_at = None
    before = timezone.now()
    end = describe_own_end(run, unknown, read_record({}))
    assert before <= end.columns["ended_at"] <= timezone.now()


def test_results_that_differ_from_their_check_sum_are_damaged(job: Job) -> None:
    run, _ = runs_of(job)
    run.job = job
    names = [f"{run.folder}/result.json", f"{run.folder}/cache/x", "runs/9-z/result.json"]
    record = journal(exit_code=0, bad_checksums=names)
    end = describe_own_end(run, LEFT, record)
    assert (end.to, end.columns["reason"]) == ("failed", "damaged")
    assert end.why == f"{names[0]} does not match its check sum."


def test_a_file_that_cannot_be_read_damages_its_run(job: Job) -> None:
    run, _ = runs_of(job)
    run.job = job
    damaged = dataclasses.replace(LEFT, damage="inside.json is no JSON")
    end = describe_own_end(run, damaged, journal(exit_code=0))
    assert (end.to, end.columns["reason"]) == ("failed", "damaged")
    assert end.why == "inside.json is no JSON."


def test_a_run_without_its_result_is_not_sane(job: Job) -> None:
    run, _ = runs_of(job)
    run.job = job
    end = describe_own_end(run, LEFT, journal(exit_code=0))
    assert (end.to, end.columns["reason"], end.columns["exit_code"]) == ("failed", "not sane", 0)
    assert end.result is None


def test_what_tare_cannot_read_ends_with_one_full_stop(job: Job) -> None:
    run, _ = runs_of(job)
    before = timezone.now()
    for problem in ("odd", "odd."):
        end = describe_damaged_end(run, problem)
        assert (end.run, end.to, end.why) == (run, "failed", "odd.")
        assert end.columns["ended_at"] >= before
        assert {**end.columns, "ended_at": None} == {
            "reason": "damaged",
            "message": "odd.",
            "ended_at": None,
        }
        assert end.list_columns() == {"reason", "message", "ended_at"}
