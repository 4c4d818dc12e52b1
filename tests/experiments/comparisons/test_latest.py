"""Where computing takes long, pages have the last comparison, and a worker makes the next one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from experiments.comparisons import (
    compare_experiment,
    find_latest,
    keep_comparison,
    kept,
    read_all_kept,
    read_comparison,
    read_latest,
)
from experiments.comparisons.comparison_keys import identify_inputs
from experiments.execution import excluded_runs
from experiments.models import Environment, Event, Experiment, KeptComparison, Run, User, Workload
from experiments.models.database_locks import try_lock
from tests.experiments.planning.test_stages import end, end_all, launched
from tests.factories import EventFactory, UserFactory

pytestmark = pytest.mark.django_db


def fresh(experiment: Experiment) -> Experiment:
    return Experiment.objects.get(pk=experiment.pk)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The experiments whose comparisons were asked for, once for each time."""
    pks: list[int] = []
    monkeypatch.setattr(kept, "enqueue_keep", pks.append)
    monkeypatch.setattr("experiments.execution.moves.enqueue_keep", lambda pk: None)
    return pks


@pytest.fixture
def behind(asked: list[int]) -> Experiment:
    """A live experiment whose comparison took two seconds, and has since had another block."""
    experiment = launched(repeats=10, looks=1)
    end_all(experiment, (1.0,) * 3)
    assert keep_comparison(experiment.pk) == "kept"
    KeptComparison.objects.update(seconds=2.0)
    end(experiment, 4, 1.0)
    return experiment


def age(seconds: float) -> None:
    """Move all that the row notes into the past."""
    row = KeptComparison.objects.get()
    past = timedelta(seconds=seconds)
    failed_at = row.failed_at and row.failed_at - past
    KeptComparison.objects.update(kept_at=row.kept_at - past, failed_at=failed_at)


def count_values(comparison: Any) -> int:
    return sum(len(group.samples) for group in comparison.groups)


def refuse(experiment: Experiment) -> Any:
    raise AssertionError("No page computes this.")


def test_where_it_takes_long_the_last_one_is_shown_with_its_time(
    behind: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "compare_experiment", refuse)
    comparison, latest = read_latest(fresh(behind))
    assert count_values(comparison) == 6
    row = KeptComparison.objects.get()
    assert latest.is_behind
    assert latest.row == row
    assert row.ended_runs == comparison.ended == 6
    assert latest.due_at == row.kept_at + timedelta(seconds=kept.SHARE * 2)


def test_where_it_takes_a_moment_it_is_the_one_of_now(behind: Experiment) -> None:
    KeptComparison.objects.update(seconds=0.4)
    comparison, latest = read_latest(fresh(behind))
    assert count_values(comparison) == 8
    assert not latest.is_behind


