"""Pages show a waiting job's place in Slurm's queue, as it is stored, and ask no cluster for it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import Settings
from redis import Redis

from experiments.models import Cluster, Job, Run
from tests.dashboard.conftest import People, Site, measured
from tests.factories import CredentialFactory, JobFactory, RunFactory, link_to

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
SENTENCE = "12th of 340 jobs that wait in gpu, by priority , of those that"


@pytest.fixture
def valkey(settings: Settings) -> Redis:
    client = Redis.from_url(settings.REDIS_URL)
    for key in client.scan_iter("queue:*"):
        client.delete(key)
    return client


@pytest.fixture
def waiting(site: Site, people: People, valkey: Redis) -> Run:
    """A run whose job waits in Slurm's queue."""
    credential = CredentialFactory(user_name="hpc", owner=people.admin)
    Cluster.objects.update(transport="ssh", scheduler="slurm", credential=credential)
    experiment = measured(site, people.owner, blocks=1)
    job = JobFactory(
        experiment=experiment,
        repeat=2,
        state=Job.State.QUEUED,
        scheduler_id="4711",
        scheduler_state="PENDING Priority",
        started_at=None,
        ended_at=None,
    )
    columns = {"state": Run.State.PLANNED, "began_at": None, "ended_at": None, "exit_code": None}
    made: Run = RunFactory(job=job, environment=site.bare, **columns)
    return made


def store(valkey: Redis, run: Run, *, is_asked: bool = True, **changes: Any) -> None:
    """Store what a visit learned of the queue of a run's job."""
    document = {
        "partition": "gpu",
        "account": "hpc",
        "total": 340,
        "is_all": 1,
        "places": [[4711, 12]],
        **changes,
    }
    keys = f"{run.job.cluster_id}:{run.experiment.partition_id}"
    valkey.set(f"queue:answer:{keys}", json.dumps(document), ex=60)
    if is_asked:
        valkey.set(f"queue:asked:{keys}", 1, ex=60)


def read(client: Client, address: str, **headers: str) -> str:
    """Return the text of a page."""
    page = client.get(address, headers=headers).content.decode()
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_the_page_of_a_run_shows_its_jobs_place(
    waiting: Run, valkey: Redis, as_owner: Client, people: People
):
    address = waiting.get_absolute_url()
    assert "jobs that wait" not in read(as_owner, address), "nobody has asked yet"
    assert Cluster.objects.get().wanted_at is not None
    store(valkey, waiting)
    for headers in ({}, HTMX):
        assert f"{SENTENCE} the account hpc may see" in read(people.client("admin"), address)
        assert SENTENCE in read(as_owner, address, **headers)
    page = as_owner.get(address).content.decode()
    assert f'{reverse("document", args=["clusters"])}#places-in-slurms-queue"' in page


def test_the_account_is_named_to_those_who_may_view_the_cluster(
    waiting: Run, valkey: Redis, people: People
):
    store(valkey, waiting)
    Cluster.objects.update(visibility="private", owner=people.admin)
    waiting.job.cluster.users.clear()
    assert "hpc" not in read(people.client("owner"), waiting.get_absolute_url())
    text = read(people.client("owner"), waiting.get_absolute_url())
    assert f"{SENTENCE} Tare’s account may see" in text


def test_one_job_waits_and_many_wait(waiting: Run, valkey: Redis, as_owner: Client):
    store(valkey, waiting, total=1, places=[[4711, 1]])
    assert "1st of 1 job that waits in gpu" in read(as_owner, waiting.get_absolute_url())
    store(valkey, waiting, total=20_000, is_all=0)
    text = read(as_owner, waiting.get_absolute_url())
    assert "12th of more than 20,000 jobs that wait in gpu" in text


def test_a_held_job_and_one_that_runs_have_no_place(waiting: Run, valkey: Redis, as_owner: Client):
    store(valkey, waiting, places=[])
    assert "by priority" not in read(as_owner, waiting.get_absolute_url())
    store(valkey, waiting)
    for state in set(Job.State) - {Job.State.QUEUED}:
        Job.objects.filter(pk=waiting.job_id).update(state=state)
        assert "by priority" not in read(as_owner, waiting.get_absolute_url())


def test_visitors_see_no_place_and_nothing_is_asked_for_them(
    waiting: Run, valkey: Redis, client: Client
):
    address = link_to(waiting.experiment)
    assert client.get(address, follow=True).status_code == 200
    jobs = f"{waiting.experiment.get_absolute_url()}?tab=jobs"
    for asked in (waiting.get_absolute_url(), jobs):
        assert client.get(asked).status_code == 200
        assert client.get(asked, headers=HTMX).status_code == 200
    assert not list(valkey.scan_iter("queue:*"))
    assert Cluster.objects.get().wanted_at is None
    store(valkey, waiting)
    assert "by priority" not in read(client, waiting.get_absolute_url())
    assert "by priority" not in read(client, jobs)


def test_the_place_costs_the_live_part_no_statement(waiting: Run, valkey: Redis, as_owner: Client):
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert as_owner.get(waiting.get_absolute_url(), headers=HTMX).status_code == 200
        return len(queries)

    count()
    store(valkey, waiting)
    with_place = count()
    Cluster.objects.update(scheduler="grid_engine")
    assert with_place == count()


def test_the_tab_of_jobs_shows_each_place(
    waiting: Run, valkey: Redis, as_owner: Client, people: People
):
    address = f"{waiting.experiment.get_absolute_url()}?tab=jobs"
    assert "by priority" not in read(as_owner, address)
    assert Cluster.objects.get().wanted_at is not None
    store(valkey, waiting)
    text = read(people.client("admin"), address)
    assert f"Places are among {SENTENCE[8:]} the account hpc may see." in text
    assert "12th of 340 by priority" in text


def test_a_forced_command_that_refuses_is_named_once_on_the_clusters_page(
    waiting: Run, valkey: Redis, people: People
):
    admin, address = people.client("admin"), reverse("cluster", args=[waiting.job.cluster_id])
    assert "Older script" not in read(admin, address)
    valkey.set(f"queue:refused:{waiting.job.cluster_id}", 1, ex=60)
    text = read(admin, address)
    assert text.count("Older script of the forced command") == 1
    assert "it is not known which places they have in Slurm’s queue" in text
    Cluster.objects.update(older_gate_at=waiting.experiment.launched_at)
    assert read(admin, address).count("Older script of the forced command") == 1


@pytest.mark.parametrize("content", [b"\xff\x80", b"[1]", b"{", b'{"places": [[1]]}', b"null"])
def test_odd_bytes_in_valkey_show_nothing(
    waiting: Run, valkey: Redis, as_owner: Client, content: bytes
):
    keys = f"{waiting.job.cluster_id}:{waiting.experiment.partition_id}"
    valkey.set(f"queue:answer:{keys}", content, ex=60)
    assert as_owner.get(waiting.get_absolute_url()).status_code == 200
    assert "by priority" not in read(as_owner, waiting.get_absolute_url())


def test_a_partitions_name_is_text(waiting: Run, valkey: Redis, as_owner: Client):
    store(valkey, waiting, partition="<b>gpu</b>")
    page = as_owner.get(waiting.get_absolute_url()).content.decode()
    assert "&lt;b&gt;gpu&lt;/b&gt;" in page
    assert "<b>gpu" not in page
