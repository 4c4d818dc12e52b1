"""Researchers read where they look why nothing of theirs is sent or followed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from experiments.models import Cluster, Event, Experiment
from tests.dashboard.conftest import People
from tests.factories import ClusterFactory, JobFactory, LaunchedFactory, RunFactory

pytestmark = pytest.mark.django_db

NOT_VISITED = "far is not visited : a visit has been due since"
DOES_NOT_BEGIN = "a visit to far is due, and does not begin"


@pytest.fixture
def alive(people: People) -> Experiment:
    """A job is planned and another one runs, on a cluster that nobody has visited for long."""
    ago = timezone.now() - timedelta(minutes=10)
    cluster = ClusterFactory(name="far", poll_seconds=5, last_tick_at=ago, last_seen_at=ago)
    experiment: Experiment = LaunchedFactory(owner=people.owner, cluster=cluster)
    for repeat, state in ((1, "running"), (2, "planned")):
        job = JobFactory(experiment=experiment, repeat=repeat, state=state)
        RunFactory(job=job, environment=experiment.baseline, state=state)
    return experiment


def read(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return " ".join(BeautifulSoup(answer.content, "html.parser").get_text(" ").split())


def read_all(client: Client, experiment: Experiment) -> dict[str, str]:
    """Return the pages of an experiment, its runs, the first planned, and its cluster."""
    planned, running = experiment.runs.order_by("state")
    return {
        "experiment": read(client, experiment.get_absolute_url()),
        "planned": read(client, planned.get_absolute_url()),
        "running": read(client, running.get_absolute_url()),
        "cluster": read(client, reverse("cluster", args=[experiment.cluster_id])),
        "overview": read(client, reverse("overview")),
        "clusters": read(client, reverse("clusters")),
    }


def visit(experiment: Experiment, **columns: Any) -> None:
    Cluster.objects.filter(pk=experiment.cluster_id).update(**columns)


class TestWithoutWorkerOrClock:
    def test_each_page_says_so(self, alive: Experiment, as_owner: Client) -> None:
        pages = read_all(as_owner, alive)
        for name in ("experiment", "planned", "running"):
            assert NOT_VISITED in pages[name], name
            assert "Tell a site administrator" in pages[name], name
        assert DOES_NOT_BEGIN in pages["experiment"]
        assert DOES_NOT_BEGIN in pages["planned"]
        assert (
            "1 job there is shown as it was when Tare last looked, 10 min ago."
            in pages["experiment"]
        )
        assert "Not visited : a visit has been due since" in pages["cluster"]
        for name in ("overview", "clusters"):
            assert "not visited : a visit has been due since" in pages[name], name
        assert not any("next visit" in page for page in pages.values())

    def test_administrators_find_the_cause(self, alive: Experiment, people: People) -> None:
        page = read(people.client("admin"), alive.get_absolute_url())
        assert "Why: see Operations ." in page

    @pytest.mark.parametrize(
        "columns",
        [
            {"last_tick_at": timedelta(seconds=-2)},
            {"lease_until": timedelta(seconds=60)},
            {"retry_at": timedelta(seconds=60)},
        ],
        ids=["visited lately", "visited now", "backs off"],
    )
    def test_what_is_in_time_is_not_called_late(
        self, alive: Experiment, as_owner: Client, columns: dict[str, timedelta]
    ) -> None:
        visit(alive, **{name: timezone.now() + after for name, after in columns.items()})
        for name, page in read_all(as_owner, alive).items():
            assert "is not visited" not in page.lower(), name
            assert "a visit has been due" not in page, name

    def test_nobody_is_late_for_what_was_asked_for_a_moment_ago(
        self, alive: Experiment, as_owner: Client
    ) -> None:
        """Where no job is live a cluster is visited seldom, and a click asks for a visit."""
        alive.jobs.filter(state="running").delete()
        Event.objects.create(experiment=alive, what="launched")
        page = read(as_owner, alive.get_absolute_url())
        assert "to be sent at the next visit to far" in page
        assert "is not visited" not in page

    def test_a_cluster_that_was_never_visited_is_late_too(
        self, alive: Experiment, as_owner: Client
    ) -> None:
        visit(alive, last_tick_at=None, last_seen_at=None)
        assert NOT_VISITED in read(as_owner, alive.get_absolute_url())

    def test_an_ended_experiment_waits_for_nobody(
        self, alive: Experiment, as_owner: Client
    ) -> None:
        alive.runs.update(state="failed")
        alive.jobs.update(state="failed")
        assert "is not visited" not in read(as_owner, alive.get_absolute_url())


def test_the_limit_of_connections_is_said_where_jobs_run(
    alive: Experiment, as_owner: Client
) -> None:
    """Nothing is followed or collected either, not only sent."""
    alive.jobs.filter(state="planned").delete()
    alive.jobs.update(state="running")
    now = timezone.now()
    why = "far takes at most 3 connections an hour from Tare, and has had them"
    visit(
        alive,
        last_error=f"{why}.",
        last_error_kind="connection limit",
        last_tick_at=now,
        last_seen_at=now,
        retry_at=now + timedelta(minutes=4),
    )
    (run,) = alive.runs.all()
    for address in (alive.get_absolute_url(), run.get_absolute_url()):
        page = read(as_owner, address)
        assert f"Limit of connections : {why}" in page
        assert "1 job there is shown as it was when Tare last looked" in page
    for name in ("overview", "clusters"):
        page = read(as_owner, reverse(name))
        assert page.count(why) == 1, name
        assert "limit of connections" in page
        assert "nothing is sent or followed there" in page
