"""A change of state is written with its event, and has comparisons computed anew if it counts."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.execution import moves
from experiments.execution.moves import Move, move, move_all, move_each, record_event, update_each
from experiments.models import Event, Job, Operation, Run, User
from tests.factories import (
    NOON,
    ContainerFactory,
    JobFactory,
    OperationFactory,
    RunFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db

ANOTHER_REPEAT = 32_000
"""More repeats than the jobs that factories number in one process."""
Asked = list[tuple[str, int]]


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What was asked for: comparisons to be kept, and owners to be told."""
    calls: Asked = []
    for what in ("keep", "watch"):
        monkeypatch.setattr(
            moves, f"enqueue_{what}", lambda pk, what=what: calls.append((what, pk))
        )
    return calls


@pytest.fixture
def person() -> User:
    made: User = UserFactory(username="ada")
    return made


def both_of(row: Job | Run) -> Asked:
    return [("keep", row.experiment_id), ("watch", row.experiment_id)]


def events_of(row: Job | Run) -> list[tuple[Any, ...]]:
    columns = ("experiment", "job", "run", "what", "why", "actor__username")
    return list(row.experiment.events.order_by("pk").values_list(*columns))


def two_runs(state: str, **job: Any) -> tuple[Run, Run]:
    made = JobFactory(**job)
    environment = ContainerFactory(cluster=made.cluster)
    first = RunFactory(job=made, state=state)
    return first, RunFactory(job=made, state=state, environment=environment)


def test_an_event_says_of_what_it_is_by_whom_and_why(person: User) -> None:
    run = RunFactory()
    record_event(run.experiment, "seen", job=run.job, run=run, why="why", by=person)
    record_event(run.experiment, "seen again")
    assert events_of(run) == [
        (run.experiment_id, run.job_id, run.pk, "seen", "why", "ada"),
        (run.experiment_id, None, None, "seen again", "", None),
    ]


def test_a_run_moves_with_its_columns_and_its_event(person: User) -> None:
    run, other = two_runs("planned")
    assert move(run, "running", why="w", by=person, node="n1")
    assert (run.state, run.node) == ("running", "n1")
    stored = Run.objects.get(pk=run.pk)
    assert (stored.state, stored.node) == ("running", "n1")
    assert Run.objects.get(pk=other.pk).state == "planned"
    assert events_of(run) == [
        (run.experiment_id, run.job_id, run.pk, "planned → running", "w", "ada")
    ]


def test_whoever_was_slower_changes_nothing(asked: Asked) -> None:
    job = JobFactory(state="collecting")
    Job.objects.update(state="failed")
    assert not move(job, "done", reason="late")
    assert (job.state, job.reason) == ("collecting", "")
    assert not Event.objects.exists()
    assert not asked


@pytest.mark.parametrize(
    ("before", "to", "counts"),
    [
        ("planned", "submitting", False),
        ("running", "collecting", False),
        ("collecting", "done", True),
        ("planned", "cancelled", True),
        ("failed", "planned", False),
        ("failed", "done", True),
    ],
)
def test_a_job_that_ends_has_its_comparison_computed_anew(
    before: str, to: str, counts: bool, asked: Asked
) -> None:
    job = JobFactory(state=before)
    move(job, to)
    assert asked == (both_of(job) if counts else [])
    del asked[:]
    Job.objects.update(state=before)
    move_all(Job.objects.all(), before, to)
    assert asked == (both_of(job) if counts else [])
    del asked[:]
    Job.objects.update(state=before)
    move_each([Move(Job.objects.get())], before, to)
    assert asked == (both_of(job) if counts else [])


@pytest.mark.parametrize(
    ("before", "to", "counts"),
    [
        ("planned", "running", False),
        ("running", "succeeded", False),
        ("succeeded", "excluded", True),
        ("failed", "planned", True),
        ("failed", "succeeded", True),
    ],
)
def test_so_has_a_run_that_had_ended_and_is_another_now(
    before: str, to: str, counts: bool, asked: Asked
) -> None:
    run = RunFactory(state=before)
    move(run, to)
    assert asked == (both_of(run) if counts else [])


