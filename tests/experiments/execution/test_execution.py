"""Ticks on a real machine: real processes, real files, real PostgreSQL."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from django.utils import timezone

from experiments import execution
from experiments.comparisons import compare_experiment
from experiments.execution import lifecycle, moves
from experiments.models import Cluster, Event, Experiment, Job, Run
from experiments.models.cluster import GATE_ASKED_AGAIN
from runners.errors import TryAgain
from runners.runner import Runner
from runners.schedulers import Status
from runners.transports import Local
from tests.conftest import finish, tick_until
from tests.factories import ContainerFactory, JobFactory

pytestmark = pytest.mark.django_db

Make = Callable[..., Experiment]


def script(folder: Path, text: str) -> str:
    """Return the path of a program that stands in for an interpreter."""
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def starts(job: Job) -> int:
    journal = Path(job.directory, "journal.ndjson").read_text()
    return sum(json.loads(line)["event"] == "job started" for line in journal.splitlines())


def test_a_run_goes_from_launch_to_its_measurements(experiment: Make) -> None:
    made = experiment()
    finish(made)
    for run in made.runs.all():
        assert run.state == Run.State.SUCCEEDED, run.message
        assert run.exit_code == 0
        assert run.began_at
        assert run.ended_at
        assert run.began_at < run.ended_at
        assert run.measurements.get(metric="step_time").unit == "s"
        series = run.series.get(metric="step_time")
        assert len(series.values) == 6
        assert series.shape == "too short to tell"


def test_every_number_can_be_followed_to_script_log_and_snapshot(experiment: Make) -> None:
    made = experiment()
    finish(made)
    job, run = made.jobs.get(), made.runs.first()
    assert run
    assert job.script == Path(job.directory, "job.sh").read_text()
    assert run.command
    assert run.snapshot
    assert run.snapshot.content["inside"]["packages"]["numpy"]
    assert "Linux" in run.snapshot_content["outside"]["uname"]
    told = list(job.events.filter(run=None).values_list("what", flat=True))
    assert told[0] == "planned → submitting"
    assert told[-1] == "collecting → done"


def test_runs_of_a_block_follow_the_planned_order_on_one_node(experiment: Make) -> None:
    made = experiment(repeats=2)
    finish(made)
    for job in made.jobs.all():
        runs = list(job.runs.order_by("position"))
        assert [run.began_at for run in runs] == sorted(run.began_at for run in runs)
        assert len({run.node for run in runs}) == 1


class TestFailures:
    """A run that fails ends FAILED with its output at hand, and is never compared."""

    @pytest.mark.parametrize(
        ("program", "reason", "words"),
        [
            ("echo no GPU found; exit 7", "crashed", "exit code 7: no GPU found"),
            ("exit 0", "not sane", "result"),
            (
                'echo "{\\"schema\\": 1, \\"metrics\\": {\\"step_time\\": '
                '{\\"value\\": NaN, \\"unit\\": \\"s\\"}}}" > "${2%/*}/result.json"',
                "not sane",
                "NaN",
            ),
        ],
    )
    def test_end_the_run_and_only_that(
        self, experiment: Make, tmp_path: Path, program: str, reason: str, words: str
    ) -> None:
        made = experiment(python=script(tmp_path, program))
        finish(made)
        failed = made.runs.get(environment__name="other")
        assert (failed.state, failed.reason) == ("failed", reason)
        assert words in failed.message
        assert not failed.measurements.exists()
        assert made.runs.get(environment__name="bare metal").state == "succeeded"
        (group,) = compare_experiment(made).groups
        assert [sample.environment for sample in group.samples] == ["bare metal"]

    @pytest.mark.parametrize(
        ("executable", "reason", "words"),
        [
            ("sh", "image missing", "/images/tensorflow.sif"),
            ("/none/apptainer", "runtime missing", "has no /none/apptainer"),
        ],
    )
    def test_what_the_node_lacks_is_named(
        self, here: Cluster, experiment: Make, executable: str, reason: str, words: str
    ) -> None:
        made = experiment()
        container = ContainerFactory(name="container", cluster=here)
        run = made.runs.get(environment__name="other")
        spec = {"image_path": "/images/tensorflow.sif", "runtime": "apptainer"}
        spec["executable"] = executable
        run.spec["environment"] |= spec
        run.save(update_fields=["spec"])
        assert container.staged_image.path == spec["image_path"]
        finish(made)
        run.refresh_from_db()
        assert (run.state, run.reason) == ("failed", reason)
        assert words in run.message

    def test_a_tampered_result_is_not_believed(self, experiment: Make) -> None:
        made = experiment()
        job = made.jobs.get()
        collecting = Job.objects.filter(pk=job.pk, state=Job.State.COLLECTING)
        with mock.patch("experiments.execution.tick.collect"):
            tick_until(made.cluster, collecting.exists)
        job.refresh_from_db()
        run = made.runs.first()
        assert run
        Path(job.directory, f"runs/{run.position}-{run.uid}/result.json").write_text("{}")
        finish(made)
        run.refresh_from_db()
        assert (run.state, run.reason) == ("failed", "damaged")


class TestPromise3ExactlyOnce:
    """Promise 3: a job is executed once, however often workers and connections die."""

    def test_an_answer_lost_after_sending_is_found_again(self, experiment: Make) -> None:
        made = experiment()
        submit = Runner.submit_all

        def and_die(self: Runner, jobs: Any) -> Any:
            submit(self, jobs)
            raise TryAgain("the connection broke", kind="unreachable")

        with mock.patch.object(Runner, "submit_all", and_die):
            assert execution.tick(made.cluster.pk) == "try again"
        assert made.jobs.get().state == Job.State.SUBMITTING
        Cluster.objects.update(retry_at=None)
        finish(made)
        assert starts(made.jobs.get()) == 1
        assert set(made.runs.values_list("state", flat=True)) == {"succeeded"}

    @pytest.mark.parametrize("deaths", range(1, 13))
    def test_a_worker_may_die_at_any_move(self, experiment: Make, deaths: int) -> None:
        """Every tick dies at its `deaths`th move; others finish what it began."""
        made = experiment()
        count = 0

        class Died(BaseException):
            pass

        def make_mortal(work: Any) -> Any:
            def mortal(*args: Any, **kwargs: Any) -> Any:
                nonlocal count
                count += 1
                if count == deaths:
                    raise Died
                return work(*args, **kwargs)

            return mortal

        targets = ("tick.move_each", "submitting.move_each", "submitting.move", "collect.move")
        with contextlib.ExitStack() as patches, contextlib.suppress(Died):
            for name in targets:
                work = getattr(moves, name.partition(".")[2])
                patches.enter_context(
                    mock.patch(f"experiments.execution.{name}", make_mortal(work))
                )
            finish(made)
        Cluster.objects.update(lease_until=None)
        finish(made)
        assert starts(made.jobs.get()) == 1
        assert set(made.runs.values_list("state", flat=True)) == {"succeeded"}
        assert Event.objects.filter(what="running → succeeded").count() <= 2

    def test_a_job_sent_twice_runs_once(self, experiment: Make) -> None:
        made = experiment()
        submit = Runner.submit_all

        def twice(self: Runner, jobs: Any) -> Any:
            submit(self, jobs)
            return submit(self, jobs)

        with mock.patch.object(Runner, "submit_all", twice):
            finish(made)
        assert starts(made.jobs.get()) == 1
        assert set(made.runs.values_list("state", flat=True)) == {"succeeded"}


def test_a_scheduler_that_says_a_lot_is_cut_short(experiment: Make) -> None:
    made = experiment()
    execution.tick(made.cluster.pk)
    reason = "queue instance dropped because it is full; " * 100

    def says(self: Runner, ids: list[str]) -> dict[str, Status]:
        return {job_id: Status("queued", reason, "qw") for job_id in ids}

    with mock.patch.object(Runner, "poll", says):
        assert execution.tick(made.cluster.pk) == "done"
    kept = made.jobs.get().scheduler_state
    assert kept.startswith("qw queue instance dropped")
    assert kept.endswith("...")
    finish(made)


def test_when_a_waiting_job_is_expected_to_start_is_kept_to_the_minute(experiment: Make) -> None:
    made = experiment(repeats=2)
    execution.tick(made.cluster.pk)
    first, second = made.jobs.order_by("pk")

    def visit(*expected: float | None) -> list[datetime | None]:
        """Have the scheduler say so of both jobs; return what is kept."""
        statuses = {
            job.scheduler_id: Status("queued", "Resources", "PENDING", expected_start=start)
            for job, start in zip((first, second), expected, strict=True)
        }
        with mock.patch.object(Runner, "poll", return_value=statuses):
            assert execution.tick(made.cluster.pk) == "done"
        return list(made.jobs.order_by("pk").values_list("expected_start_at", flat=True))

    noon = datetime(2026, 11, 24, 12, tzinfo=UTC)
    assert visit(noon.timestamp() + 59, None) == [noon, None]
    assert visit(noon.timestamp() + 7, noon.timestamp() + 3600) == [noon, noon + timedelta(hours=1)]
    assert visit(None, None) == [None, None]
    visit(noon.timestamp(), noon.timestamp())
    finish(made)
    assert {job.expected_start_at for job in made.jobs.all()} <= {None, noon}
    assert {job.upcoming_start for job in made.jobs.all()} == {None}


def test_an_older_forced_command_is_remembered_until_it_is_replaced(experiment: Make) -> None:
    made = experiment(repeats=1)
    execution.tick(made.cluster.pk)
    asked: list[bool] = []

    def visit(*, is_older: bool) -> Cluster:
        """Have the forced command let today's command through, or not."""

        def poll(runner: Runner, ids: Sequence[str]) -> dict[str, Status]:
            asked.append(runner.has_older_gate)
            runner.has_older_gate |= is_older
            return {job_id: Status("queued", "Resources", "PENDING") for job_id in ids}

        with mock.patch.object(Runner, "poll", autospec=True, side_effect=poll):
            assert execution.tick(made.cluster.pk) == "done"
        return Cluster.objects.get(pk=made.cluster.pk)

    first = visit(is_older=True)
    assert first.older_gate_at
    assert first.has_older_gate
    assert visit(is_older=True).older_gate_at == first.older_gate_at
    Cluster.objects.update(older_gate_at=timezone.now() - GATE_ASKED_AGAIN)
    assert visit(is_older=False).older_gate_at is None
    assert asked == [False, True, False]
    finish(made)


