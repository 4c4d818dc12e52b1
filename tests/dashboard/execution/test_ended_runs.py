"""A run that has ended before its job: noted from the journal, shown, and decided later."""

from __future__ import annotations

import pytest
from django.test import Client

from experiments.execution.following import News, follow_jobs
from experiments.models import Experiment, Job, Run
from tests.factories import (
    ContainerFactory,
    EnvironmentFactory,
    JobFactory,
    LaunchedFactory,
    RunFactory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def job() -> Job:
    """It runs, and both of its runs are planned."""
    bare = EnvironmentFactory()
    pair = [bare, ContainerFactory(cluster=bare.cluster)]
    made: Experiment = LaunchedFactory(cluster=bare.cluster, baseline=bare, environments=pair)
    running: Job = JobFactory(experiment=made, state=Job.State.RUNNING, ended_at=None)
    for environment in pair:
        RunFactory(
            job=running,
            environment=environment,
            state=Run.State.PLANNED,
            exit_code=None,
            began_at=None,
            ended_at=None,
        )
    return running


def follow(job: Job, exit_code: int) -> tuple[Run, Run]:
    first, second = job.runs.order_by("position")
    lines = [
        {"event": "run began", "run": first.uid, "time": 100.0, "node": "node1"},
        {"event": "run ended", "run": first.uid, "time": 107.0, "exit_code": exit_code},
        {"event": "run began", "run": second.uid, "time": 108.0, "node": "node1"},
    ]
    follow_jobs({job: News(lines, 300)})
    first.refresh_from_db()
    second.refresh_from_db()
    return first, second


def test_it_is_noted_with_its_exit_code_and_moves_no_state(job: Job) -> None:
    first, second = follow(job, exit_code=0)
    assert (first.state, first.exit_code, first.awaits_job) == ("running", 0, True)
    assert first.ended_at
    assert (first.ended_at - first.began_at).total_seconds() == 7
    assert (second.state, second.exit_code, second.awaits_job) == ("running", None, False)
    assert not first.events.filter(what__contains="succeeded").exists()


def test_what_a_journal_says_late_changes_no_run_that_is_final(job: Job) -> None:
    first, _ = follow(job, exit_code=0)
    Run.objects.filter(pk=first.pk).update(state=Run.State.FAILED, exit_code=9)
    late = {"event": "run ended", "run": first.uid, "time": 200.0, "exit_code": 0}
    follow_jobs({job: News([late], 400)})
    first.refresh_from_db()
    assert (first.exit_code, first.awaits_job) == (9, False)


@pytest.mark.parametrize(
    ("exit_code", "words"),
    [
        (0, "waiting for the rest of its job"),
        (3, "with exit code 3, waiting for the rest of its job"),
    ],
)
def test_pages_say_that_it_waits_for_its_job(
    job: Job, admin_client: Client, exit_code: int, words: str
) -> None:
    first, second = follow(job, exit_code)
    for address in (first.get_absolute_url(), "/runs/", job.experiment.get_absolute_url()):
        shown = " ".join(admin_client.get(address).content.decode().split())
        assert f'finished</span> <span class="muted">{words}</span>' in shown, address
    assert (
        "waiting for the rest of its job"
        not in admin_client.get(second.get_absolute_url()).content.decode()
    )
