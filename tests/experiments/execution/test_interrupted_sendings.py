"""What a visit left in the middle of sending it: found, moved and sent again in portions."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from django.utils import timezone

from experiments import execution
from experiments.execution import interrupted_sendings, lifecycle
from experiments.models import Cluster, Experiment, Job, Pause
from runners.jobs import JobSpec
from runners.runner import Runner
from runners.submissions import Outcome

pytestmark = pytest.mark.django_db
Make = Callable[..., Experiment]


@contextmanager
def cluster_that_has(names: Sequence[str]) -> Iterator[list[tuple[str, int]]]:
    """Yield what is asked of a cluster that knows these jobs, each time with the number of jobs."""
    asked: list[tuple[str, int]] = []

    def find(self: Runner, jobs: Sequence[JobSpec]) -> dict[str, str]:
        asked.append(("find", len(jobs)))
        return {job.directory: f"{os.getpid()}-1" for job in jobs if job.name in names}

    def submit(self: Runner, jobs: Sequence[JobSpec]) -> list[Outcome]:
        asked.append(("submit", len(jobs)))
        return [f"{os.getpid()}-2"] * len(jobs)

    with (
        mock.patch.object(Runner, "find_all", find),
        mock.patch.object(Runner, "submit_all", submit),
    ):
        yield asked


@pytest.fixture
def interrupted(experiment: Make) -> Experiment:
    """An experiment of whose jobs nobody knows whether they were sent."""
    made = experiment(repeats=7)
    made.jobs.update(state="submitting")
    return made


def list_ids(made: Experiment) -> list[str]:
    ids = made.jobs.order_by("pk").values_list("scheduler_id", flat=True)
    return [each.rpartition("-")[2] for each in ids]


def test_a_portion_is_found_and_sent_again_together(interrupted: Experiment) -> None:
    first, *_ = interrupted.jobs.order_by("pk")
    with cluster_that_has([first.name]) as asked:
        assert execution.tick(interrupted.cluster_id) == "done"
    assert asked == [("find", 7), ("submit", 6)]
    assert list_ids(interrupted) == ["1", *["2"] * 6]
    assert set(interrupted.jobs.values_list("state", flat=True)) == {"queued"}
    whys = interrupted.events.filter(what="submitting → queued", job=first)
    assert whys.get().why == f"found again as {os.getpid()}-1"


def test_a_visit_whose_time_is_over_leaves_them_to_the_next(interrupted: Experiment) -> None:
    other = list(interrupted.jobs.order_by("pk"))[-1]
    interrupted.jobs.filter(pk=other.pk).update(state="planned")
    with (
        cluster_that_has([]) as asked,
        mock.patch.object(sys.modules["experiments.execution.tick"], "SENDING_SECONDS", -1),
    ):
        assert execution.tick(interrupted.cluster_id) == "done"
    assert asked == [], "nothing new is sent before them either"
    assert Cluster.objects.get().wanted_at, "the next one follows as soon as it may"
    with cluster_that_has([]) as asked:
        assert execution.tick(interrupted.cluster_id) == "done"
    assert asked == [("find", 6), ("submit", 6), ("submit", 1)]


def test_an_odd_row_keeps_only_itself(interrupted: Experiment) -> None:
    *_, odd = interrupted.jobs.order_by("pk")
    real = interrupted_sendings.make_handle

    def make_handle(row: Job) -> JobSpec:
        if row == odd:
            raise KeyError("directory")
        return real(row)

    with (
        cluster_that_has([]),
        mock.patch.object(interrupted_sendings, "make_handle", make_handle),
    ):
        assert execution.tick(interrupted.cluster_id) == "done"
    assert list(interrupted.jobs.filter(state="submitting")) == [odd]
    assert interrupted.jobs.filter(state="queued").count() == 6


def test_what_was_sent_of_a_portion_that_fails_is_not_sent_twice(interrupted: Experiment) -> None:
    """The failure comes after its jobs were submitted and stored."""
    real = interrupted_sendings.submit

    def submit(prepared: Any, runner: Runner) -> None:
        real(prepared, runner)
        if len(prepared) > 1:
            raise KeyError("afterwards")

    with (
        cluster_that_has([]) as asked,
        mock.patch.object(interrupted_sendings, "submit", submit),
    ):
        assert execution.tick(interrupted.cluster_id) == "done"
    assert [what for what in asked if what[0] == "submit"] == [("submit", 7)]


def test_a_limit_of_submissions_holds_for_them_too(interrupted: Experiment) -> None:
    Cluster.objects.update(max_submissions_per_minute=2)
    with cluster_that_has([]) as asked:
        assert execution.tick(interrupted.cluster_id) == "done"
    assert asked == [("find", 7), ("submit", 2)]
    whys = interrupted.events.filter(what="submitting → planned").values_list("why", flat=True)
    assert list(whys) == [interrupted_sendings.NO_SUBMISSION_LEFT] * 5


def test_files_that_are_too_much_for_one_portion_wait_for_the_next(
    interrupted: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupted_sendings, "MOST_BYTES", 0)
    spec = interrupted_sendings.make_spec

    def with_a_file(row: Job) -> JobSpec:
        return replace(spec(row), sent=(("file", b"x"),))

    monkeypatch.setattr(interrupted_sendings, "make_spec", with_a_file)
    with cluster_that_has([]) as asked:
        assert execution.tick(interrupted.cluster_id) == "done"
    assert asked[:2] == [("find", 7), ("submit", 1)]
    assert set(interrupted.jobs.values_list("state", flat=True)) == {"queued"}, "in the same visit"


def test_what_is_found_is_told_and_keeps_when_it_was_sent(interrupted: Experiment) -> None:
    first, second, *_ = interrupted.jobs.order_by("pk")
    then = interrupted.launched_at
    Job.objects.filter(pk=first.pk).update(submitted_at=then)
    before = timezone.now()
    with cluster_that_has([first.name, second.name]):
        execution.tick(interrupted.cluster_id)
    first.refresh_from_db()
    second.refresh_from_db()
    assert first.submitted_at == then
    assert second.submitted_at
    assert second.submitted_at >= before
    (event,) = first.events.all()
    assert (event.what, event.why) == ("submitting → queued", f"found again as {os.getpid()}-1")


def test_what_is_kept_back_says_why(interrupted: Experiment) -> None:
    Cluster.objects.update(max_submissions_per_minute=0)
    with cluster_that_has([]):
        execution.tick(interrupted.cluster_id)
    assert set(interrupted.jobs.values_list("state", flat=True)) == {"planned"}
    whys = interrupted.events.filter(what="submitting → planned").values_list("why", flat=True)
    assert set(whys) == {interrupted_sendings.NO_SUBMISSION_LEFT}


def test_what_a_person_has_cancelled_is_not_sent_again(interrupted: Experiment) -> None:
    lifecycle.cancel(interrupted, interrupted.owner)
    with cluster_that_has([]) as asked:
        execution.tick(interrupted.cluster_id)
    assert asked == [("find", 7)]
    assert set(interrupted.jobs.values_list("state", flat=True)) == {"cancelled"}
    told = interrupted.events.filter(what="submitting → cancelled")
    assert set(told.values_list("why", flat=True)) == {"cancelled before it was sent"}


def test_a_paused_site_is_not_asked_to_take_them(interrupted: Experiment) -> None:
    now = timezone.now()
    Pause.objects.create(
        cluster=interrupted.cluster,
        kind="limit",
        message="",
        since=now,
        retry_at=now + timedelta(hours=1),
    )
    with cluster_that_has([]) as asked:
        execution.tick(interrupted.cluster_id)
    assert asked == [("find", 7)]
    whys = interrupted.events.filter(what="submitting → planned").values_list("why", flat=True)
    assert set(whys) == {interrupted_sendings.IS_PAUSED}