def test_operations_have_no_events(asked: Asked) -> None:
    row: Operation = OperationFactory(state="running")
    assert move(row, "collecting", gone_at=NOON)
    assert move_each([Move(row, "w", {"message": "m"})], "collecting", "done") == [row]
    row.refresh_from_db()
    assert (row.state, row.gone_at, row.message) == ("done", NOON, "m")
    assert not Event.objects.exists()
    assert not asked


def test_all_that_are_in_a_state_move_and_are_counted(person: User, asked: Asked) -> None:
    first, second = two_runs("failed")
    ended = RunFactory(job=first.job, repeat=ANOTHER_REPEAT, state="succeeded")
    rows = Run.objects.filter(experiment=first.experiment)
    assert move_all(rows, "failed", "planned", why="w", by=person, node="") == 2
    assert move_all(rows, "failed", "planned") == 0
    assert set(rows.values_list("pk", "state", "node")) == {
        (first.pk, "planned", ""),
        (second.pk, "planned", ""),
        (ended.pk, "succeeded", "node1"),
    }
    what = ("failed → planned", "w", "ada")
    assert events_of(first) == [
        (run.experiment_id, run.job_id, run.pk, *what) for run in (first, second)
    ]
    assert asked == both_of(first), "once for each experiment"


def test_all_jobs_of_several_experiments_move_with_their_events(asked: Asked) -> None:
    jobs = [JobFactory(state="planned") for _ in range(2)]
    assert move_all(Job.objects.all(), "planned", "cancelled", why="w", ended_at=NOON) == 2
    assert set(Job.objects.values_list("state", "ended_at")) == {("cancelled", NOON)}
    for job in jobs:
        assert events_of(job) == [
            (job.experiment_id, job.pk, None, "planned → cancelled", "w", None)
        ]
    assert sorted(asked) == sorted([*both_of(jobs[0]), *both_of(jobs[1])])


def test_each_moves_with_its_own_columns_reason_and_person(person: User) -> None:
    first, second = two_runs("running")
    ended = RunFactory(job=first.job, repeat=ANOTHER_REPEAT, state="succeeded")
    changes = [
        Move(first, "a", {"node": "n1", "exit_code": 1}, person),
        Move(second, "b", {"node": "n2", "exit_code": None}),
        Move(ended, "c", {"node": "n3", "exit_code": 3}),
    ]
    assert move_each(changes, "running", "failed") == [first, second]
    rows = Run.objects.order_by("pk").values_list("state", "node", "exit_code")
    assert list(rows) == [("failed", "n1", 1), ("failed", "n2", None), ("succeeded", "node1", 0)]
    assert (first.state, first.node, ended.node) == ("failed", "n1", "node1")
    what = "running → failed"
    assert events_of(first) == [
        (first.experiment_id, first.job_id, first.pk, what, "a", "ada"),
        (second.experiment_id, second.job_id, second.pk, what, "b", None),
    ]
    assert move_each([], "running", "failed") == []


@pytest.mark.parametrize(
    ("model", "words"),
    [(Job, "No Job can go from planned to done"), (Run, "No Run can go from planned to excluded")],
)
def test_a_way_that_there_is_not_is_refused(model: type[Job | Run], words: str) -> None:
    to = words.rpartition(" ")[2]
    row = RunFactory(state="planned", job__state="planned")
    rows: Any = model._default_manager.all()
    with pytest.raises(ValueError, match=rf"^{words}\.$"):
        move_all(rows, "planned", to)
    with pytest.raises(ValueError, match=rf"^{words}\.$"):
        move_each([Move(rows.get())], "planned", to)
    with pytest.raises(ValueError, match=rf" cannot go from planned to {to}\.$"):
        move(rows.get(), to)
    assert not Event.objects.filter(experiment=row.experiment_id).exists()


def test_columns_are_stored_of_the_rows_that_are_still_in_a_state() -> None:
    first, second = two_runs("running")
    first.node, second.node, first.message = "n1", "n2", "not stored"
    Run.objects.filter(pk=second.pk).update(state="failed")
    update_each([first, second], ["node"], state="running")
    rows = Run.objects.order_by("pk")
    assert list(rows.values_list("node", "message")) == [("n1", ""), ("node1", "")]
    update_each([first, second], ["node"])
    assert list(rows.values_list("node", flat=True)) == ["n1", "n2"]
