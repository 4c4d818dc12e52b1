"""What pages and exports say of an experiment's state, of waiting and of the time left."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.execution.matrix import Matrix, Pace
from experiments.execution.progress import Tally
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
    Experiment.objects.filter(pk=alive.pk).update(launched_at=NOON - timedelta(days=3))
    page = as_owner.get(alive.get_absolute_url()).content.decode()
    assert "about 2 min of running time left" in page
    alive.runs.update(state=Run.State.PLANNED, began_at=None, ended_at=None)
    page = as_owner.get(alive.get_absolute_url()).content.decode()
    assert "the time left is known once a run has ended" in page


@pytest.mark.parametrize(("at_once", "seconds"), [(0, 40.0), (1, 40.0), (2, 20.0)])
def test_time_left_weighs_each_cell_by_its_own_runs(at_once: int, seconds: float) -> None:
    slow, fast, unknown = Pace(60.0, 2, 1), Pace(0.0, 2, 3), Pace(0.0, 0, 0)
    found = Matrix([], [], Tally(Counter()), [slow, fast, unknown])
    left = found.seconds_left(at_once=at_once, cooldown_seconds=2.5)
    assert left == seconds
    assert Matrix([], [], Tally(Counter()), [unknown]).seconds_left(at_once=1) is None


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
