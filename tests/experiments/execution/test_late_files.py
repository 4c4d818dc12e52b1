"""When files of ended jobs are looked for again, and what is read of those that are there."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from experiments.execution import late_files
from experiments.execution.collect import describe_location, files_may_be_late, make_ending
from experiments.execution.files_left import describe_files, explain_unread_files, list_files
from experiments.execution.further_attempts import FurtherAttempts
from experiments.execution.journals import find_journal_line, parse_moment, read_times
from experiments.execution.late_files import (
    compute_next_look,
    is_verdict_out,
    note_after_verdict,
    plan_next,
    request_collection,
)
from experiments.execution.read_attempts import (
    MOST_ATTEMPTS,
    has_ended_workers,
    sort_untried_first,
)
from experiments.models import Job, Removal, Run
from runners.directories import OUR_FILE_LIMIT
from runners.records import TAIL, Record, RunRecord, read_record
from tests.factories import NOON, JobFactory, RunFactory, UserFactory

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


def journal(*lines: dict[str, Any]) -> Record:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return read_record({"journal.ndjson": text.encode()})


def minutes_until_next_look(tries: int, **columns: Any) -> float | None:
    job = Job(collect_tries=tries)
    about = {"ended_at": NOON, "complete": False} | columns
    now = timezone.now()
    at = compute_next_look(job, **about)["collect_at"]
    return None if at is None else round((at - now) / MINUTE, 1)


class TestNextLook:
    @pytest.mark.parametrize(
        ("tries", "minutes"),
        [(0, 1), (1, 2), (2, 4), (6, 64), (7, 120), (11, 120), (16, 120), (17, None)],
    )
    def test_comes_after_growing_pauses_for_a_day(self, tries: int, minutes: int | None) -> None:
        assert minutes_until_next_look(tries) == minutes

    def test_does_not_come_for_what_is_complete_or_never_ended(self) -> None:
        assert minutes_until_next_look(0, complete=True) is None
        assert minutes_until_next_look(0, ended_at=None) is None

    def test_counts_tries_but_not_those_of_a_site_that_is_away(self) -> None:
        job = Job(collect_tries=3)
        look = compute_next_look(job, NOON, complete=False)
        assert (look["collect_tries"], look["collect_asked_by"]) == (4, None)
        away = compute_next_look(job, NOON, complete=False, is_away=True)
        assert away["collect_tries"] == 3
        job.collect_tries = 1000
        assert compute_next_look(job, NOON, complete=False)["collect_tries"] == 1000

    def test_is_stored_of_this_attempt_alone(self) -> None:
        job, other = JobFactory(state="failed"), JobFactory(state="failed")
        plan_next(job, complete=False)
        stored = Job.objects.get(pk=job.pk)
        assert stored.collect_tries == 1
        assert stored.collect_at
        assert Job.objects.get(pk=other.pk).collect_tries == 0
        Job.objects.filter(pk=job.pk).update(attempt=2)
        plan_next(job, complete=True)
        assert Job.objects.get(pk=job.pk).collect_at == stored.collect_at


class TestRequest:
    @pytest.fixture
    def job(self) -> Job:
        made: Job = JobFactory(state="failed", reason="lost")
        RunFactory(job=made, state="failed", reason="lost")
        return made

    def test_is_noted_with_who_asked(self, job: Job) -> None:
        person, other, before = UserFactory(), JobFactory(state="failed"), timezone.now()
        assert request_collection(job, person)
        job.refresh_from_db()
        assert job.collect_at
        assert job.collect_at >= before
        assert job.collect_asked_by == person
        (event,) = job.events.all()
        assert (event.what, event.actor) == ("asked to collect again", person)
        other.refresh_from_db()
        assert other.collect_at is None

    @pytest.mark.parametrize("columns", [{"attempt": 2}, {"state": "collecting"}])
    def test_of_what_was_taken_up_again_between_two_statements_is_of_no_use(
        self, columns: dict[str, Any], job: Job, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def look_and_be_overtaken(row: Job) -> FurtherAttempts:
            Job.objects.filter(pk=row.pk).update(**columns)
            return FurtherAttempts(can_collect=True)

        monkeypatch.setattr(late_files, "find_further_attempts", look_and_be_overtaken)
        assert not request_collection(job, job.experiment.owner)
        assert Job.objects.get().collect_at is None
        assert not job.events.exists()

    def test_of_what_was_removed_by_rule_is_of_no_use(self, job: Job) -> None:
        about = {"job": job, "attempt": job.attempt, "directory": job.directory, "days": 30}
        Removal.objects.create(**about, chosen_at=NOON)
        assert not request_collection(job, UserFactory())
        assert Job.objects.get().collect_at is None


def test_a_verdict_is_out_once_nothing_lives_and_something_has_succeeded() -> None:
    job = JobFactory(state="failed")
    run = RunFactory(job=job, state="failed")
    assert not is_verdict_out(job), "no result, no verdict"
    other = RunFactory(job=JobFactory(experiment=job.experiment))
    assert is_verdict_out(job)
    Run.objects.filter(pk=other.pk).update(state="running")
    assert not is_verdict_out(job)
    person = UserFactory()
    note_after_verdict(run, person)
    (event,) = job.experiment.events.all()
    assert (event.job, event.run, event.actor) == (job, run, person)


def test_the_last_line_about_an_event_counts() -> None:
    record = journal(
        {"time": 1.0, "event": "run began", "run": "a"},
        {"time": 2.0, "event": "run began", "run": "b"},
        {"time": 3.0, "event": "run began", "run": "a"},
        {"time": 4.0, "event": "run ended", "run": "a"},
    )
    assert find_journal_line(record, "run began")["time"] == 3.0
    assert find_journal_line(record, "run began", "b")["time"] == 2.0
    assert find_journal_line(record, "run ended", "b") == {}
    assert find_journal_line(record, "terminated") == {}


def test_times_are_the_nodes_where_its_journal_has_them() -> None:
    row = Job(started_at=NOON)
    whole = journal({"time": 60.0, "event": "job started"}, {"time": 90.5, "event": "job ended"})
    assert read_times(row, whole) == {
        "started_at": datetime(1970, 1, 1, 0, 1, tzinfo=UTC),
        "ended_at": datetime(1970, 1, 1, 0, 1, 30, 500_000, tzinfo=UTC),
    }
    before = timezone.now()
    times = read_times(row, read_record({}))
    assert times["started_at"] == NOON
    assert before <= times["ended_at"] <= timezone.now()
    assert parse_moment(None) is None
    assert parse_moment(0.0) == datetime(1970, 1, 1, tzinfo=UTC)


def test_last_files_may_be_late_for_half_a_minute() -> None:
    now = timezone.now()
    assert not files_may_be_late(Job())
    assert files_may_be_late(Job(gone_at=now - timedelta(seconds=28)))
    assert not files_may_be_late(Job(gone_at=now - timedelta(seconds=30)))


class TestEnding:
    """How a job has ended, and where its files are."""

    @pytest.fixture
    def job(self) -> Job:
        made: Job = JobFactory(experiment__cluster__name="far", directory="/scratch/jobs/a-1")
        return made

    def test_well_has_no_words(self, job: Job) -> None:
        ending = make_ending(job, read_record({}), "", "")
        assert (ending.reason, ending.message, ending.location) == ("", "", "")
        assert not ending.cancelled

    def test_badly_says_where_its_files_are_or_were(self, job: Job) -> None:
        ending = make_ending(job, read_record({}), "lost", "no exit code...")
        assert (ending.reason, ending.message) == ("lost", "no exit code.")
        assert ending.location == "Its files are in /scratch/jobs/a-1 on far."
        gone = make_ending(job, read_record({}), "lost", "no exit code", is_there=False)
        assert gone.message == "no exit code. Its directory on far is not there."
        assert gone.location == "It was /scratch/jobs/a-1."
        assert describe_location(job, is_there=False) == (
            "Its directory /scratch/jobs/a-1 on far is not there."
        )

    def test_after_a_click_is_that_persons_unless_it_succeeded(self, job: Job) -> None:
        job.cancel_requested_at = job.experiment.cancelled_at = NOON
        ending = make_ending(job, read_record({}), "lost", "no exit code")
        assert (ending.reason, ending.message) == ("cancelled", "cancelled by a person")
        assert (ending.cancelled, ending.location) == (True, "")
        assert not make_ending(job, read_record({}), "", "").cancelled


def test_a_row_over_which_workers_have_ended_is_left_alone_and_comes_last() -> None:
    assert not has_ended_workers(Job(collecting_attempts=MOST_ATTEMPTS - 1))
    assert has_ended_workers(Job(collecting_attempts=MOST_ATTEMPTS))
    late, early, never = Job(collecting_tried_at=NOON), Job(), Job()
    early.collecting_tried_at = NOON - MINUTE
    rows = sort_untried_first([late, early, never])
    assert [row is other for row, other in zip(rows, (never, early, late), strict=True)] == [
        True
    ] * 3


class TestFilesLeft:
    """What a run has left on its cluster, as its page lists it."""

    LEFT = RunRecord(
        began=None,
        ended=None,
        exit_code=0,
        failure="",
        command="",
        output_tail="",
        runtime_version="",
        files={"output.txt": b"", "result.json": b"", "notes": b"x"},
        snapshot={},
    )

    @pytest.fixture
    def run(self) -> Run:
        spec = {"workload": {"kind": "blas", "parameters": {"file": "log.csv"}}}
        made: Run = RunFactory(spec=spec)
        return made

    def record(self, run: Run, sizes: dict[str, int], **columns: Any) -> Record:
        named = {f"{run.folder}/{name}": size for name, size in sizes.items()}
        return dataclasses.replace(
            read_record({}), sizes=named | {"runs/9-other/model": 1}, **columns
        )

    def test_comes_with_size_check_sum_and_state_the_largest_first(self, run: Run) -> None:
        sizes = {"a": 5, "b": 9, "notes": 1, "c": 9, "huge": 2**70, "odd": 2}
        record = self.record(
            run,
            sizes,
            checksums={f"{run.folder}/{name}": name * 80 for name in ("a", "notes")},
            bad_checksums=[f"{run.folder}/odd"],
        )
        rows = describe_files(run, self.LEFT, record)
        assert [(row.path, row.state) for row in rows] == [
            ("odd", "differs"),
            ("huge", "stayed"),
            ("b", "stayed"),
            ("c", "stayed"),
            ("a", "stayed"),
            ("notes", "same"),
        ]
        by_path = {row.path: row for row in rows}
        assert by_path["huge"].size_bytes == 2**63 - 1
        assert by_path["a"].sha256 == "a" * 64
        assert by_path["b"].sha256 == ""
        assert all(row.has_plain_name and row.run == run for row in rows)
        assert dict(list_files(run, record)) == sizes

    def test_is_not_listed_where_the_page_shows_it_or_it_is_hidden(self, run: Run) -> None:
        sizes = {"result.json": 9, ".cache/x": 9, "sub/.git": 9, "output.txt": TAIL}
        assert describe_files(run, self.LEFT, self.record(run, sizes)) == []
        longer = self.record(run, {"output.txt": TAIL + 1})
        assert [row.path for row in describe_files(run, self.LEFT, longer)] == ["output.txt"]
        unread = dataclasses.replace(self.LEFT, files={})
        (row,) = describe_files(run, unread, self.record(run, {"result.json": 9}))
        assert row.path == "result.json"

    def test_that_is_too_large_to_be_read_is_said(self, run: Run) -> None:
        size = OUR_FILE_LIMIT + 2**20
        record = self.record(run, {"log.csv": size, "model": size, "notes": size})
        limit = OUR_FILE_LIMIT // 2**20
        assert explain_unread_files(run, self.LEFT, record) == [
            f"log.csv has {limit + 1} MiB, and Tare reads at most {limit} MiB of a file: it stays "
            "on the cluster."
        ]
