"""Chores on a real machine: real processes, files and PostgreSQL; the kinds are the test's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest

from experiments import execution
from experiments.execution.operations import KINDS, ChoreKind, NotPossible, Work, parse_result
from experiments.images import staging
from experiments.models import Chore, Cluster, Pause, StagedImage
from runners.errors import NotNow
from runners.jobs import Step
from runners.records import Record
from runners.runner import Runner
from tests.conftest import tick_until
from tests.factories import AdminFactory, StagedImageFactory, UserFactory

pytestmark = pytest.mark.django_db


class Kind(ChoreKind):
    """Does what the test says."""

    def __init__(self) -> None:
        self.shell = "true"
        self.archive: StagedImage | None = None
        self.refusal = ""
        self.told: list[tuple[str, object]] = []

    def waits_for(self, chore: Chore) -> StagedImage | None:
        return self.archive

    def work(self, chore: Chore) -> Work:
        if self.refusal:
            raise NotPossible(self.refusal)
        step = Step("Doing it", ("sh", "-c", self.shell))
        return Work((step,), files=(("lock.txt", b"numpy\n"),), setup_lines=("export A=1",))

    def finish(self, chore: Chore, problem: str, record: Record) -> str:
        self.told.append((problem, parse_result(record)))
        return problem


@pytest.fixture
def kind() -> Iterator[Kind]:
    made = Kind()
    with mock.patch.dict(KINDS, {"survey": made}):
        yield made


@pytest.fixture
def chore(here: Cluster) -> Chore:
    return Chore.objects.create(kind="survey", cluster=here, owner=here.owner)


def tick(chore: Chore) -> Chore:
    execution.tick(chore.cluster_id)
    return Chore.objects.get(pk=chore.pk)


def until(chore: Chore, done: Callable[[Chore], object]) -> Chore:
    tick_until(chore.cluster, lambda: bool(done(Chore.objects.get(pk=chore.pk))))
    return Chore.objects.get(pk=chore.pk)


def finish(chore: Chore) -> Chore:
    return until(chore, lambda now: now.is_final)


def test_a_chore_goes_from_its_steps_to_its_result(kind: Kind, chore: Chore) -> None:
    kind.shell = 'cat lock.txt; echo "A=$A"; echo "{\\"n\\": 7}" >result.json'
    done = finish(chore)
    assert (done.state, done.message) == ("done", "")
    assert done.result == {"n": 7}
    assert "numpy\nA=1" in done.output_tail
    assert done.exit_code == 0
    assert kind.told == [("", {"n": 7})]
    assert done.script == Path(done.directory, "job.sh").read_text()
    assert done.started_at
    assert done.ended_at
    assert done.started_at <= done.ended_at


def test_a_result_as_long_as_a_book_is_not_read(kind: Kind, chore: Chore) -> None:
    kind.shell = (
        """{ printf '{"n": "'; head -c 9000000 /dev/zero | tr '\\0' x; echo '"}'; } >result.json"""
    )
    done = finish(chore)
    assert (done.state, done.result) == ("done", {})


def test_a_step_that_fails_is_named_with_its_last_words(kind: Kind, chore: Chore) -> None:
    kind.shell = "echo first; echo the disk is full >&2; exit 3"
    done = finish(chore)
    assert (done.state, done.reason) == ("failed", "failed")
    assert done.message == "Doing it: exit code 3: the disk is full"
    assert kind.told == [(done.message, {})]


def test_what_cannot_be_done_is_not_sent(kind: Kind, chore: Chore) -> None:
    kind.refusal = "There is no runtime."
    done = tick(chore)
    assert (done.state, done.reason, done.message) == ("failed", "refused", kind.refusal)
    assert not done.directory


def test_a_chore_shows_its_step_and_its_output_while_it_runs(
    kind: Kind, chore: Chore, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    kind.shell = f"echo so far; until [ -e '{go}' ]; do sleep 0.02; done"
    # The journal is read before the output: a visit in between may see one without the other.
    now = until(chore, lambda row: bool(row.doing) and "so far" in row.output_tail)
    assert (now.state, now.doing, now.step, now.steps) == ("running", "Doing it", 1, 1)
    go.touch()
    assert finish(chore).state == "done"


def test_a_chore_that_runs_can_be_cancelled(kind: Kind, chore: Chore) -> None:
    kind.shell = "echo so far; sleep 600"
    until(chore, lambda row: row.doing)
    staging.cancel(chore, chore.owner)
    done = finish(chore)
    assert (done.state, done.reason) == ("cancelled", "cancelled")
    assert kind.told == [("cancelled by a person", {})]


def test_a_chore_that_waits_can_be_cancelled(kind: Kind, chore: Chore) -> None:
    kind.archive = StagedImageFactory(cluster=chore.cluster, state="staging")
    assert tick(chore).state == "planned"
    staging.cancel(chore, chore.owner)
    assert tick(chore).state == "cancelled"
    with pytest.raises(staging.NotDone, match="ended already"):
        staging.cancel(chore, chore.owner)


def test_only_who_asked_and_who_runs_the_cluster_may_cancel(kind: Kind, chore: Chore) -> None:
    with pytest.raises(staging.NotDone, match="somebody else"):
        staging.cancel(chore, UserFactory())
    staging.cancel(chore, AdminFactory())


def test_a_chore_waits_for_its_archive_and_for_nothing_else(kind: Kind, chore: Chore) -> None:
    kind.archive = StagedImageFactory(cluster=chore.cluster, format="archive", state="staging")
    assert tick(chore).state == "planned"
    kind.archive.state = "ready"
    assert tick(chore).state == "queued"


def test_a_lost_answer_does_not_make_a_second_job(kind: Kind, chore: Chore) -> None:
    kind.shell = "echo once >>../../count"

    real = Runner.submit

    def submit(runner: Runner, job: object) -> str:
        real(runner, job)  # type: ignore[arg-type]
        raise SystemExit("the worker dies here")

    with mock.patch.object(Runner, "submit", submit), pytest.raises(SystemExit):
        tick(chore)
    assert Chore.objects.get(pk=chore.pk).state == "submitting"
    done = finish(chore)
    assert done.state == "done"
    assert Path(done.cluster.work_directory, "count").read_text() == "once\n"


def test_one_thing_at_a_time_is_done_with_a_form(here: Cluster) -> None:
    row = StagedImageFactory(cluster=here, state="ready", made_here=True)
    staging.verify(row, here.owner)
    with pytest.raises(staging.NotDone, match="already"):
        staging.verify(row, here.owner)


def test_a_no_of_the_sites_makes_it_wait(kind: Kind, chore: Chore) -> None:
    kind.shell = "true"
    work = Path(chore.cluster.work_directory)
    work.write_text("somebody has put a file here")
    assert tick(chore).state == Chore.State.PLANNED
    assert Pause.objects.get().kind == "work directory"
    work.unlink()
    assert finish(chore).state == Chore.State.DONE
    assert not Pause.objects.exists()


def test_a_no_that_only_it_would_meet_ends_it(kind: Kind, chore: Chore) -> None:
    no = NotNow("Requested node configuration is not available", kind="nodes", scope="request")
    with mock.patch.object(Runner, "submit", side_effect=no):
        ended = tick(chore)
    assert (ended.state, ended.message) == (Chore.State.FAILED, str(no))
    assert not Pause.objects.exists()
