"""Runs are read on their cluster while somebody looks at them, and only then."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from experiments.execution import live_readings
from experiments.execution.lease import Lease
from experiments.execution.live_readings import MOST_RUNS, read_watched, watch
from experiments.models import Cluster, Job, LiveReading, Run
from runners.errors import TryAgain
from runners.live_files import LiveFiles
from runners.runner import Runner
from runners.schedulers import Direct
from runners.transports import Local, Transport
from tests.factories import JobFactory, RunFactory

pytestmark = pytest.mark.django_db

RUNNER = Runner(Local(), Direct())
STEPS = {"series": "step_time", "unit": "s", "from": 0, "values": [0.5, 0.1]}


@pytest.fixture
def running(tmp_path: Path) -> Run:
    """A running run, with its directory."""
    job = JobFactory(state=Job.State.RUNNING, directory=str(tmp_path / "job"))
    run: Run = RunFactory(job=job, state=Run.State.RUNNING, ended_at=None, exit_code=None)
    folder_of(run).mkdir(parents=True)
    return run


def folder_of(run: Run) -> Path:
    return Path(run.job.directory) / run.folder


def visit(run: Run) -> LiveReading:
    """Visit the run's cluster as far as watched runs are concerned; return the run's reading."""
    read_watched(Lease(Cluster.objects.get(pk=run.job.cluster_id), ""), RUNNER)
    Cluster.objects.update(wanted_at=None)
    return LiveReading.objects.get(run=run)


def look_later(run: Run, seconds: float = 10) -> None:
    """Look at the run again as if some seconds had passed."""
    LiveReading.objects.update(read_at=timezone.now() - timedelta(seconds=seconds))
    watch(Run.objects.get(pk=run.pk))


def test_what_a_run_has_written_is_read_while_somebody_looks(running: Run) -> None:
    report, output = (folder_of(running) / name for name in ("result.jsonl", "output.txt"))
    report.write_text(f"{json.dumps(STEPS)}\n")
    output.write_text("epoch 1\n")
    assert watch(running).read_at is None
    assert Cluster.objects.get().wanted_at is not None, "a visit is asked for"
    reading = visit(running)
    assert (reading.output_tail, reading.report["curves"]["step_time"]["count"]) == ("epoch 1\n", 2)
    with report.open("a") as file:
        file.write(json.dumps({"series": "step_time", "from": 2, "values": [0.2]}) + "\n{")
    look_later(running)
    reading = visit(running)
    stretches = reading.report["curves"]["step_time"]["stretches"]
    assert [total for _, _, total, _ in stretches] == [0.5, 0.1, 0.2]
    assert reading.offset == report.stat().st_size - 1, "half a line is read again"


def test_a_program_that_was_started_again_begins_anew(running: Run) -> None:
    report = folder_of(running) / "tare-result.jsonl"
    report.write_text(f"{json.dumps(STEPS)}\n" * 3)
    watch(running)
    visit(running)
    report.write_text('{"step": {"loss": 3}}\n')
    look_later(running)
    reading = visit(running)
    assert list(reading.report["curves"]) == ["loss"]
    assert reading.offset == report.stat().st_size


def test_nothing_is_read_of_what_nobody_looks_at(running: Run) -> None:
    watch(running)
    LiveReading.objects.update(watched_at=timezone.now() - timedelta(minutes=1))
    assert visit(running).read_at is None
    with CaptureQueriesContext(connection) as queries:
        read_watched(Lease(Cluster.objects.get(), ""), RUNNER)
    assert len(queries) == 1, "no more than the cluster itself, where nobody waits for a visit"


def test_a_run_is_not_read_again_within_seconds(running: Run) -> None:
    watch(running)
    first = visit(running).read_at
    assert first is not None
    watch(running)
    assert Cluster.objects.get().wanted_at is None, "nor is a visit asked for"
    Cluster.objects.update(wanted_at=timezone.now())
    assert visit(running).read_at == first


def test_a_visit_reads_some_runs_and_the_next_one_the_others(
    running: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [running]
    for position in range(1, MOST_RUNS + 5):
        run = RunFactory(
            job=running.job,
            position=position,
            repeat=running.repeat + position,
            state=Run.State.RUNNING,
            ended_at=None,
        )
        runs.append(run)
    asked: list[int] = []

    def read(transport: Transport, offsets: Mapping[str, int]) -> dict[str, LiveFiles]:
        asked.append(len(offsets))
        return {directory: LiveFiles(0, b"", "") for directory in offsets}

    monkeypatch.setattr(live_readings, "read_live_files", read)
    for run in runs:
        watch(run)
    visit(running)
    watch(runs[-1])
    visit(running)
    assert asked == [MOST_RUNS, 5]


def test_a_site_that_says_no_is_noted_and_the_visit_goes_on(
    running: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(transport: Transport, offsets: Mapping[str, int]) -> dict[str, LiveFiles]:
        raise TryAgain("the forced command does not know this", kind="forced command")

    with monkeypatch.context() as patched:
        patched.setattr(live_readings, "read_live_files", refuse)
        watch(running)
        assert visit(running).problem == "the forced command does not know this"
    look_later(running)
    assert visit(running).problem, "it is not tried again within a minute"
    look_later(running, seconds=61)
    assert visit(running).problem == ""


def test_a_further_attempt_is_read_from_its_beginning(running: Run, tmp_path: Path) -> None:
    (folder_of(running) / "result.jsonl").write_text(f"{json.dumps(STEPS)}\n")
    watch(running)
    visit(running)
    Job.objects.filter(pk=running.job_id).update(directory=str(tmp_path / "job-2"))
    again = Run.objects.get(pk=running.pk)
    folder_of(again).mkdir(parents=True)
    longer = STEPS | {"values": [9.0] * 70}
    (folder_of(again) / "result.jsonl").write_text(f"{json.dumps(longer)}\n")
    assert watch(again).report == {}
    look_later(again)
    reading = visit(again)
    curve = reading.report["curves"]["step_time"]
    assert (curve["count"], curve["stretches"][0][2]) == (70, 9.0)
    assert reading.report["odd_lines"] == 0


def test_odd_bytes_stop_neither_their_run_nor_the_others(running: Run) -> None:
    other = RunFactory(
        job=running.job,
        position=1,
        repeat=running.repeat + 1,
        state=Run.State.RUNNING,
        ended_at=None,
    )
    folder_of(other).mkdir(parents=True)
    (folder_of(running) / "result.jsonl").write_bytes(b"\0\xff{[\n" * 5)
    (folder_of(running) / "output.txt").write_bytes(b"a\0b\xffc\n")
    (folder_of(other) / "output.txt").write_text("fine\n")
    watch(running)
    watch(other)
    reading = visit(running)
    assert (reading.report["odd_lines"], reading.output_tail[0]) == (5, "a")
    assert LiveReading.objects.get(run=other).output_tail == "fine\n"


def test_readings_of_runs_that_have_ended_go(running: Run) -> None:
    ended = RunFactory(job=running.job, position=1, repeat=running.repeat + 1)
    LiveReading.objects.create(run=ended, watched_at=timezone.now())
    watch(running)
    visit(running)
    assert [reading.run for reading in LiveReading.objects.all()] == [running]
