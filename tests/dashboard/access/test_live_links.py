"""Live parts that a link has opened: they end with it, and tell no name that it hides."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from dashboard.execution.experiment_parts import DETAILS
from dashboard.middleware import DIFFERS_ALWAYS
from experiments.execution import moves
from experiments.models import (
    Cluster,
    Experiment,
    Job,
    LiveReading,
    Partition,
    Run,
    ShareLink,
    User,
    Workload,
)
from tests.dashboard.access.test_links import LOG, SECRETS, visitor
from tests.dashboard.conftest import People, Site, measured
from tests.factories import JobFactory, RunFactory, UserFactory, link_to

pytestmark = pytest.mark.django_db

PARTS = ("experiment", "details", "comparison", "run")
QUESTION = "Asked by Grete Hermann on forhlr2?"
ENDS: dict[str, Callable[[], object]] = {
    "withdrawn": lambda: ShareLink.objects.update(withdrawn_at=timezone.now()),
    "expired": lambda: ShareLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1)),
    "deleted": lambda: ShareLink.objects.all().delete(),
    "the experiment is for members": lambda: Experiment.objects.update(visibility="members"),
}


@pytest.fixture
def alive(site: Site, people: People) -> Experiment:
    """An experiment with a run under way, all of whose rows say who made it, and where."""
    owner = User.objects.get(pk=people.owner.pk)
    owner.username, owner.first_name, owner.last_name = "grete.hermann", "Grete", "Hermann"
    owner.email = "grete@example.org"
    owner.save()
    Cluster.objects.update(
        name="forhlr2",
        host="login7.hpc.example.org",
        work_directory="/gpfs/grete",
        last_error=f"Permission denied: {LOG}",
        wanted_at=Now(),
    )
    Partition.objects.update(name="haicore-a100")
    Workload.objects.update(owner=UserFactory(username="emmy_noether"))
    experiment = measured(site, owner, blocks=1, question=QUESTION)
    job = JobFactory(experiment=experiment, repeat=2, state=Job.State.RUNNING)
    run = RunFactory(job=job, state=Run.State.RUNNING)
    LiveReading.objects.create(
        run=run, watched_at=Now(), directory="/gpfs/grete/j", output_tail=LOG, problem=LOG
    )
    Run.objects.update(output_tail=LOG, message=LOG, node="tx-31", command=f"python {LOG}")
    moves.record_event(experiment, "excluded by hand", why="says emmy_noether", by=owner)
    return Experiment.objects.get(pk=experiment.pk)


def fetch(client: Client, part: str, experiment: Experiment, **headers: str) -> Any:
    """Fetch a live part as its page does, with the marks of what the page shows."""
    run = experiment.runs.get(state=Run.State.RUNNING)
    address = {
        "comparison": reverse("comparison", args=[experiment.pk]) + "?part=live&shown=1",
        "run": run.get_absolute_url(),
    }.get(part, experiment.get_absolute_url())
    given = {"HX-Request": "true", **headers}
    if part == "details":
        given["HX-Target"] = DETAILS
    return client.get(address, headers=given)


def list_marks(answer: Any) -> dict[str, str]:
    """Return what a page sends back of a part that it shows."""
    return {name: answer[name] for name in ("X-Mark", "X-Shown", "X-Seen") if name in answer}


def list_names(answer: Any) -> list[str]:
    """Return the names that an answer tells in its content and its headers."""
    text = (answer.content.decode() + str(dict(answer.items()))).lower()
    return [name for name in SECRETS if name.lower() in text]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("part", PARTS)
def test_a_link_that_ends_between_two_requests_opens_nothing_more(
    part: str, end: str, alive: Experiment
) -> None:
    client = visitor(link_to(alive))
    first = fetch(client, part, alive)
    assert first.status_code == 200
    marks = list_marks(first)
    assert marks
    assert fetch(client, part, alive, **marks).status_code == 204, "nothing is new"
    ENDS[end]()
    for headers in (marks, {}):
        answer = fetch(client, part, alive, **headers)
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer["HX-Redirect"].startswith("/login/?next=/")
        assert not list_marks(answer).keys() & {"X-Mark", "X-Seen"}
        assert not list_names(answer)


@pytest.mark.parametrize("part", PARTS)
def test_a_live_part_tells_no_name_that_its_link_hides(part: str, alive: Experiment) -> None:
    assert list_names(fetch(visitor(link_to(alive)), part, alive)), "another link tells them"
    client = visitor(link_to(alive, hides_names=True))
    first = fetch(client, part, alive)
    assert first.status_code == 200
    assert first.content
    assert not list_names(first)
    without_news = fetch(client, part, alive, **list_marks(first))
    assert (without_news.status_code, without_news.content) == (204, b"")
    assert not list_names(without_news)
    moves.record_event(alive, "excluded by hand", why=f"says Grete Hermann, {LOG}")
    alive.runs.filter(state=Run.State.RUNNING).update(scale="2x1")
    assert not list_names(fetch(client, part, alive, **list_marks(first)))


@pytest.mark.parametrize("part", PARTS)
def test_no_digest_is_of_what_a_link_hides(part: str, alive: Experiment) -> None:
    """With a digest of the names a reader could test a guess."""
    answer = fetch(visitor(link_to(alive, hides_names=True)), part, alive)
    content = DIFFERS_ALWAYS.sub(b"", answer.content)
    assert answer["X-Shown"] == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("part", PARTS)
def test_marks_of_one_link_do_not_stand_for_what_another_one_shows(
    part: str, alive: Experiment
) -> None:
    marks = list_marks(fetch(visitor(link_to(alive)), part, alive))
    answer = fetch(visitor(link_to(alive, hides_names=True)), part, alive, **marks)
    assert answer.status_code == 200
    assert answer.content
    assert not list_names(answer)
