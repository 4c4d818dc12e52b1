"""Owners are told what became of their experiments: once, in few words, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from experiments.comparisons import keep_comparison
from experiments.execution import tasks
from experiments.execution.repairs import repair
from experiments.models import (
    Experiment,
    Job,
    NoticedExperiment,
    NotificationChoices,
    Run,
    User,
)
from experiments.models.states import NOT_STARTED
from experiments.notifications import (
    count_unread,
    describe_notification,
    list_notifications,
    list_unwatched,
    mark_read,
    watch_experiment,
    watching,
)
from tests.factories import ExperimentFactory, JobFactory, LaunchedFactory, RunFactory, UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner() -> User:
    person: User = UserFactory(username="owner")
    return person


Make = Callable[..., Experiment]


@pytest.fixture
def make(owner: User) -> Make:
    """Return a function that makes an experiment with one job for each of these states of runs."""

    def launch(*states: str) -> Experiment:
        made: Experiment = LaunchedFactory(owner=owner, question="What <b>?")
        for state in states:
            RunFactory(experiment=made, job=JobFactory(experiment=made), state=state)
        return made

    return launch


def told(person: User) -> list[tuple[str, str]]:
    rows = list_notifications(person).filter(read_at=None)
    return sorted((row.kind, describe_notification(row).sentence) for row in rows)


def unread(person: User) -> int:
    return User.objects.get(pk=person.pk).unread_notifications


def test_an_end_is_told_once(make: Make, owner: User) -> None:
    made = make("succeeded", "running")
    assert watch_experiment(made.pk) == "nothing new"
    made.runs.filter(state="running").update(state="succeeded")
    assert watch_experiment(made.pk) == "ended"
    assert told(owner) == [("ended", "All 2 runs are over: 2 succeeded.")]
    assert unread(owner) == 1
    mark_read(owner)
    assert unread(owner) == 0
    assert watch_experiment(made.pk) == "nothing new"
    assert told(owner) == []


def test_two_thousand_failures_are_one_notification(make: Make, owner: User) -> None:
    made = make("planned")
    job = made.jobs.get()
    for count in range(0, 2000, 500):
        Run.objects.bulk_create(
            RunFactory.build(
                experiment=made,
                job=job,
                workload=made.runs.all()[0].workload,
                environment=made.runs.all()[0].environment,
                state="failed",
                uid=f"{count}-{index}",
                repeat=10_000 + count + index,
                position=1 + count + index,
            )
            for index in range(500)
        )
        assert watch_experiment(made.pk) == "failed"
    assert told(owner) == [("failed", "2000 of 2001 runs have failed so far.")]
    assert unread(owner) == 1


def test_what_is_tried_again_and_fails_again_is_told_again(make: Make, owner: User) -> None:
    made = make("failed")
    assert watch_experiment(made.pk) == "failed, ended"
    mark_read(owner)
    made.jobs.update(attempt=2)
    made.runs.update(state="planned")
    assert watch_experiment(made.pk) == "nothing new"
    made.runs.update(state="failed")
    assert watch_experiment(made.pk) == "failed, ended"


def test_the_end_of_a_repair_is_told(make: Make, owner: User) -> None:
    """Its runs move to a new job, which is at its first attempt too."""
    made = make("failed")
    assert watch_experiment(made.pk) == "failed, ended"
    made.runs.update(state="planned")
    assert watch_experiment(made.pk) == "nothing new"
    made.runs.update(state="succeeded")
    assert watch_experiment(made.pk) == "ended"


@pytest.mark.parametrize(
    ("end", "news"), [("succeeded", "ended"), ("failed", "failed, ended"), ("planned", "")]
)
@pytest.mark.parametrize("attempt", [1, 2])
def test_a_repair_that_nobody_saw_between_two_looks_is_told(
    make: Make, owner: User, attempt: int, end: str, news: str
) -> None:
    made = make("succeeded")
    first = made.jobs.get()
    columns = {"repeat": 10_000, "position": 1, "reason": NOT_STARTED}
    RunFactory(experiment=made, job=first, state="failed", **columns)
    Job.objects.filter(pk=first.pk).update(state="failed", attempt=attempt)
    watch_experiment(made.pk)
    mark_read(owner)
    second = repair(first, made.owner, same_node=False)
    assert made.pk in list_unwatched()
    second.runs.update(state=end, reason=NOT_STARTED if end == "failed" else "")
    if news:
        assert made.pk in list_unwatched(), "the task after the change may have been lost"
    assert watch_experiment(made.pk) == (news or "nothing new")
    assert watch_experiment(made.pk) == "nothing new"
    assert (made.pk in list_unwatched()) == (not news)


def test_a_retry_that_nobody_saw_between_two_looks_is_told(make: Make, owner: User) -> None:
    made = make("failed")
    watch_experiment(made.pk)
    mark_read(owner)
    made.jobs.update(attempt=2)
    assert watch_experiment(made.pk) == "failed, ended"


def test_verdicts_are_told_when_they_come_and_when_they_change(
    make: Make, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make("running")
    verdicts: dict[str, int] = {}
    monkeypatch.setattr(watching, "_read_verdicts", lambda _: dict(verdicts))
    assert watch_experiment(made.pk) == "nothing new"
    verdicts["EQUIVALENT"] = 3
    assert watch_experiment(made.pk) == "verdict"
    assert told(owner) == [("verdict", "EQUIVALENT 3.")]
    verdicts.update({"EQUIVALENT": 1, "SLOWER": 2})
    assert watch_experiment(made.pk) == "verdict"
    assert told(owner) == [("verdict", "SLOWER 2, EQUIVALENT 1; before: EQUIVALENT 3.")]
    verdicts.clear()  # it is not known for a while
    assert watch_experiment(made.pk) == "nothing new"


def test_a_crash_in_the_middle_neither_loses_nor_doubles(
    make: Make, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make("failed")
    with monkeypatch.context() as patch:
        patch.setattr(NoticedExperiment, "save", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            watch_experiment(made.pk)
    assert told(owner) == []
    assert made.pk in list_unwatched()
    watch_experiment(made.pk)
    watch_experiment(made.pk)
    assert [kind for kind, _ in told(owner)] == ["ended", "failed"]
    assert unread(owner) == 2


def test_the_clock_asks_for_what_may_have_something_new(make: Make, owner: User) -> None:
    ended, alive, again = make("succeeded"), make("running"), make("failed")
    ExperimentFactory(owner=owner)
    for made in (ended, again):
        watch_experiment(made.pk)
    assert list_unwatched() == [alive.pk]
    again.runs.update(state="planned")
    assert set(list_unwatched()) == {alive.pk, again.pk}


def test_nobody_is_told_what_they_have_not_chosen(make: Make, owner: User) -> None:
    NotificationChoices.objects.create(person=owner, ways={"ended": [], "failed": ["site"]})
    watch_experiment(make("failed").pk)
    assert [kind for kind, _ in told(owner)] == ["failed"]


def test_who_may_not_see_the_experiment_any_more_is_not_shown_it(make: Make, owner: User) -> None:
    made = make("succeeded")
    watch_experiment(made.pk)
    Experiment.objects.filter(pk=made.pk).update(owner=UserFactory(), visibility="private")
    assert told(owner) == []
    assert count_unread(owner) == 0


def test_drafts_and_what_is_gone_are_not_watched(owner: User) -> None:
    assert watch_experiment(ExperimentFactory(owner=owner).pk) == "nothing to watch"
    assert watch_experiment(0) == "nothing to watch"


def test_a_look_takes_as_many_statements_for_more_runs(make: Make) -> None:
    counts = []
    for states in (("succeeded",), ("succeeded",) * 30):
        made = make(*states)
        with CaptureQueriesContext(connection) as queries:
            watch_experiment(made.pk)
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_the_task_that_keeps_a_comparison_tells_of_its_verdicts(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make("succeeded")
    looked: list[int] = []
    monkeypatch.setattr(tasks, "close_old_connections", lambda: None)
    monkeypatch.setattr(tasks, "watch_experiment", looked.append)
    assert tasks.keep(made.pk) == keep_comparison(made.pk)
    assert looked == [made.pk]
