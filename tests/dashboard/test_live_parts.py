"""Live parts of pages, which are fetched every few seconds and rarely have changed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from dashboard.execution.experiment_parts import DETAILS, REFRESH_SECONDS
from dashboard.live_parts import MOST_SECONDS
from experiments.models import (
    Citation,
    Cluster,
    Event,
    Experiment,
    Image,
    Job,
    LiveReading,
    Operation,
    Pause,
    Run,
    User,
)
from tests.dashboard.conftest import People, Site, measured
from tests.factories import JobFactory, OperationFactory, RunFactory, StagedImageFactory

pytestmark = pytest.mark.django_db

Change = Callable[[Experiment], object]
PARTS = ("experiment", "comparison", "run", "overview", "operation")


@pytest.fixture
def alive(site: Site, people: People) -> Experiment:
    """An experiment with a run under way."""
    experiment = measured(site, people.owner, blocks=1)
    job = JobFactory(experiment=experiment, repeat=2, state=Job.State.RUNNING)
    RunFactory(job=job, state=Run.State.RUNNING)
    # Somebody has asked for the next visit already: looking at the run asks for no other one.
    Cluster.objects.filter(pk=experiment.cluster_id).update(wanted_at=Now())
    staged = StagedImageFactory(cluster=site.cluster)
    OperationFactory(staged_image=staged, owner=people.owner, state=Operation.State.RUNNING)
    return experiment


def find_address(part: str, experiment: Experiment) -> str:
    """Return the address from which the live part of a page is fetched."""
    match part:
        case "comparison":
            return reverse("comparison", args=[experiment.pk]) + "?part=live&shown=1"
        case "run":
            return experiment.runs.get(state=Run.State.RUNNING).get_absolute_url()
        case "overview":
            return reverse("overview")
        case "operation":
            return reverse("operation", args=[Operation.objects.get().pk])
    return experiment.get_absolute_url()


def fetch(client: Client, address: str, mark: str = "", **headers: str) -> Any:
    """Fetch a live part as a page that shows what has this mark."""
    given = {"HX-Request": "true", "X-Mark": mark, **headers}
    answer = client.get(address, headers={name: text for name, text in given.items() if text})
    assert answer.status_code in (200, 204, 302, 404), answer.status_code
    return answer


def is_news(client: Client, address: str, mark: str) -> bool:
    """Return whether a part is made anew; who asks for it and its mark is all that is read else."""
    with CaptureQueriesContext(connection) as queries:
        answer = fetch(client, address, mark)
    assert answer.status_code == 200 or len(queries) == 3, [row["sql"] for row in queries]
    return bool(answer.status_code == 200)


def test_what_is_shown_already_is_not_sent_again(alive: Experiment, as_owner: Client) -> None:
    address = alive.get_absolute_url()
    first = as_owner.get(address, headers={"HX-Request": "true"})
    shown = {"HX-Request": "true", "X-Shown": first["X-Shown"]}
    assert b"csrfmiddlewaretoken" in first.content, "which differs each time"
    again = as_owner.get(address, headers=shown)
    assert (again.status_code, again.content) == (204, b"")
    alive.runs.update(state=Run.State.FAILED, reason="lost")
    assert as_owner.get(address, headers=shown).status_code == 200


def test_pages_and_other_answers_are_left_alone(alive: Experiment, as_owner: Client) -> None:
    assert "X-Shown" not in as_owner.get(alive.get_absolute_url())
    missing = as_owner.get("/experiments/999999/", headers={"HX-Request": "true"})
    assert missing.status_code == 404
    assert "X-Shown" not in missing
    posted = as_owner.post(
        reverse("experiment_pause", args=[alive.pk]), headers={"HX-Request": "true"}
    )
    assert posted.status_code == 302


@pytest.mark.parametrize("shown", ["", "null", "x" * 5_000, "\xff"])
def test_an_odd_header_is_no_digest(alive: Experiment, as_owner: Client, shown: str) -> None:
    headers = {"HX-Request": "true", "X-Shown": shown}
    assert as_owner.get(alive.get_absolute_url(), headers=headers).status_code == 200


@pytest.mark.parametrize("part", PARTS)
def test_a_part_without_news_is_not_made(
    part: str, alive: Experiment, people: People, as_owner: Client
) -> None:
    address = find_address(part, alive)
    mark = fetch(as_owner, address)["X-Mark"]
    assert not is_news(as_owner, address, mark)
    again = fetch(as_owner, address, mark)
    assert (again.status_code, again.content) == (204, b"")
    assert is_news(as_owner, address, ""), "whoever shows nothing gets it"
    assert is_news(people.client("admin"), address, mark), "another reader may see another part"
    assert is_news(as_owner, address + "?" * ("?" not in address) + "&x=1", mark)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_made_anew_after_some_time_without_news(
    part: str, alive: Experiment, as_owner: Client
) -> None:
    address = find_address(part, alive)
    name, _, made_at = fetch(as_owner, address)["X-Mark"].partition(".")
    for age, is_anew in ((MOST_SECONDS + 1, True), (-60, True), (0, False)):
        mark = f"{name}.{int(made_at) - age}"
        assert is_news(as_owner, address, mark) == is_anew, age


CHANGES: dict[str, Change] = {
    "an event": lambda row: Event.objects.create(experiment=row, what="said"),
    "an event of before that is committed later": lambda row: Event.objects.create(
        experiment=row, what="said", pk=min(Event.objects.values_list("pk", flat=True)) - 1
    ),
    "the experiment": lambda row: Experiment.objects.filter(pk=row.pk).update(question="Another?"),
    "the cluster fails": lambda row: Cluster.objects.update(last_error="No route to host."),
    "a pause": lambda row: Pause.objects.create(
        cluster=row.cluster, kind="limit", message="Too many.", since=Now(), retry_at=Now()
    ),
}
OF_RUNS: dict[str, Change] = {
    "a run ends": lambda row: row.runs.filter(state="running").update(state="failed"),
    "a run has ended by its journal": lambda row: row.runs.filter(state="running").update(
        ended_at=Now()
    ),
    "the queue": lambda row: row.jobs.filter(state="running").update(scheduler_state="RUNNING"),
}
STATED: dict[str, Change] = {
    "authors are stated": lambda row: Citation.objects.create(
        experiment=row, authors=[{"family": "Curie"}]
    ),
    "a DOI is reserved": lambda row: Citation.objects.create(experiment=row, doi="10.5281/x.1"),
}
SHOWN = {
    **{(part, name): CHANGES[name] for part in PARTS[:4] for name in CHANGES},
    **{(part, name): OF_RUNS[name] for part in PARTS[:3] for name in OF_RUNS},
    **{("experiment", name): STATED[name] for name in STATED},
    ("operation", "the cluster fails"): CHANGES["the cluster fails"],
}
"""What changes at a page; the overview is told of runs by the events that come with them."""


@pytest.mark.parametrize(("part", "what"), SHOWN)
def test_news_are_shown_at_once(part: str, what: str, alive: Experiment, as_owner: Client) -> None:
    Event.objects.create(experiment=alive, what="launched")
    address = find_address(part, alive)
    mark = fetch(as_owner, address)["X-Mark"]
    SHOWN[part, what](alive)
    assert is_news(as_owner, address, mark)


def test_a_visit_that_finds_nothing_is_no_news(alive: Experiment, as_owner: Client) -> None:
    for part in PARTS:
        address = find_address(part, alive)
        mark = fetch(as_owner, address)["X-Mark"]
        Cluster.objects.update(last_tick_at=Now(), last_seen_at=Now(), lease_until=Now())
        assert not is_news(as_owner, address, mark), part


def test_news_of_an_operation_are_shown_at_once(alive: Experiment, as_owner: Client) -> None:
    address = find_address("operation", alive)
    mark = fetch(as_owner, address)["X-Mark"]
    Operation.objects.update(step=F("step") + 1)
    assert is_news(as_owner, address, mark)


@pytest.mark.parametrize("part", ["experiment", "comparison", "run"])
def test_what_is_hidden_is_no_longer_without_news(
    part: str, alive: Experiment, people: People
) -> None:
    address, as_other = find_address(part, alive), people.client("other")
    mark = fetch(as_other, address)["X-Mark"]
    assert not is_news(as_other, address, mark)
    Experiment.objects.filter(pk=alive.pk).update(visibility=Experiment.Visibility.PRIVATE)
    assert fetch(as_other, address, mark).status_code == 404


def test_an_operation_is_hidden_with_what_it_works_on(alive: Experiment, people: People) -> None:
    address, as_other = find_address("operation", alive), people.client("other")
    mark = fetch(as_other, address)["X-Mark"]
    assert not is_news(as_other, address, mark)
    Image.objects.update(visibility=Image.Visibility.PRIVATE)
    assert fetch(as_other, address, mark).status_code == 404
    Image.objects.update(visibility=Image.Visibility.MEMBERS)
    Cluster.objects.update(visibility=Cluster.Visibility.PRIVATE)
    assert fetch(as_other, address, mark).status_code == 404
    assert fetch(people.client("owner"), address).status_code == 200, "it is the owner's own"


MOST_STATEMENTS = {"experiment": 9, "comparison": 5, "run": 6, "overview": 8, "operation": 4}
"""Of a part with news, two of them for who asks."""


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("who", ["owner", "other", "admin"])
def test_a_part_with_news_takes_few_statements(
    part: str, who: str, alive: Experiment, people: People
) -> None:
    client, address = people.client(who), find_address(part, alive)
    fetch(client, address)
    with CaptureQueriesContext(connection) as queries:
        assert fetch(client, address).status_code == 200
    statements = [row["sql"] for row in queries]
    assert len(statements) <= MOST_STATEMENTS[part], "\n".join(statements)


def test_another_role_sees_another_part(alive: Experiment, people: People) -> None:
    address, as_other = alive.get_absolute_url(), people.client("other")
    mark = fetch(as_other, address)["X-Mark"]
    User.objects.filter(pk=people.other.pk).update(
        role="site_administrator", is_superuser=True, is_staff=True
    )
    assert is_news(as_other, address, mark)


def test_the_larger_part_of_an_experiment_has_no_mark(alive: Experiment, as_owner: Client) -> None:
    address = alive.get_absolute_url()
    assert "X-Mark" not in fetch(as_owner, address, **{"HX-Target": DETAILS})
    mark = fetch(as_owner, address)["X-Mark"]
    young, old = (f"0.{int(time.time()) - age}" for age in (0, REFRESH_SECONDS))
    assert fetch(as_owner, address, mark, **{"X-Seen": young}).status_code == 204
    assert fetch(as_owner, address, mark, **{"X-Seen": old}).status_code == 200


def test_whoever_looks_at_a_run_has_it_read(alive: Experiment, as_owner: Client) -> None:
    address = find_address("run", alive)
    mark = fetch(as_owner, address)["X-Mark"]
    Cluster.objects.update(wanted_at=None)  # the visit has come
    LiveReading.objects.update(read_at=Now())
    assert is_news(as_owner, address, mark), "it was read"
    mark = fetch(as_owner, address)["X-Mark"]
    assert not is_news(as_owner, address, mark), "a moment ago: it is not read again yet"
    LiveReading.objects.update(read_at=None)
    fetch(as_owner, address, mark)
    assert Cluster.objects.get(pk=alive.cluster_id).wanted_at, "another visit is asked for"


@pytest.mark.parametrize("mark", ["null", "." * 50, "x" * 5_000, "\xff", "a.\u00b2"])
def test_an_odd_header_is_no_mark(alive: Experiment, as_owner: Client, mark: str) -> None:
    assert fetch(as_owner, alive.get_absolute_url(), mark).status_code == 200