class TestPromise7Politeness:
    """Promise 7: one connection, one status call a tick, a floor on the interval."""

    def test_one_status_call_however_many_jobs_are_live(self, experiment: Make) -> None:
        made = experiment(repeats=8)
        execution.tick(made.cluster.pk)
        assert made.jobs.filter(state__in=Job.LIVE).count() == 8
        with mock.patch.object(Runner, "poll", autospec=True, side_effect=Runner.poll) as poll:
            execution.tick(made.cluster.pk)
        assert poll.call_count == 1
        lifecycle.cancel(made, made.owner)
        finish(made)

    def test_a_tick_too_early_does_not_connect(self, experiment: Make) -> None:
        made = experiment()
        Cluster.objects.update(poll_seconds=60, last_tick_at=timezone.now())
        with mock.patch.object(Local, "run") as run:
            assert execution.tick(made.cluster.pk) == "early"
        run.assert_not_called()

    def test_no_more_jobs_are_live_than_the_cluster_allows(self, experiment: Make) -> None:
        made = experiment(repeats=5)
        Cluster.objects.update(max_live_jobs=2)
        execution.tick(made.cluster.pk)
        assert made.jobs.filter(state__in=Job.LIVE).count() == 2
        lifecycle.cancel(made, made.owner)
        finish(made)