def test_pages_of_many_experiments_read_what_is_kept_and_compute_nothing(
    behind: Experiment, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    KeptComparison.objects.update(seconds=0.0)  # however short it takes
    other = launched(repeats=3, looks=1)
    end_all(other, (1.0,) * 3)
    asked.clear()
    monkeypatch.setattr(kept, "compare_experiment", refuse)
    (older, latest), (missing, nothing) = read_all_kept([fresh(behind), fresh(other)])
    assert older
    assert (count_values(older), latest.is_behind) == (6, True)
    assert missing is None
    assert nothing.is_missing
    assert asked == [other.pk], "the other one is not due yet"
    KeptComparison.objects.update(content=b"damaged")
    assert read_all_kept([fresh(behind)])[0][0] is None


def test_files_and_decisions_have_the_one_of_now(behind: Experiment) -> None:
    assert count_values(read_comparison(fresh(behind))) == 8


def test_a_worker_is_asked_when_it_is_time_and_not_before(
    behind: Experiment, asked: list[int]
) -> None:
    read_latest(fresh(behind))
    assert find_latest(fresh(behind)).due_at is not None
    assert asked == []
    age(kept.SHARE * 2 + 1)
    assert find_latest(fresh(behind)).due_at is None
    assert asked == [behind.pk]
    assert keep_comparison(behind.pk) == "kept"
    comparison, latest = read_latest(fresh(behind))
    assert (count_values(comparison), latest.is_behind) == (8, False)


def test_when_all_have_ended_nobody_waits(behind: Experiment, asked: list[int]) -> None:
    end_all(behind, (1.0,) * 6, first=5)
    latest = find_latest(fresh(behind))
    assert (latest.is_behind, latest.due_at) == (True, None)
    assert asked == [behind.pk]


FRAMES: dict[str, Callable[[Experiment], object]] = {
    "the margin": lambda row: Experiment.objects.filter(pk=row.pk).update(margin=0.3),
    "an environment's name": lambda row: Environment.objects.filter(pk=row.baseline_id).update(
        name="another name"
    ),
    "a workload's parameters": lambda row: Workload.objects.update(parameters={"burn_in": 7}),
    "a version before this column": lambda row: KeptComparison.objects.update(frame=""),
    "damage": lambda row: KeptComparison.objects.update(content=b"x"),
}


@pytest.mark.parametrize("change", FRAMES.values(), ids=FRAMES)
def test_what_another_plan_would_have_shown_is_not_shown_and_a_worker_computes(
    change: Callable[[Experiment], object],
    behind: Experiment,
    asked: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    age(10_000)
    change(behind)
    monkeypatch.setattr(kept, "compare_experiment", refuse)
    comparison, latest = read_latest(fresh(behind))
    assert not comparison.has_numbers
    assert (comparison.ended, comparison.planned) == (8, 20)
    assert (latest.is_behind, latest.is_missing, latest.due_at) == (True, True, None)
    assert asked == [behind.pk]
    monkeypatch.setattr(kept, "compare_experiment", compare_experiment)
    assert keep_comparison(behind.pk) == "kept"
    comparison, latest = read_latest(fresh(behind))
    assert repr(comparison) == repr(compare_experiment(fresh(behind)))
    assert not latest.is_behind


def test_after_an_upgrade_the_numbers_of_the_earlier_version_are_shown(
    behind: Experiment, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page says so and asks for the new ones; none computes them."""
    end_all(behind, (1.0,) * 6, first=5)
    assert keep_comparison(behind.pk) == "kept"
    KeptComparison.objects.update(seconds=2.0)
    monkeypatch.setattr("experiments.comparisons.comparison_keys.identify_method", lambda: "b" * 64)
    monkeypatch.setattr(kept, "compare_experiment", refuse)
    comparison, latest = read_latest(fresh(behind))
    assert count_values(comparison) == 20
    assert (latest.is_behind, latest.is_of_earlier_method, latest.is_missing) == (True, True, False)
    assert find_latest(fresh(behind)) == replace(latest, row=find_latest(fresh(behind)).row)
    assert set(asked) == {behind.pk}
    monkeypatch.setattr(kept, "compare_experiment", compare_experiment)
    assert keep_comparison(behind.pk) == "kept"
    assert not read_latest(fresh(behind))[1].is_behind


@pytest.mark.parametrize("is_large", [True, False])
def test_of_many_runs_that_nobody_has_compared_yet_a_worker_does(
    is_large: bool, behind: Experiment, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    KeptComparison.objects.all().delete()
    monkeypatch.setattr(kept, "MANY_RUNS", 7 if is_large else 8)
    if is_large:
        monkeypatch.setattr(kept, "compare_experiment", refuse)
    comparison, latest = read_latest(fresh(behind))
    assert latest.is_missing == is_large
    assert comparison.has_numbers != is_large
    assert asked == [behind.pk]


def test_a_name_that_is_another_now_is_not_shown(behind: Experiment) -> None:
    """Links that hide names know those of now alone."""
    person = UserFactory(username="ada")
    for run in behind.runs.filter(repeat=2):
        assert excluded_runs.exclude(run, person, "the fan was broken")
    age(10_000)
    assert keep_comparison(behind.pk) == "kept"
    KeptComparison.objects.update(seconds=2.0)
    EventFactory(experiment=behind, what="anything")
    assert read_latest(fresh(behind))[1].is_behind
    User.objects.filter(username="ada").update(username="eve")
    comparison, latest = read_latest(fresh(behind))
    assert latest.is_missing
    assert "ada" not in repr(comparison)


class TestFailing:
    @pytest.fixture
    def attempts(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        pks: list[int] = []

        def fail(experiment: Experiment) -> Any:
            pks.append(experiment.pk)
            raise RuntimeError("no\0 such number" + "x" * 5_000)

        monkeypatch.setattr(kept, "compare_experiment", fail)
        return pks

    def test_it_is_noted_and_the_last_one_stays(
        self, behind: Experiment, attempts: list[int]
    ) -> None:
        age(10_000)
        assert keep_comparison(behind.pk) == "failed"
        comparison, latest = read_latest(fresh(behind))
        assert count_values(comparison) == 6
        assert latest.problem.startswith("RuntimeError: no such number")
        assert len(latest.problem) == kept.MOST_OF_PROBLEM

    def test_it_is_not_tried_again_and_again(
        self, behind: Experiment, attempts: list[int], asked: list[int]
    ) -> None:
        age(10_000)
        keep_comparison(behind.pk)
        for _ in range(3):
            find_latest(fresh(behind))
            assert keep_comparison(behind.pk) == "put off"
        assert (len(attempts), asked) == (1, [])
        end_all(behind, (1.0,) * 6, first=5)  # other data: that may help
        assert keep_comparison(behind.pk) == "failed"
        assert keep_comparison(behind.pk) == "put off"
        age(601)
        assert keep_comparison(behind.pk) == "failed"
        assert len(attempts) == 3

    def test_success_ends_it(
        self, behind: Experiment, attempts: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        age(10_000)
        keep_comparison(behind.pk)
        age(10_000)
        monkeypatch.setattr(kept, "compare_experiment", compare_experiment)
        assert keep_comparison(behind.pk) == "kept"
        row = KeptComparison.objects.get()
        assert (row.problem, row.failed_at, row.failed_key) == ("", None, "")

    def test_the_first_one_may_fail_too(self, attempts: list[int], asked: list[int]) -> None:
        experiment = launched(repeats=5, looks=1)
        end_all(experiment, (1.0,) * 5)
        assert keep_comparison(experiment.pk) == "failed"
        assert keep_comparison(experiment.pk) == "put off"
        assert len(attempts) == 1
        assert not find_latest(fresh(experiment)).is_behind


@contextmanager
def locked_elsewhere(pk: int) -> Iterator[None]:
    """Have another connection compute the comparison within the block."""
    has_lock, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with try_lock(kept.name_lock(pk)) as is_held:
            assert is_held
            has_lock.set()
            may_end.wait(60)
        connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    assert has_lock.wait(60)
    try:
        yield
    finally:
        may_end.set()
        thread.join()


def test_no_two_compute_one_experiment_at_once(behind: Experiment) -> None:
    age(10_000)
    with locked_elsewhere(behind.pk):
        assert keep_comparison(behind.pk) == "being computed"
    assert keep_comparison(behind.pk) == "kept"


def test_an_error_ends_the_lock(behind: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "identify_inputs", refuse)
    with pytest.raises(AssertionError):
        keep_comparison(behind.pk)
    with locked_elsewhere(behind.pk):
        pass


@pytest.mark.django_db(transaction=True)
def test_what_happens_meanwhile_is_counted_wholly_or_not_at_all(
    asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All statements see the data of one moment; who asked meanwhile is not forgotten."""
    experiment = launched(repeats=5, looks=1)
    end_all(experiment, (1.0,) * 5)
    before = identify_inputs([fresh(experiment)])[experiment.pk].key

    def fail_a_run() -> None:
        Run.objects.filter(experiment=experiment, repeat=1).update(state=Run.State.FAILED)
        Event.objects.create(experiment=experiment, what="meanwhile")
        connection.close()

    def compute(row: Experiment) -> Any:
        thread = threading.Thread(target=fail_a_run)
        thread.start()
        thread.join()
        assert identify_inputs([row])[row.pk].key == before
        return compare_experiment(row)

    monkeypatch.setattr(kept, "compare_experiment", compute)
    assert keep_comparison(experiment.pk) == "kept"
    assert KeptComparison.objects.get().key == before
    assert asked == [experiment.pk]
    monkeypatch.setattr(kept, "compare_experiment", compare_experiment)
    assert count_values(read_comparison(fresh(experiment))) == 8


def test_many_runs_of_which_none_counts_are_not_computed_for_ever(
    behind: Experiment, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All have failed: that is kept, too, or each look would ask a worker again."""
    KeptComparison.objects.all().delete()
    behind.runs.filter(state=Run.State.SUCCEEDED).update(state=Run.State.FAILED)
    monkeypatch.setattr(kept, "MANY_RUNS", 1)
    assert read_latest(fresh(behind))[1].is_missing
    assert keep_comparison(behind.pk) == "kept"
    asked.clear()
    comparison, latest = read_latest(fresh(behind))
    assert not comparison.has_numbers
    assert not latest.is_behind
    assert asked == []


def test_a_verdict_whose_runs_count_no_more_is_replaced(behind: Experiment) -> None:
    age(10_000)
    behind.runs.filter(state=Run.State.SUCCEEDED).update(state=Run.State.FAILED)
    assert read_latest(fresh(behind))[1].is_behind
    assert keep_comparison(behind.pk) == "kept"
    comparison, latest = read_latest(fresh(behind))
    assert not comparison.has_numbers
    assert not latest.is_behind
