"""People with different rights, an experiment with results, and a real browser."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from dashboard.drawings import drawing_process
from dashboard.drawings.turns import Turns
from experiments.models import Environment, Experiment, Run, User, Workload
from tests.factories import (
    PASSWORD,
    AdminFactory,
    ClusterFactory,
    ContainerFactory,
    EnvironmentFactory,
    LaunchedFactory,
    PartitionFactory,
    SeriesFactory,
    UserFactory,
    WorkloadFactory,
    block,
)


def fetch(client: Client, address: str, status: int = 200, **sent: Any) -> bytes:
    """Return what is at an address, read to its end, as an export that is not read holds a place.

    Fails where the answer's status is another one.
    """
    answer: Any = client.get(address, **sent)
    content = b"".join(answer.streaming_content) if answer.streaming else bytes(answer.content)
    assert answer.status_code == status, (address, content[:500])
    return content


CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass(frozen=True)
class People:
    """Who looks at a page; `anonymous` has not logged in."""

    owner: User
    other: User
    admin: User

    def client(self, who: str) -> Client:
        client = Client()
        if who != "anonymous":
            client.force_login(getattr(self, who))
        return client


@pytest.fixture
def people(db: None) -> People:
    return People(
        owner=UserFactory(username="owner"),
        other=UserFactory(username="other"),
        admin=AdminFactory(username="admin"),
    )


@pytest.fixture
def as_owner(people: People) -> Client:
    return people.client("owner")


@dataclass(frozen=True)
class Site:
    """A cluster on which an experiment can be asked for."""

    cluster: Any
    partition: Any
    bare: Environment
    container: Environment
    workload: Workload


@pytest.fixture
def site(people: People) -> Site:
    cluster = ClusterFactory(name="lab", owner=people.admin, last_tick_at=timezone.now())
    return Site(
        cluster=cluster,
        partition=PartitionFactory(cluster=cluster, name="gpu", gpus_per_node=2),
        bare=EnvironmentFactory(name="bare metal", cluster=cluster),
        container=ContainerFactory(name="Apptainer", cluster=cluster),
        workload=WorkloadFactory(name="blas small"),
    )


def measured(
    site: Site,
    owner: User,
    *,
    blocks: int = 5,
    others: Sequence[Environment] = (),
    **kwargs: Any,
) -> Experiment:
    """Return an experiment whose blocks have all ended: the container costs about 10 %.

    `others` are further environments, which cost 1 % each more than the one before.
    """
    experiment: Experiment = LaunchedFactory(
        owner=owner,
        cluster=site.cluster,
        partition=site.partition,
        baseline=site.bare,
        workloads=[site.workload],
        environments=[site.bare, site.container, *others],
        **kwargs,
    )
    for scale in experiment.scales:
        for repeat in range(1, blocks + 1):
            drift = 1 + repeat / 1000
            values = {site.bare: 0.020 * drift, site.container: 0.022 * drift + repeat * 1e-6}
            for number, other in enumerate(others, start=1):
                values[other] = 0.020 * drift * (1 + number / 100) + number * repeat * 1e-5
            block(experiment, repeat, values, scale=scale)
    return experiment


def show_all_sections(address: str) -> str:
    """Return the address of a comparison's page as it is printed: with every section open."""
    return f"{address}?section=all"


def read_report(client: Client, experiment: Experiment) -> str:
    """Return the comparison's page with every section open."""
    address = show_all_sections(reverse("comparison", args=[experiment.pk]))
    return str(client.get(address).content.decode())


@pytest.fixture
def results(site: Site, people: People) -> Experiment:
    return measured(site, people.owner, question="What does it cost?")


@pytest.fixture
def run(results: Experiment) -> Run:
    found = Run.objects.filter(experiment=results).order_by("pk")[0]
    SeriesFactory(run=found)
    return found


@pytest.fixture(scope="session")
def chromium() -> str:
    # The headless shell has no windows: tests take a third less of the processor.
    names = ("chromium-headless-shell", "chromium", "chromium-browser")
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if not path or not Path(path).exists():
        pytest.fail(
            "The browser tests need Chromium: apt-get install chromium-headless-shell, "
            "or set CHROMIUM to a path."
        )
    return path


@pytest.fixture(scope="session")
def playwright(playwright: Any) -> Iterator[Any]:
    """Django keeps one connection beside Playwright's event loop and one without; close both.

    The first is out of reach once the loop has ended, and would hold the test database.
    """
    yield playwright
    connections.close_all()


@pytest.fixture(scope="session")
def browser_type_launch_args(chromium: str) -> dict[str, Any]:
    return {"executable_path": chromium, "args": CHROMIUM_ARGUMENTS}


@dataclass
class Complaints:
    """What the browser's console had to say."""

    lines: list[str]


GIVEN_UP = re.compile(r": htmx:(afterRequest|sendAbort), ")


FIGURE = re.compile(r"/(?:figures/[\w-]+|forest)\.svg")


def is_busy_figure(message: Any) -> bool:
    """Return whether the browser says that a figure has no turn yet: the page asks for it again."""
    address = str(message.location.get("url", ""))
    return "status of 503" in message.text and FIGURE.search(address) is not None


@pytest.fixture
def complaints(page: Any) -> Iterator[Complaints]:
    """Fail the test if a page breaks the content security policy or logs an error."""
    heard = Complaints([])

    def hear(message: Any) -> None:
        if message.type not in {"error", "warning"} or is_busy_figure(message):
            return
        heard.lines.append(f"{page.url}: {message.text}")
        if message.text.startswith("htmx:sendAbort, "):
            # A request was given up, as one whose answer a newer one replaces, which is no fault of
            # the page: htmx logs that as two errors, of which this is the second.
            heard.lines[-2:] = [line for line in heard.lines[-2:] if not GIVEN_UP.search(line)]

    page.on("console", hear)
    page.on("pageerror", lambda error: heard.lines.append(f"{page.url}: {error}"))
    yield heard
    assert heard.lines == []


Open = Callable[[str], None]


@pytest.fixture(autouse=True)
def own_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let figures that a page of another test still asks for take no turn of this test's."""
    limits = (drawing_process.AT_ONCE, drawing_process.FOR_VISITORS, drawing_process.WAITING)
    monkeypatch.setattr(drawing_process, "turns", Turns(*limits))


@pytest.fixture
def open_page(page: Page, live_server: LiveServer, people: People) -> Open:
    """Log in as the owner; then go wherever an address leads."""
    page.goto(f"{live_server.url}/login/")
    page.get_by_label("Username").fill("owner")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{live_server.url}/")
    return lambda address: page.goto(live_server.url + address) and None


def open_charts(page: Page) -> None:
    """Open the interactive chart below each picture that is not folded away itself."""
    page.evaluate(
        "for (const fold of document.querySelectorAll('figure.chart > details:not(.points)'))"
        " if (!fold.parentElement.closest('details:not([open])')) fold.open = true"
    )


def drawn(page: Page) -> int:
    """Wait until every chart that is not folded away has its plot; return how many there are."""
    charts = "[data-chart]:not(details:not([open]) *)"
    count = page.locator(charts).count()
    # The library of 1.4 MB is fetched first: on a busy machine that takes seconds.
    expect(page.locator("[data-chart] .main-svg").first).to_be_visible(timeout=30_000)
    expect(page.locator(f"{charts}[data-drawn]")).to_have_count(count, timeout=30_000)
    return count