class TestNobodyAnswers:
    def unreachable(self, *args: Any, **kwargs: Any) -> Any:
        raise TryAgain("Nobody listens on port 22 of here.", kind="unreachable")

    def test_no_state_changes_and_the_cluster_says_why(self, experiment: Make) -> None:
        made = experiment()
        with mock.patch.object(Local, "run", self.unreachable):
            assert execution.tick(made.cluster.pk) == "try again"
        made.cluster.refresh_from_db()
        assert made.cluster.last_error == "Nobody listens on port 22 of here."
        assert made.cluster.retry_at
        assert made.cluster.failures == 1
        assert set(made.runs.values_list("state", flat=True)) == {"planned"}

    def test_the_next_tick_goes_on(self, experiment: Make) -> None:
        made = experiment()
        with mock.patch.object(Local, "run", self.unreachable):
            execution.tick(made.cluster.pk)
        Cluster.objects.update(retry_at=None)
        finish(made)
        made.cluster.refresh_from_db()
        assert (made.cluster.last_error, made.cluster.failures) == ("", 0)
        assert set(made.runs.values_list("state", flat=True)) == {"succeeded"}

    def test_the_pause_grows(self, here: Cluster) -> None:
        Cluster.objects.update(poll_seconds=10, failures=3)
        before = timezone.now()
        with mock.patch.object(Local, "run", self.unreachable):
            JobFactory(experiment__cluster=here, state=Job.State.QUEUED)
            assert execution.tick(here.pk) == "try again"
        here.refresh_from_db()
        assert here.retry_at
        assert here.retry_at - before >= timedelta(seconds=80)


