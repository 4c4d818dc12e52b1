"""Whoever has mended what kept Tare away has it tried again at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from experiments import notify
from experiments.models import AuditEntry, Cluster, Experiment
from tests.dashboard.conftest import People
from tests.factories import ClusterFactory, JobFactory, LaunchedFactory, RunFactory

pytestmark = pytest.mark.django_db

BUTTON = "Try again now"


@pytest.fixture
def waiting(people: People) -> Experiment:
    """A job waits for a cluster whose sshd was away, and that Tare leaves alone for minutes."""
    now = timezone.now()
    cluster = ClusterFactory(
        name="far",
        last_tick_at=now,
        last_error="Nobody listens on far:22",
        last_error_kind="unreachable",
        failures=7,
        retry_at=now + timedelta(minutes=5),
    )
    made: Experiment = LaunchedFactory(owner=people.owner, cluster=cluster)
    job = JobFactory(experiment=made, state="planned")
    RunFactory(job=job, environment=made.baseline, state="planned")
    return made


@pytest.fixture
def visits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the keys of the clusters for which a visit is asked."""
    keys: list[int] = []
    monkeypatch.setattr(notify, "enqueue", lambda task, pk, **more: keys.append(pk))
    return keys


@pytest.mark.parametrize("here", ["experiment", "cluster"])
def test_one_click_ends_the_wait_and_is_written_down(
    waiting: Experiment,
    people: People,
    visits: list[int],
    here: str,
    django_capture_on_commit_callbacks: Any,
) -> None:
    client, address = people.client("owner"), reverse("cluster", args=[waiting.cluster_id])
    form = {}
    if here == "experiment":
        address, form = waiting.get_absolute_url(), {"experiment": waiting.pk}
    assert BUTTON in client.get(address).content.decode()
    with django_capture_on_commit_callbacks(execute=True):
        answer = client.post(reverse("cluster_try", args=[waiting.cluster_id]), form)
    assert answer["Location"] == address
    assert visits == [waiting.cluster_id]
    row = Cluster.objects.get(pk=waiting.cluster_id)
    assert (row.retry_at, row.failures) == (None, 7), "it has still failed as often in a row"
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.what, entry.name) == (people.owner, "asked to try again", "far")
    assert BUTTON not in client.get(address).content.decode()


def test_a_second_click_asks_for_nothing(
    waiting: Experiment, people: People, visits: list[int]
) -> None:
    Cluster.objects.update(retry_at=None)
    people.client("owner").post(reverse("cluster_try", args=[waiting.cluster_id]))
    assert not visits
    assert not AuditEntry.objects.exists()


def test_its_own_limit_is_no_back_off(
    waiting: Experiment, people: People, visits: list[int]
) -> None:
    Cluster.objects.update(last_error_kind="connection limit")
    client, address = people.client("owner"), reverse("cluster", args=[waiting.cluster_id])
    assert BUTTON not in client.get(address).content.decode()
    client.post(reverse("cluster_try", args=[waiting.cluster_id]))
    assert Cluster.objects.exclude(retry_at=None).exists()


def test_who_may_not_send_jobs_there_does_not_try(waiting: Experiment, people: People) -> None:
    Cluster.objects.get().users.clear()
    client = people.client("other")
    assert BUTTON not in client.get(waiting.get_absolute_url()).content.decode()
    assert client.post(reverse("cluster_try", args=[waiting.cluster_id])).status_code == 403
    assert Cluster.objects.exclude(retry_at=None).exists()
    anonymous = people.client("anonymous")
    assert anonymous.post(reverse("cluster_try", args=[waiting.cluster_id])).status_code == 302


def test_a_pause_that_is_tried_again_is_written_down_too(
    waiting: Experiment, people: People, visits: list[int]
) -> None:
    pause = waiting.cluster.pauses.create(
        kind="disk full", since=timezone.now(), retry_at=timezone.now() + timedelta(minutes=5)
    )
    people.client("owner").post(reverse("pause_try", args=[pause.pk]))
    entry = AuditEntry.objects.get()
    assert (entry.what, entry.why) == ("asked to try again", "pause: disk full")
