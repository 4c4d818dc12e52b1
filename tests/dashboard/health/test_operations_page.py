"""The page *Operations*: who sees it, and what it says when something is missing, odd or stuck."""

from __future__ import annotations

import json
import os
import socket
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from experiments.execution.holder import make_token
from experiments.execution.lease import LEASE
from experiments.models import Cluster, Job, Role, ServiceSign
from tests.dashboard.conftest import People
from tests.factories import NOON as NOW
from tests.factories import ClusterFactory, JobFactory, LaunchedFactory, UserFactory

pytestmark = pytest.mark.django_db
ADDRESS = "/operations/"


@pytest.fixture
def as_admin(people: People) -> Client:
    return people.client("admin")


@pytest.fixture
def all_run(db: None, roomy_disks: None, empty_queues: None) -> None:
    now = timezone.now()
    for service, queue in (("worker", "default"), ("worker", "bulk"), ("clock", "")):
        ServiceSign.objects.create(
            token=make_token(),
            service=service,
            queue=queue,
            host=socket.gethostname(),
            pid=os.getpid(),
            started_at=now - timedelta(hours=1),
            seen_at=now,
        )


def read(client: Client, **headers: str) -> BeautifulSoup:
    answer = client.get(ADDRESS, headers=headers)
    assert answer.status_code == 200
    return BeautifulSoup(answer.content, "html.parser")


def text(soup: Any) -> str:
    return " ".join(soup.get_text().split())


def row_of(soup: BeautifulSoup, name: str) -> str:
    """Return the row of a table that begins with a name."""
    (row,) = [
        text(row) for row in soup.select("tbody tr") if row.th and text(row.th).startswith(name)
    ]
    return row


def test_is_for_site_administrators_and_in_their_menu_only() -> None:
    for role in Role:
        client = Client()
        client.force_login(UserFactory(role=role))
        allowed = role == Role.SITE_ADMINISTRATOR
        assert client.get(ADDRESS).status_code == (200 if allowed else 403), role
        overview = BeautifulSoup(client.get("/").content, "html.parser")
        assert bool(overview.select(f'.menu a[href="{ADDRESS}"]')) == allowed
    assert Client().get(ADDRESS)["Location"] == f"/login/?next={ADDRESS}"


def test_says_that_all_runs(as_admin: Client, all_run: None) -> None:
    ClusterFactory(name="near", last_tick_at=timezone.now(), last_tick_seconds=0.25)
    soup = read(as_admin)
    assert "All that Tare needs is running." in text(soup)
    assert not soup.select(".note")
    for name in ("PostgreSQL", "Valkey", "Web server", "worker default", "worker bulk", "clock"):
        assert "running" in row_of(soup, name)
    assert "on time" in row_of(soup, "near")
    assert "250 ms" in row_of(soup, "near")
    assert "set to 1 min" in row_of(soup, "near")
    headings = [text(heading) for heading in soup.select("h2")]
    assert headings == ["Services", "Queues", "Visits to clusters", "Database", "Image store"]


def test_says_what_is_missing_since_when_what_follows_and_what_to_do(
    as_admin: Client, all_run: None
) -> None:
    # Not so long ago that the table leaves it out: it shows what is gone for a day.
    at = (timezone.now() - timedelta(hours=2)).replace(microsecond=0)
    ServiceSign.objects.filter(queue="default").update(seen_at=at, host="far", pid=77)
    soup = read(as_admin)
    (note,) = soup.select(".note.error")
    assert text(note) == (
        f"No worker runs, last seen {at:%Y-%m-%d %H:%M:%S} UTC. Nothing is submitted, followed or "
        "collected until one does; nothing is lost. Start it: docker compose up -d worker, or "
        "manage.py worker. Process 77 on far has fallen silent."
    )
    assert "silent far, process 77" in row_of(soup, "worker default")


def test_the_overview_tells_site_administrators_what_is_missing(
    people: People, all_run: None
) -> None:
    ServiceSign.objects.filter(service="clock").delete()
    told = (
        "No clock runs. Clusters are visited after a click only: what ends there is not noticed by "
        "itself. Operations"
    )
    for who, notes in (("admin", [told]), ("other", [])):
        soup = BeautifulSoup(people.client(who).get("/").content, "html.parser")
        assert [text(note) for note in soup.select(".note.error")] == notes
    ServiceSign.objects.create(
        token="x", service="clock", host="x", pid=1, started_at=NOW, seen_at=timezone.now()
    )
    soup = BeautifulSoup(people.client("admin").get("/").content, "html.parser")
    assert not soup.select(".note")


def test_without_any_sign_it_names_all_that_is_missing(as_admin: Client) -> None:
    notes = [text(note) for note in read(as_admin).select(".note.error")]
    assert [note.partition(".")[0] for note in notes] == [
        "No worker runs",
        "No worker of the queue bulk runs",
        "No clock runs",
    ]


