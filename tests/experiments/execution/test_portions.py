"""Many jobs by few commands: sent, looked after and collected together, each with its own end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from django.db import transaction

from experiments import execution
from experiments.execution import lifecycle, sending, submitting
from experiments.execution.experiment_pauses import Stopped
from experiments.execution.moves import Move, move_each
from experiments.models import Cluster, Event, Experiment, Job, Run
from runners.errors import NotNow, Refused
from runners.runner import Runner
from runners.submissions import NotReached, Outcome
from runners.transports import Completed, Local
from tests.conftest import finish, tick_until

pytestmark = pytest.mark.django_db
Make = Callable[..., Experiment]
# `experiments.execution.tick` is the function too.
tick = sys.modules["experiments.execution.tick"]


@pytest.fixture
def commands() -> Any:
    """Every command that is sent to the machine."""
    sent: list[Sequence[str]] = []
    run = Local.run

    def note(self: Local, argv: Sequence[str], **options: Any) -> Completed:
        sent.append(argv)
        return run(self, argv, **options)

    with mock.patch.object(Local, "run", note):
        yield sent


def test_a_portion_is_sent_by_two_commands(
    experiment: Make, commands: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "PORTION", 8)
    made = experiment(repeats=20)
    assert execution.tick(made.cluster_id) == "done"
    assert not made.jobs.filter(state=Job.State.PLANNED).exists()
    assert len(set(made.jobs.values_list("scheduler_id", flat=True))) == 20
    names = [argv[3] for argv in commands if argv[:2] == ["sh", "-c"]]
    assert names.count("submit") == 3
    assert names.count("send") == 4, "the payload is missing once"
    events = Event.objects.filter(experiment=made, run=None).exclude(job=None)
    for what in ("planned → submitting", "submitting → queued"):
        assert events.filter(what=what).values("job").distinct().count() == 20
    lifecycle.cancel(made, made.owner)
    finish(made)


def test_the_first_portion_is_small(experiment: Make, commands: list[Sequence[str]]) -> None:
    made = experiment(repeats=sending.FIRST_PORTION + 5)
    assert execution.tick(made.cluster_id) == "done"
    work_directory = made.cluster.work_directory
    portions = [
        sum(word.startswith(f"{work_directory}/jobs/") for word in argv)
        for argv in commands
        if argv[:2] == ["sh", "-c"] and argv[3] == "submit"
    ]
    assert portions == [sending.FIRST_PORTION, 5]
    lifecycle.cancel(made, made.owner)
    finish(made)


def test_what_has_ended_comes_home_by_two_commands(
    experiment: Make, commands: list[Sequence[str]]
) -> None:
    made = experiment(repeats=5)
    collecting = made.jobs.filter(state=Job.State.COLLECTING)
    with mock.patch.object(tick, "_collect"):
        tick_until(made.cluster, lambda: collecting.count() == 5)
    commands.clear()
    assert execution.tick(made.cluster_id) == "done"
    assert set(made.jobs.values_list("state", flat=True)) == {"done"}
    assert set(made.runs.values_list("state", flat=True)) == {"succeeded"}
    names = [argv[3] for argv in commands if argv[:2] == ["sh", "-c"]]
    assert sorted(names) == ["list", "pack"]


def test_those_after_a_refused_one_stay_planned_and_other_experiments_go_on(
    experiment: Make,
) -> None:
    made = experiment(repeats=4)
    jobs = list(made.jobs.order_by("block"))
    submit = Runner.submit_all

    def refuse_second(self: Runner, specs: Sequence[Any]) -> list[Outcome]:
        (first,) = submit(self, specs[:1])
        no = NotNow("not now", kind="limit", scope="request")
        return [first, no, *[NotReached()] * (len(specs) - 2)]

    with mock.patch.object(Runner, "submit_all", refuse_second):
        execution.tick(made.cluster_id)
    states = [Job.objects.get(pk=job.pk).state for job in jobs]
    assert states == ["queued", "planned", "planned", "planned"]
    assert made.cluster.pauses.get().message == "not now"
    Cluster.objects.update(last_tick_at=None)
    made.cluster.pauses.update(retry_at=made.launched_at)
    finish(made)
    assert set(made.jobs.values_list("state", flat=True)) == {"done"}


def test_a_job_whose_files_can_be_sent_nowhere_ends_alone(experiment: Make) -> None:
    made = experiment(repeats=3)
    first, second, third = made.jobs.order_by("block")
    submit = Runner.submit_all

    def refuse_second(self: Runner, specs: Sequence[Any]) -> list[Outcome]:
        if second.uid in {spec.uid for spec in specs}:
            raise Refused("File name too long")
        return submit(self, specs)

    with mock.patch.object(Runner, "submit_all", refuse_second):
        execution.tick(made.cluster_id)
        made.cluster.pauses.update(retry_at=made.launched_at)
        Cluster.objects.update(last_tick_at=None)
        execution.tick(made.cluster_id)
    assert Job.objects.get(pk=second.pk).message == "File name too long"
    finish(made)
    states = [Job.objects.get(pk=job.pk).state for job in (first, second, third)]
    assert states == ["done", "failed", "done"]


ENDED_UNSENT: dict[str, Callable[[Experiment], object]] = {
    "refused": lambda made: mock.patch.object(
        Runner, "submit_all", side_effect=Refused("no such option")
    ),
    "cancelled": lambda made: mock.patch.object(
        submitting,
        "find_stopped",
        side_effect=lambda keys: Stopped(paused=frozenset(), cancelled=frozenset(keys)),
    ),
}


@pytest.mark.parametrize("how", ENDED_UNSENT)
def test_a_worker_killed_while_it_ends_a_job_that_was_not_sent_leaves_no_run_behind(
    experiment: Make, how: str
) -> None:
    """Nothing would ever end such a run: its job has ended."""
    made = experiment()
    killed = mock.patch.object(submitting, "end_runs", side_effect=SystemExit("killed here"))
    with ENDED_UNSENT[how](made), killed, pytest.raises(SystemExit):  # type: ignore[attr-defined]
        execution.tick(made.cluster_id)
    assert made.jobs.get().state == "submitting"
    finish(made)
    assert not made.runs.exclude(state__in=Run.FINAL).exists()


def test_many_jobs_of_somebody_without_the_right_make_one_pause(experiment: Make) -> None:
    made = experiment(repeats=5)
    forbidden = dict.fromkeys(made.jobs.values_list("pk", flat=True), "No longer yours.")
    with mock.patch.object(submitting, "find_forbidden", return_value=forbidden):
        execution.tick(made.cluster_id)
    assert set(made.jobs.values_list("state", flat=True)) == {"planned"}
    pause = made.cluster.pauses.get()
    assert (pause.failures, pause.message) == (1, "No longer yours.")


def test_files_that_arrived_after_the_portion_was_fetched_count(experiment: Make) -> None:
    """Jobs of a portion are decided one by one: what was late at first may be there by then."""
    made = experiment(repeats=2)
    collecting = made.jobs.filter(state=Job.State.COLLECTING)
    with mock.patch.object(tick, "_collect"):
        tick_until(made.cluster, lambda: collecting.count() == 2)
    made.jobs.update(gone_at=made.launched_at - timedelta(hours=1))
    real = Runner.collect_all

    def fetch_too_early(self: Runner, directories: Any) -> Any:
        fetched = real(self, directories)
        for files in fetched.values():
            del files["exit_code"]
        return fetched

    with mock.patch.object(Runner, "collect_all", fetch_too_early):
        execution.tick(made.cluster_id)
    assert set(made.jobs.values_list("state", flat=True)) == {"done"}


def test_an_odd_answer_about_a_portion_has_each_fetched_alone(experiment: Make) -> None:
    made = experiment(repeats=2)
    with mock.patch.object(Runner, "collect_all", side_effect=FileNotFoundError("jobs")):
        finish(made)
    assert set(made.jobs.values_list("state", flat=True)) == {"done"}


def test_files_of_people_are_no_more_in_one_portion_than_memory_bears(
    experiment: Make, commands: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submitting, "MOST_BYTES", 2500)
    monkeypatch.setattr(submitting, "read_sent_files", lambda job: {"data.bin": b"x" * 1000})
    made = experiment(repeats=5)
    assert execution.tick(made.cluster_id) == "done"
    assert not made.jobs.filter(state=Job.State.PLANNED).exists()
    names = [argv[3] for argv in commands if argv[:2] == ["sh", "-c"]]
    assert names.count("submit") == 3
    lifecycle.cancel(made, made.owner)
    finish(made)


class TestMoveEach:
    def test_moves_only_what_is_where_it_is_thought_to_be(self, experiment: Make) -> None:
        made = experiment(repeats=3)
        first, second, third = made.jobs.order_by("pk")
        Job.objects.filter(pk=second.pk).update(state=Job.State.CANCELLED)
        moves = [Move(job, f"why {job.block}", {"script": str(job.pk)}) for job in (first, second)]
        assert move_each(moves, "planned", "submitting") == [first]
        assert second.state == Job.State.PLANNED, "nobody has told the row in memory"
        kept = Job.objects.get(pk=first.pk)
        assert (kept.state, kept.script) == ("submitting", str(first.pk))
        assert Job.objects.get(pk=third.pk).state == "planned"
        event = Event.objects.get(what="planned → submitting")
        assert (event.job, event.why, event.experiment) == (first, f"why {first.block}", made)

    def test_leaves_rows_as_they_were_if_the_database_refuses(self, experiment: Make) -> None:
        jobs = list(experiment(repeats=2).jobs.all())
        moves = [Move(job, columns={"script": "a\0b"}) for job in jobs]
        with pytest.raises(ValueError, match="NUL"), transaction.atomic():
            move_each(moves, "planned", "submitting")
        assert {job.state for job in jobs} == {"planned"}

    def test_refuses_what_no_job_can_do(self, experiment: Make) -> None:
        job = experiment().jobs.get()
        with pytest.raises(ValueError, match="No Job can go"):
            move_each([Move(job)], "planned", "done")

    def test_takes_as_many_statements_for_many(
        self, experiment: Make, django_assert_num_queries: Any
    ) -> None:
        jobs = list(experiment(repeats=30).jobs.all())
        with django_assert_num_queries(5):  # with the savepoint's two
            move_each([Move(job, columns={"script": "x"}) for job in jobs], "planned", "submitting")
