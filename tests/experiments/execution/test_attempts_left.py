"""Which further attempts a job allows once it has ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from experiments.execution.further_attempts import (
    FurtherAttempts,
    find_attempts_of_jobs,
    find_further_attempts,
)
from experiments.models import Experiment, Job, Run
from experiments.models.states import NOT_STARTED
from experiments.planning.interim import Stage
from tests.factories import NOON, JobFactory, RunFactory

pytestmark = pytest.mark.django_db

STAGE = Stage(
    after_repeats=(5, 10),
    taken=0,
    planned=10,
    ended=0,
    unit="block",
    ended_for_next=0,
    planned_for_next=5,
    alive=True,
    cancelled=False,
    stopped_at=None,
    states=Counter(),
)
NOTHING = FurtherAttempts()
COLLECT = FurtherAttempts(can_collect=True)


def failed(*runs: str, **columns: object) -> Job:
    """Return a failed job with a run in each state; "never" has failed before it began."""
    job: Job = JobFactory(**({"state": Job.State.FAILED, "repeat": 5} | columns))
    environments = list(job.experiment.environments.order_by("pk"))
    for environment, state in zip(environments, runs, strict=False):
        never = state == "never"
        RunFactory(
            job=job,
            environment=environment,
            state="failed" if never else state,
            reason=NOT_STARTED if never else "",
        )
    return job


def left(job: Job, **stage: object) -> FurtherAttempts:
    return find_attempts_of_jobs([job.pk], replace(STAGE, **stage))[job.pk]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("runs", "attempts"),
    [
        (("failed", "failed"), FurtherAttempts(can_retry=True, can_collect=True)),
        (("never", "never"), FurtherAttempts(can_retry=True, can_collect=True)),
        (("failed", "never"), FurtherAttempts(can_retry=True, missing=1, can_collect=True)),
        (("succeeded", "never"), FurtherAttempts(missing=1, can_collect=True)),
        (("succeeded", "failed"), COLLECT),
        (("succeeded", "succeeded"), NOTHING),
        (("succeeded", "excluded"), NOTHING),
        (("cancelled", "succeeded"), COLLECT),
    ],
)
def test_no_result_is_replaced_and_no_run_is_run_twice(
    runs: tuple[str, ...], attempts: FurtherAttempts
) -> None:
    job = failed(*runs)
    assert left(job) == attempts
    assert bool(attempts) is (attempts != NOTHING)
    assert find_further_attempts(job) == attempts


def test_what_a_planned_analysis_has_left_out_stays_out() -> None:
    job = failed("failed", "never")
    assert left(job, taken=1) == COLLECT
    Job.objects.update(repeat=6)
    assert left(job, taken=1).can_retry


def test_a_cancelled_experiment_is_only_collected() -> None:
    job = failed("failed", "never")
    Experiment.objects.update(cancelled_at=NOON)
    assert left(job) == COLLECT


@pytest.mark.parametrize("state", ["done", "cancelled"])
def test_only_a_failed_job_is_tried_again(state: str) -> None:
    assert left(failed("failed", "never", state=state)) == COLLECT


def test_a_job_that_lives_allows_nothing() -> None:
    job = failed("planned", "planned", state=Job.State.RUNNING)
    assert find_attempts_of_jobs([job.pk], STAGE) == {}
    assert find_further_attempts(job) == NOTHING


@pytest.mark.parametrize(("tries", "missing"), [(1, 0), (2, 1)])
def test_late_files_are_looked_for_once_before_a_second_job_runs(tries: int, missing: int) -> None:
    job = failed("succeeded", "never", collect_at=NOON + timedelta(days=1), collect_tries=tries)
    assert left(job).missing == missing


def test_what_was_never_sent_is_not_collected() -> None:
    assert not left(failed("failed", "failed", submitted_at=None)).can_collect
    assert not left(failed("failed", "failed", directory="")).can_collect


def test_attempts_are_those_of_the_jobs_that_were_named() -> None:
    one, other = failed("failed", "failed"), failed("failed", "failed")
    assert find_attempts_of_jobs([one.pk], STAGE).keys() == {one.pk}
    assert find_attempts_of_jobs([one.pk, other.pk], STAGE).keys() == {one.pk, other.pk}
    assert Run.objects.count() == 4
