"""Operations on a real machine: real processes, files and PostgreSQL; the kinds are the test's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest

from experiments import execution
from experiments.execution.operations import (
    KINDS,
    NotPossible,
    OperationKind,
    Work,
    make_operation_spec,
    parse_result,
)
from experiments.images import staging
from experiments.models import Cluster, Operation, Pause, StagedImage
from runners.errors import NotNow
from runners.jobs import JobSpec, Step
from runners.records import Record
from runners.runner import Runner
from tests.conftest import tick_until
from tests.factories import AdminFactory, PartitionFactory, StagedImageFactory, UserFactory

pytestmark = pytest.mark.django_db


class Kind(OperationKind):
    """Does what the test says."""

    def __init__(self) -> None:
        self.shell = "true"
        self.archive: StagedImage | None = None
        self.refusal = ""
        self.told: list[tuple[str, object]] = []

    def waits_for(self, operation: Operation) -> StagedImage | None:
        return self.archive

    def work(self, operation: Operation) -> Work:
        if self.refusal:
            raise NotPossible(self.refusal)
        step = Step("Doing it", ("sh", "-c", self.shell))
        return Work((step,), files=(("lock.txt", b"numpy\n"),), setup_lines=("export A=1",))

    def finish(self, operation: Operation, problem: str, record: Record) -> str:
        self.told.append((problem, parse_result(record)))
        return problem


@pytest.fixture
def kind() -> Iterator[Kind]:
    made = Kind()
    with mock.patch.dict(KINDS, {"inspect": made}):
        yield made


@pytest.fixture
def operation(here: Cluster) -> Operation:
    return Operation.objects.create(kind="inspect", cluster=here, owner=here.owner)


def tick(operation: Operation) -> Operation:
    execution.tick(operation.cluster_id)
    return Operation.objects.get(pk=operation.pk)


def until(operation: Operation, done: Callable[[Operation], object]) -> Operation:
    tick_until(operation.cluster, lambda: bool(done(Operation.objects.get(pk=operation.pk))))
    return Operation.objects.get(pk=operation.pk)


def finish(operation: Operation) -> Operation:
    return until(operation, lambda now: now.is_final)


def test_an_operation_goes_from_its_steps_to_its_result(kind: Kind, operation: Operation) -> None:
    kind.shell = 'cat lock.txt; echo "A=$A"; echo "{\\"n\\": 7}" >result.json'
    done = finish(operation)
    assert (done.state, done.message) == ("done", "")
    assert done.result == {"n": 7}
    assert "numpy\nA=1" in done.output_tail
    assert done.exit_code == 0
    assert kind.told == [("", {"n": 7})]
    assert done.script == Path(done.directory, "job.sh").read_text()
    assert done.started_at
    assert done.ended_at
    assert done.started_at <= done.ended_at


def test_a_result_as_long_as_a_book_is_not_read(kind: Kind, operation: Operation) -> None:
    kind.shell = (
        """{ printf '{"n": "'; head -c 9000000 /dev/zero | tr '\\0' x; echo '"}'; } >result.json"""
    )
    done = finish(operation)
    assert (done.state, done.result) == ("done", {})


def test_a_step_that_fails_is_named_with_its_last_words(kind: Kind, operation: Operation) -> None:
    kind.shell = "echo first; echo the disk is full >&2; exit 3"
    done = finish(operation)
    assert (done.state, done.reason) == ("failed", "failed")
    assert done.message == "Doing it: exit code 3: the disk is full"
    assert kind.told == [(done.message, {})]


def test_what_cannot_be_done_is_not_sent(kind: Kind, operation: Operation) -> None:
    kind.refusal = "There is no runtime."
    done = tick(operation)
    assert (done.state, done.reason, done.message) == ("failed", "refused", kind.refusal)
    assert not done.directory


def test_what_cannot_be_done_any_more_when_it_is_sent_again_is_refused_too(
    kind: Kind, operation: Operation
) -> None:
    kind.refusal = "The image was removed."
    Operation.objects.filter(pk=operation.pk).update(state="submitting")  # its worker has died
    done = tick(operation)
    assert (done.state, done.reason) == ("failed", "refused")
    assert done.message == "The image was removed."


def test_an_operation_shows_its_step_and_its_output_while_it_runs(
    kind: Kind, operation: Operation, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    kind.shell = f"echo so far; until [ -e '{go}' ]; do sleep 0.02; done"
    # The journal is read before the output: a visit in between may see one without the other.
    now = until(operation, lambda row: bool(row.doing) and "so far" in row.output_tail)
    assert (now.state, now.doing, now.step, now.steps) == ("running", "Doing it", 1, 1)
    go.touch()
    assert finish(operation).state == "done"


def test_an_operation_that_runs_can_be_cancelled(kind: Kind, operation: Operation) -> None:
    kind.shell = "echo so far; sleep 600"
    until(operation, lambda row: row.doing)
    staging.cancel(operation, operation.owner)
    done = finish(operation)
    assert (done.state, done.reason) == ("cancelled", "cancelled")
    assert kind.told == [("cancelled by a person", {})]


def test_an_operation_that_waits_can_be_cancelled(kind: Kind, operation: Operation) -> None:
    kind.archive = StagedImageFactory(cluster=operation.cluster, state="staging")
    assert tick(operation).state == "planned"
    staging.cancel(operation, operation.owner)
    assert tick(operation).state == "cancelled"
    with pytest.raises(staging.NotDone, match="ended already"):
        staging.cancel(operation, operation.owner)


def test_only_who_asked_and_who_runs_the_cluster_may_cancel(
    kind: Kind, operation: Operation
) -> None:
    with pytest.raises(staging.NotDone, match="not yours to change"):
        staging.cancel(operation, UserFactory())
    staging.cancel(operation, AdminFactory())


def test_an_operation_waits_for_its_archive_and_for_nothing_else(
    kind: Kind, operation: Operation
) -> None:
    kind.archive = StagedImageFactory(cluster=operation.cluster, format="archive", state="staging")
    assert tick(operation).state == "planned"
    kind.archive.state = "ready"
    assert tick(operation).state == "queued"


def test_a_lost_answer_does_not_make_a_second_job(kind: Kind, operation: Operation) -> None:
    kind.shell = "echo once >>../../count"

    real = Runner.submit_all

    def submit(runner: Runner, jobs: list[JobSpec]) -> object:
        real(runner, jobs)
        raise SystemExit("the worker dies here")

    with mock.patch.object(Runner, "submit_all", submit), pytest.raises(SystemExit):
        tick(operation)
    assert Operation.objects.get(pk=operation.pk).state == "submitting"
    done = finish(operation)
    assert done.state == "done"
    assert Path(done.cluster.work_directory, "count").read_text() == "once\n"


def test_one_thing_at_a_time_is_done_with_a_form(here: Cluster) -> None:
    row = StagedImageFactory(cluster=here, state="ready", made_here=True)
    staging.verify(row, here.owner)
    with pytest.raises(staging.NotDone, match="already"):
        staging.verify(row, here.owner)


def test_a_no_of_the_sites_makes_it_wait(kind: Kind, operation: Operation) -> None:
    kind.shell = "true"
    work = Path(operation.cluster.work_directory)
    work.write_text("somebody has put a file here")
    assert tick(operation).state == Operation.State.PLANNED
    assert Pause.objects.get().kind == "work directory"
    work.unlink()
    assert finish(operation).state == Operation.State.DONE
    assert not Pause.objects.exists()


def test_a_no_that_only_it_would_meet_ends_it(kind: Kind, operation: Operation) -> None:
    no = NotNow("Requested node configuration is not available", kind="nodes", scope="request")
    with mock.patch.object(Runner, "submit_all", side_effect=no):
        ended = tick(operation)
    assert (ended.state, ended.message) == (Operation.State.FAILED, str(no))
    assert not Pause.objects.exists()


def test_an_operation_runs_on_the_partition_that_it_names_or_on_that_with_most_time(
    kind: Kind, here: Cluster, operation: Operation
) -> None:
    Cluster.objects.filter(pk=here.pk).update(scheduler="slurm")
    operation = Operation.objects.get(pk=operation.pk)
    with pytest.raises(NotPossible, match="here has no partition that is enabled"):
        make_operation_spec(operation)
    short = PartitionFactory(cluster=here, name="short", time_limit_minutes=10, account="gpus")
    PartitionFactory(cluster=here, name="long", time_limit_minutes=600)
    resources = make_operation_spec(operation).resources
    assert (resources.partition, resources.time_limit_seconds) == ("long", 7200)
    operation.partition = short
    resources = make_operation_spec(operation).resources
    assert (resources.partition, resources.account) == ("short", "gpus")
    assert resources.time_limit_seconds == 600, "no longer than the partition allows"
