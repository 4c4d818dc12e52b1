"""What journals of live jobs gain moves their runs: real files, read as a visit reads them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from experiments.execution import following
from experiments.execution.following import follow
from experiments.models import Cluster, Job, Operation, Run
from runners.runner import Runner
from runners.schedulers import SCHEDULERS
from runners.transports import Local
from tests.factories import ClusterFactory, ContainerFactory, JobFactory, RunFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    made: Cluster = ClusterFactory(work_directory=str(tmp_path))
    return made


def make_job(cluster: Cluster, name: str, *states: str) -> Job:
    """Make a running job with a run in each state, and an empty directory."""
    directory = Path(cluster.work_directory, name)
    directory.mkdir()
    job: Job = JobFactory(
        experiment__cluster=cluster, cluster=cluster, state="running", directory=str(directory)
    )
    for number, state in enumerate(states):
        environment = ContainerFactory(cluster=cluster, name=f"{name}{number}")
        columns = {"exit_code": None, "node": "", "began_at": None, "ended_at": None}
        RunFactory(job=job, environment=environment, state=state, **columns)
    return job


def write(row: Job | Operation, *lines: dict[str, Any] | str) -> int:
    """Add lines to a row's journal; a text as it is. Return the size of the journal."""
    journal = Path(row.directory, "journal.ndjson")
    with journal.open("a") as file:
        for line in lines:
            file.write(line if isinstance(line, str) else json.dumps(line) + "\n")
    return journal.stat().st_size


def visit(*rows: Job | Operation) -> bool:
    fresh = [type(row)._default_manager.get(pk=row.pk) for row in rows]
    return follow(fresh, Runner(Local(), SCHEDULERS["direct"]()))


def runs_of(job: Job) -> list[Run]:
    return list(job.runs.order_by("position"))


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=UTC)


def test_a_run_that_begins_and_ends_is_followed(cluster: Cluster) -> None:
    job = make_job(cluster, "a", "planned", "planned")
    first, second = runs_of(job)
    assert not visit(job), "there is no journal yet"
    write(job, {"time": 5.0, "event": "job started"})
    write(job, {"time": 10.5, "event": "run began", "run": first.uid, "node": "n1"})
    size = write(job, {"time": 99.0, "event": "run began", "run": first.uid, "node": "n2"})
    assert visit(job)
    first.refresh_from_db()
    assert (first.state, first.began_at, first.node) == ("running", at(10.5), "n1")
    assert first.events.get().what == "planned → running"
    assert Job.objects.get().journal_offset == size
    write(job, {"time": 20.0, "event": "run ended", "run": first.uid, "exit_code": 3})
    write(job, {"time": 21.0, "event": "run began", "run": second.uid})
    assert visit(job)
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, first.ended_at, first.exit_code) == ("running", at(20.0), 3)
    assert (second.state, second.began_at, second.node) == ("running", at(21.0), "")
    assert not visit(job), "nothing is read twice"


def test_a_run_that_began_and_ended_between_two_visits_has_both_times(cluster: Cluster) -> None:
    job = make_job(cluster, "a", "planned")
    (run,) = runs_of(job)
    write(job, {"time": 1.0, "event": "run began", "run": run.uid, "node": "n1"})
    write(job, {"time": 2.0, "event": "run ended", "run": run.uid, "exit_code": 0})
    visit(job)
    run.refresh_from_db()
    assert (run.state, run.began_at, run.ended_at) == ("running", at(1.0), at(2.0))
    assert run.exit_code == 0


def test_a_line_that_is_being_written_is_read_when_it_is_whole(cluster: Cluster) -> None:
    job = make_job(cluster, "a", "planned")
    (run,) = runs_of(job)
    line = json.dumps({"time": 1.0, "event": "run began", "run": run.uid, "node": "n1"})
    whole = write(job, {"time": 0.5, "event": "job started"})
    write(job, line[:20])
    visit(job)
    assert Job.objects.get().journal_offset == whole
    write(job, line[20:] + "\n")
    visit(job)
    assert Run.objects.get().state == "running"


def test_what_has_an_outcome_is_not_moved_by_a_journal(cluster: Cluster) -> None:
    job = make_job(cluster, "a", "failed", "succeeded", "cancelled")
    for run in runs_of(job):
        write(job, {"time": 1.0, "event": "run began", "run": run.uid, "node": "n1"})
        write(job, {"time": 2.0, "event": "run ended", "run": run.uid, "exit_code": 9})
    visit(job)
    assert [run.state for run in runs_of(job)] == ["failed", "succeeded", "cancelled"]
    assert {(run.ended_at, run.exit_code, run.node) for run in runs_of(job)} == {(None, None, "")}


def test_a_journal_that_names_the_run_of_another_job_moves_none(cluster: Cluster) -> None:
    job, other = make_job(cluster, "a", "planned"), make_job(cluster, "b", "planned")
    own, stranger = *runs_of(job), *runs_of(other)
    write(job, {"time": 1.0, "event": "run began", "run": stranger.uid})
    write(job, {"time": 1.0, "event": "run began", "run": "nobody"})
    write(job, {"time": 1.0, "event": "run began"})
    size = write(job, {"time": 1.0, "event": "run began", "run": own.uid})
    write(other, {"time": 1.0, "event": "job started"})
    assert visit(job, other)
    own.refresh_from_db()
    stranger.refresh_from_db()
    assert (own.state, stranger.state) == ("running", "planned")
    assert Job.objects.get(pk=job.pk).journal_offset == size


def test_an_operation_is_at_its_last_step(cluster: Cluster) -> None:
    directory = Path(cluster.work_directory, "operation")
    directory.mkdir()
    row = Operation.objects.create(
        kind="inspect",
        cluster=cluster,
        owner=cluster.owner,
        state="running",
        directory=str(directory),
    )
    (directory / "output.txt").write_text("so far")
    write(row, {"time": 1.0, "event": "job started"})
    visit(row)
    row.refresh_from_db()
    assert (row.doing, row.step, row.output_tail) == ("", 0, "so far")
    for number in (1, 2):
        doing = f"step {number} " + "x" * 400
        write(row, {"time": 2.0, "event": "step", "doing": doing, "number": number, "of": 3})
    size = write(row, {"time": 3.0, "event": "anything"})
    assert visit(row)
    row.refresh_from_db()
    assert (row.step, row.steps, row.journal_offset) == (2, 3, size)
    assert row.doing == ("step 2 " + "x" * 400)[:300]


def test_an_operation_whose_step_cannot_be_stored_is_skipped_and_keeps_nobody(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job(cluster, "a", "planned")
    (run,) = runs_of(job)
    write(job, {"time": 1.0, "event": "run began", "run": run.uid})
    directory = Path(cluster.work_directory, "operation")
    directory.mkdir()
    row = Operation.objects.create(
        kind="inspect",
        cluster=cluster,
        owner=cluster.owner,
        state="running",
        directory=str(directory),
    )
    size = write(row, {"time": 2.0, "event": "step", "doing": "x", "number": 1, "of": 2**70})
    monkeypatch.setattr(following, "follow_steps", lambda *_: 1 / 0)
    assert visit(row, job)
    row.refresh_from_db()
    run.refresh_from_db()
    cluster.refresh_from_db()
    assert (row.journal_offset, row.doing) == (size, "")
    assert run.state == "running"
    assert cluster.own_failure.startswith(f"operation {row.pk}: Tare itself failed.")