class TestCancel:
    def test_ends_a_running_job_and_keeps_what_is_done(
        self, experiment: Make, tmp_path: Path
    ) -> None:
        made = experiment(python=script(tmp_path, "sleep 300"))
        running = made.runs.filter(state="running", environment__name="other")
        tick_until(made.cluster, running.exists)
        lifecycle.cancel(made, made.owner)
        finish(made)
        assert made.jobs.get().state == Job.State.CANCELLED
        assert made.runs.get(environment__name="other").state == "cancelled"
        first = made.runs.get(environment__name="bare metal")
        assert first.state == ("succeeded" if first.position == 0 else "cancelled")


def test_runs_that_never_began_are_not_charged_with_what_ended_their_job(
    experiment: Make, tmp_path: Path
) -> None:
    kill_job = "kill -s KILL -- -$(cut -d- -f1 <../../started)"
    made = experiment(python=script(tmp_path, kill_job))
    job = made.jobs.get()
    first, second = job.runs.order_by("position")
    for run in (first, second):
        run.spec["environment"]["python"] = str(tmp_path / "program")
        run.save(update_fields=["spec"])
    with mock.patch("experiments.execution.collect.LATE_EXIT_CODE", timedelta(0)):
        finish(made)
    first.refresh_from_db()
    second.refresh_from_db()
    job.refresh_from_db()
    assert (job.state, job.reason) == ("failed", "lost")
    assert (first.state, first.reason) == ("failed", "lost")
    assert (second.state, second.reason) == ("failed", "not started")
    assert second.message.startswith(
        f"Not started, because its job ended in its run of {first.environment}: "
    )
    assert second.began_at is None


def test_a_job_that_vanished_is_lost_and_not_a_success(experiment: Make, tmp_path: Path) -> None:
    made = experiment(python=script(tmp_path, "sleep 300"))
    tick_until(made.cluster, made.runs.filter(state="running").exists)
    job = made.jobs.get()
    with execution.connect(made.cluster) as runner:
        runner.transport.run(["sh", "-c", f"kill -s KILL -- -{job.scheduler_id.partition('-')[0]}"])
    collecting = Job.objects.filter(state=Job.State.COLLECTING)
    tick_until(made.cluster, collecting.exists, 5)
    Job.objects.update(gone_at=timezone.now())  # just now, however long the disk has held us up
    execution.tick(made.cluster.pk)
    job.refresh_from_db()
    assert job.state == "collecting", f"the last files may still appear: {job.message}"
    Job.objects.update(gone_at=timezone.now() - timedelta(minutes=5))
    execution.tick(made.cluster.pk)
    job.refresh_from_db()
    assert (job.state, job.reason) == ("failed", "lost")
