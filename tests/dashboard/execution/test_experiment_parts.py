"""The two parts of an experiment's page that are fetched anew while its runs live."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.core.cache import cache
from django.test import Client

from dashboard.execution import experiment_parts
from dashboard.execution.experiment_parts import CHANGED, DETAILS, REFRESH_SECONDS
from experiments.models import Experiment, Job, Run
from tests.dashboard.conftest import People, Site, measured
from tests.factories import JobFactory, RunFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


@pytest.fixture
def alive(site: Site, people: People) -> Experiment:
    """One block has ended, the next one is running."""
    experiment = measured(site, people.owner, blocks=1)
    job = JobFactory(experiment=experiment, repeat=2, state=Job.State.RUNNING)
    RunFactory(job=job, state=Run.State.RUNNING)
    RunFactory(job=job, environment=site.container, state=Run.State.PLANNED)
    return experiment


class Reader:
    """A browser that follows an experiment: it sends back what its second part shows."""

    def __init__(self, client: Client, experiment: Experiment, query: str = "") -> None:
        self.client, self.address = client, experiment.get_absolute_url() + query
        page = BeautifulSoup(client.get(self.address).content, "html.parser")
        details = page.select_one(f"#{DETAILS}")
        assert details is not None
        self.seen = str(details["data-seen"])

    def fetch(self, part: str, **headers: str) -> Any:
        answer = self.client.get(
            self.address,
            headers={"HX-Request": "true", "HX-Target": part, "X-Seen": self.seen, **headers},
        )
        assert answer.status_code in (200, 204)
        return answer

    def is_behind(self) -> bool:
        """Ask for the first part; return whether it says that the second one is behind."""
        answer = self.fetch("live")
        return CHANGED in json.loads(answer.headers.get("HX-Trigger", "{}"))

    def follow(self) -> str:
        """Fetch the second part."""
        answer = self.fetch(DETAILS)
        self.seen = answer["X-Seen"]
        return str(answer.content.decode())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds by which the server's clock is ahead."""
    ahead = [0.0]
    now = time.time
    monkeypatch.setattr(experiment_parts.time, "time", lambda: now() + ahead[0])
    return ahead


def test_the_first_part_holds_no_rows(alive: Experiment, as_owner: Client) -> None:
    page = BeautifulSoup(as_owner.get(alive.get_absolute_url()).content, "html.parser")
    live, details = page.select_one("#live"), page.select_one(f"#{DETAILS}")
    assert live
    assert details
    assert not live.select("table:not(.data-files)")
    assert "of 4 runs have ended" in " ".join(live.text.split())
    assert details.select("table.matrix")
    assert details.select("#runs")
    reader = Reader(as_owner, alive)
    assert b"<table" not in reader.fetch("live").content
    assert "of 4 runs have ended" not in reader.follow()


def test_what_changes_is_fetched_and_nothing_else(
    alive: Experiment, as_owner: Client, clock: list[float]
) -> None:
    reader = Reader(as_owner, alive)
    assert not reader.is_behind()
    alive.runs.filter(state=Run.State.RUNNING).update(state=Run.State.FAILED, reason="lost")
    assert reader.is_behind()
    assert reader.is_behind(), "an answer that is lost is asked for again"
    assert "lost" in reader.follow()
    assert not reader.is_behind()
    clock[0] += REFRESH_SECONDS
    assert reader.is_behind(), "what changes without a run's or a job's state, as a queue's words"


def test_what_has_not_changed_is_not_sent_again(
    alive: Experiment, as_owner: Client, clock: list[float]
) -> None:
    reader = Reader(as_owner, alive)
    first = reader.fetch(DETAILS)
    clock[0] += 2 * REFRESH_SECONDS
    again = reader.fetch(DETAILS, **{"X-Shown": first["X-Shown"]})
    assert (again.status_code, again.content) == (204, b"")
    reader.seen = again["X-Seen"]
    assert not reader.is_behind()
    live = reader.fetch("live")
    alive.jobs.update(state=Job.State.COLLECTING)
    unchanged = reader.fetch("live", **{"X-Shown": live["X-Shown"]})
    assert unchanged.status_code == 204
    assert CHANGED in unchanged["HX-Trigger"], "the second part has changed all the same"


def test_of_many_runs_the_second_part_is_fetched_less_often(
    alive: Experiment, as_owner: Client, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment_parts, "MANY_VALUES", 3)
    reader = Reader(as_owner, alive)
    alive.runs.filter(state=Run.State.PLANNED).update(state=Run.State.RUNNING)
    assert not reader.is_behind()
    clock[0] += REFRESH_SECONDS
    assert reader.is_behind()
    reader.follow()
    alive.runs.exclude(state__in=Run.FINAL).update(state=Run.State.FAILED)
    assert reader.is_behind(), "once all have ended, at once"


def test_it_is_followed_until_both_parts_show_the_end(alive: Experiment, as_owner: Client) -> None:
    reader = Reader(as_owner, alive)
    alive.runs.exclude(state__in=Run.FINAL).update(state=Run.State.FAILED)
    alive.jobs.update(state=Job.State.DONE)
    assert b"hx-get" in reader.fetch("live").content
    reader.follow()
    last = reader.fetch("live")
    assert b"hx-get" not in last.content
    assert b'data-ended="The experiment has ended' in last.content
    assert "HX-Trigger" not in last


def test_many_runs_are_not_counted_by_block_each_time(
    alive: Experiment, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment_parts, "MANY_VALUES", 3)
    reads = []
    read_stage = experiment_parts.read_stage
    monkeypatch.setattr(
        experiment_parts, "read_stage", lambda row: reads.append(row.pk) or read_stage(row)
    )
    reader = Reader(as_owner, alive)
    reads.clear()
    for _ in range(3):
        reader.fetch("live")
    assert len(reads) == 1
    alive.runs.filter(state=Run.State.PLANNED).update(state=Run.State.RUNNING)
    reader.fetch("live")
    assert len(reads) == 2


@pytest.mark.parametrize(
    "seen", ["x", ".", "0.", ".1", f"{'0' * 16}.{10**30}", "²." + "²" * 9, "x.-5", "0.1e9", "é.1"]
)
def test_an_odd_mark_is_behind(
    alive: Experiment, as_owner: Client, clock: list[float], seen: str
) -> None:
    reader = Reader(as_owner, alive)
    reader.seen = seen
    assert reader.is_behind()


def test_a_mark_from_the_future_is_behind(
    alive: Experiment, as_owner: Client, clock: list[float]
) -> None:
    reader = Reader(as_owner, alive)
    clock[0] -= 100
    assert reader.is_behind()


@pytest.mark.parametrize("tab", ["runs", "jobs", "plan", "events", "x"])
def test_the_parts_are_those_of_the_page(
    tab: str, alive: Experiment, as_owner: Client, clock: list[float]
) -> None:
    reader = Reader(as_owner, alive, f"?tab={tab}&sort=-state&page=1")
    page = BeautifulSoup(as_owner.get(reader.address).content, "html.parser")
    shown = page.select_one(f"#{DETAILS}")
    part = BeautifulSoup(reader.follow(), "html.parser").select_one(f"#{DETAILS}")
    for details in (shown, part):
        assert details
        del details["data-seen"]
        for token in details.select("[name=csrfmiddlewaretoken]"):
            token.decompose()
    assert part == shown