def test_says_that_valkey_is_away(as_admin: Client, all_run: None, settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/socket?db=0"
    soup = read(as_admin)
    (note,) = soup.select(".note.error")
    assert text(note).startswith("Valkey does not answer. Workers are not told what to do")
    assert "/nowhere/socket" in row_of(soup, "Valkey")
    assert "running" in row_of(soup, "worker default"), "which PostgreSQL knows"


def test_says_what_a_worker_does_and_who_holds_a_cluster(as_admin: Client, all_run: None) -> None:
    lease = {"lease_token": make_token(), "lease_until": timezone.now() + LEASE}
    cluster = ClusterFactory(name="near", **lease)
    soup = read(as_admin)
    assert "visits near" in row_of(soup, "worker default")
    (link,) = soup.select(f'td a[href="/clusters/{cluster.pk}/"]')[:1]
    assert text(link) == "near"
    assert f"on {socket.gethostname()} (process {os.getpid()})" in row_of(soup, "near")


def test_shows_clusters_the_worst_first(as_admin: Client, all_run: None) -> None:
    now = timezone.now()
    ClusterFactory(name="near", last_tick_at=now)
    ClusterFactory(
        name="far",
        last_tick_at=now,
        failures=3,
        last_error="Connection refused <b>",
        last_error_kind="not reachable",
        retry_at=now + timedelta(minutes=5),
    )
    soup = read(as_admin)
    names = [text(link) for link in soup.select('th a[href^="/clusters/"]')]
    assert names == ["far", "near"]
    assert "not reachable Connection refused <b>" in row_of(soup, "far")
    assert "in 5 min" in row_of(soup, "far") or "in 4 min" in row_of(soup, "far")


def test_shows_what_is_stuck_with_its_page_and_advice(as_admin: Client, all_run: None) -> None:
    experiment = LaunchedFactory(question="Does <i> cost?")
    JobFactory(
        experiment=experiment,
        state=Job.State.COLLECTING,
        gone_at=timezone.now() - timedelta(hours=1),
    )
    soup = read(as_admin)
    heading = soup.find("h3")
    assert text(heading) == "Jobs that left the queue more than 10 min ago and are not collected: 1"
    (link,) = soup.select(f'li a[href="/experiments/{experiment.pk}/?tab=jobs"]')
    assert "Does <i> cost?" in text(link)


def test_shows_what_the_supervisor_started_again(
    as_admin: Client, all_run: None, settings: Settings, tmp_path: Path
) -> None:
    end = {"service": "worker", "at": timezone.now().isoformat(), "exit_code": -9}
    looping = {"name": "clock", "is_loop": True, "ends_in_a_row": 7, "log": "/var/log/clock"}
    settings.SUPERVISOR_FILE = str(tmp_path / "services.json")
    content = {"stopped": False, "ends": [end | {"ran_seconds": 90}] * 12, "services": [looping]}
    Path(settings.SUPERVISOR_FILE).write_text(json.dumps(content))
    soup = read(as_admin)
    (note,) = soup.select(".note")
    assert text(note) == (
        "clock ends again and again. 7 times in a row; it is started again every 30 s. Its log "
        "says why: /var/log/clock"
    )
    assert "Times ended: worker 12" in text(soup)
    rows = [text(row) for row in soup.select("tbody tr") if "killed by SIGKILL" in text(row)]
    assert len(rows) == 10, "the newest"
    assert "1 min 30 s" in rows[0]


def test_odd_values_break_nothing(as_admin: Client, all_run: None, settings: Settings) -> None:
    now = timezone.now()
    odd = float("nan")
    ClusterFactory(name="odd", poll_seconds=odd, last_tick_seconds=odd, last_interval_seconds=odd)
    ClusterFactory(name="future", last_tick_at=now + timedelta(days=400), poll_seconds=1e300)
    ClusterFactory(name="endless", last_tick_seconds=float("inf"), last_tick_at=now)
    ServiceSign.objects.update(seen_at=now + timedelta(days=1), started_at=now + timedelta(days=1))
    soup = read(as_admin)
    assert "interval is no number" in row_of(soup, "odd")
    assert "interval is no number" in row_of(soup, "future")
    assert "silent" in row_of(soup, "clock"), "its sign is of the future: a clock was set back"


def test_fetches_its_own_news_and_works_without_javascript(as_admin: Client, all_run: None) -> None:
    live = read(as_admin).select_one("#live")
    assert live
    assert (live["hx-get"], live["hx-swap"]) == (ADDRESS, "outerHTML")
    fragment = read(as_admin, **{"HX-Request": "true"})
    assert fragment.find("html") is None
    assert [part["id"] for part in fragment.select("[hx-get]")] == ["live"]
    assert "Visits to clusters" not in text(fragment), "a part of its own, fetched less often"
    details = read(as_admin, **{"HX-Request": "true", "HX-Target": "operations-details"})
    assert [part["id"] for part in details.select("[hx-get]")] == ["operations-details"]
    assert "Visits to clusters" in text(details)
    assert as_admin.post(ADDRESS).status_code == 405


def test_many_clusters_and_jobs_take_few_statements(
    as_admin: Client, all_run: None, django_assert_max_num_queries: Any
) -> None:
    experiment = LaunchedFactory()
    like = JobFactory(experiment=experiment, state=Job.State.RUNNING)
    now, owner = timezone.now(), experiment.owner
    clusters = Cluster.objects.bulk_create(
        Cluster(name=f"cluster {number}", work_directory="/x", owner=owner, last_tick_at=now)
        for number in range(119)
    )
    Job.objects.bulk_create(
        Job(
            experiment=experiment,
            cluster=cluster,
            workload=like.workload,
            scale="1x1",
            repeat=number,
            block=number,
            state=Job.State.RUNNING,
            scheduler_id=str(number),
        )
        for number in range(20)
        for cluster in clusters
    )
    as_admin.get(ADDRESS)
    with django_assert_max_num_queries(32):
        soup = read(as_admin)
    assert "and 20 more, in a better state" in text(soup)


def test_failed_tasks_link_to_the_queues(as_admin: Client, all_run: None) -> None:
    assert as_admin.get(reverse("admin:django_rq_dashboard_changelist")).status_code in (200, 302)
