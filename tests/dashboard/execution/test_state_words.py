"""What pages and exports say of an experiment's state, of waiting and of the time left."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from dashboard.execution.matrix import Pace, build_matrix, estimate_seconds_left
from dashboard.templatetags.tare import roughly
from experiments.models import Experiment, Job, Run
from tests.dashboard.conftest import People, Site, measured
from tests.factories import NOON, JobFactory, RunFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def alive(site: Site, people: People) -> Experiment:
    """One block has ended, the next one is running."""
    experiment = measured(site, people.owner, blocks=1)
    job = JobFactory(experiment=experiment, repeat=2, state="running")
    RunFactory(job=job, state=Run.State.RUNNING, ended_at=None)
    RunFactory(
        job=job, environment=site.container, state=Run.State.PLANNED, began_at=None, ended_at=None
    )
    return experiment


def test_time_left_counts_running_and_no_waiting(alive: Experiment, as_owner: Client) -> None:
    for run in alive.runs.filter(state=Run.State.SUCCEEDED):
        Run.objects.filter(pk=run.pk).update(ended_at=run.began_at + timedelta(minutes=1))
    alive.runs.filter(state=Run.State.RUNNING).update(began_at=timezone.now())
    Experiment.objects.filter(pk=alive.pk).update(launched_at=NOON - timedelta(days=3))
    page = as_owner.get(alive.get_absolute_url()).content.decode()
    assert "about 2 min left" in page
    alive.runs.update(state=Run.State.PLANNED, began_at=None, ended_at=None)
    page = as_owner.get(alive.get_absolute_url()).content.decode()
    assert "the time left is known once a run has ended" in page


@pytest.mark.parametrize(("at_once", "seconds"), [(0, 40.0), (1, 40.0), (2, 30.0)])
def test_time_left_weighs_each_cell_by_its_own_runs(at_once: int, seconds: float) -> None:
    slow, fast, unknown = Pace(30.0, 2, 1), Pace(0.0, 2, 3), Pace(None, 0, 0)
    left = estimate_seconds_left([slow, fast, unknown], at_once=at_once, cooldown_seconds=2.5)
    assert left == seconds
    assert estimate_seconds_left([unknown], at_once=1) is None


@pytest.mark.parametrize(
    ("paces", "at_once", "seconds"),
    [
        ([Pace(60, 3, 0, running=1, elapsed=45, youngest=45)], 1, 15),
        ([Pace(60, 3, 0, running=2, elapsed=60, youngest=10)], 2, 50),  # until the last has ended
        ([Pace(60, 3, 2, running=1, elapsed=45, youngest=45)], 1, 135),
        ([Pace(60, 3, 0, running=1, elapsed=999, youngest=999)], 1, 0),  # it is overdue
        ([Pace(60, 3, 1), Pace(20, 1, 0), Pace(None, 0, 1)], 1, 110),  # by the runs of all cells
        ([Pace(60, 3, 0)], 1, None),
        ([Pace(60, 3, 4)], 100, 60),  # no run is shorter for many at once
    ],
)
def test_time_left_counts_what_running_runs_have_behind_them(
    paces: list[Pace], at_once: int, seconds: float | None
) -> None:
    assert estimate_seconds_left(paces, at_once=at_once) == seconds


def test_time_left_is_by_the_median_of_runs_that_did_not_fail(alive: Experiment) -> None:
    running = alive.runs.get(state=Run.State.RUNNING)
    Run.objects.filter(pk=running.pk).update(began_at=timezone.now() - timedelta(seconds=100))
    seconds = {"succeeded": (200, 220, 9000), "failed": (1, 1, 1), "cancelled": (1,)}
    alive.runs.filter(state="succeeded", environment=running.environment).delete()
    ends = [(state, took) for state, times in seconds.items() for took in times]
    for repeat, (state, took) in enumerate(ends, start=10):
        RunFactory(
            job=JobFactory(experiment=alive, repeat=repeat, state="done"),
            environment=running.environment,
            state=state,
            began_at=NOON,
            ended_at=NOON + timedelta(seconds=took),
        )
    paces = {pace.usual: pace for pace in build_matrix(alive).paces}
    pace = paces[220.0]
    assert (pace.ended, pace.planned, pace.running) == (3, 0, 1)
    assert 100 <= pace.elapsed == pace.youngest < 160
    assert build_matrix(alive).tally.states["failed"] == 3


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "a minute"),
        (300, "5 min"),
        (7200, "2 h"),
        (9000, "2.5 h"),
        (40 * 3600, "40 h"),
        (4 * 86_400, "4 days"),
    ],
)
def test_durations_are_rounded_as_people_do(seconds: float, text: str) -> None:
    assert roughly(seconds) == text


def test_an_experiment_says_what_it_waits_for(alive: Experiment, as_owner: Client) -> None:
    alive.jobs.filter(state="running").update(
        state=Job.State.QUEUED, scheduler_state="PENDING Resources"
    )
    alive.runs.exclude(state__in=Run.FINAL).update(state=Run.State.PLANNED)
    page = as_owner.get(alive.get_absolute_url()).content.decode()
    assert "is-queued" in page
    assert "waits until enough nodes or GPUs are free (Resources)" in page
    assert "waiting not counted" in page
    run = alive.runs.filter(state=Run.State.PLANNED)[0]
    assert (
        "its job is queued: waits until enough"
        in as_owner.get(run.get_absolute_url()).content.decode()
    )


def test_pages_say_when_a_job_is_expected_to_start(alive: Experiment, as_owner: Client) -> None:
    start = datetime(2999, 1, 2, 3, 4, tzinfo=UTC)
    alive.cluster.scheduler = "slurm"
    alive.cluster.save(update_fields=["scheduler"])
    job = alive.jobs.get(state="running")
    alive.runs.exclude(state__in=Run.FINAL).update(state=Run.State.PLANNED)
    addresses = [
        alive.get_absolute_url(),
        f"{alive.get_absolute_url()}?tab=jobs",
        job.runs.all()[0].get_absolute_url(),
    ]
    for state, said in (("queued", [True] * 3), ("running", [False] * 3)):
        alive.jobs.filter(pk=job.pk).update(
            state=state, scheduler_state="PENDING Resources", expected_start_at=start
        )
        pages = [as_owner.get(address).content.decode() for address in addresses]
        assert ["2999-01-02 03:04 UTC" in page for page in pages] == said
    alive.jobs.filter(pk=job.pk).update(state="queued")
    for address, words in zip(
        addresses,
        ("Slurm expects to start it at", "expected to start at", "Slurm expects to start it at"),
        strict=True,
    ):
        page = " ".join(as_owner.get(address).content.decode().split())
        assert words in page


@pytest.mark.parametrize(
    ("failed", "mark", "words"),
    [(2, "failed", "failed"), (1, "incomplete", "finished, 1 of 2 runs failed")],
)
def test_lists_pages_and_exports_say_of_failures_that_they_are(
    failed: int, mark: str, words: str, site: Site, people: People, as_owner: Client
) -> None:
    row = measured(site, people.owner, blocks=1)
    failing = row.runs.order_by("pk")[:failed].values("pk")
    Run.objects.filter(pk__in=list(failing.values_list("pk", flat=True))).update(state="failed")
    shown = f'<span class="state is-{mark}">'
    for address in (
        "/experiments/",
        row.get_absolute_url(),
        f"{row.get_absolute_url()}comparison/",
    ):
        page = as_owner.get(address).content.decode()
        assert shown in page
        assert f"</svg>{words}</span>" in page
        assert "is-done" not in page.partition('id="details"')[0]
    exported = as_owner.get(reverse("runs_json", args=[row.pk])).json()["experiment"]
    assert exported["state"] == words
    assert exported["runs_by_state"]["failed"] == failed
