"""A page that follows a large experiment shows what was computed last, and says so."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse

from experiments.comparisons import keep_comparison, kept
from experiments.models import Experiment, KeptComparison, Run
from experiments.models.database_time import database_now
from tests.dashboard.conftest import People, Site, measured
from tests.factories import JobFactory, RunFactory, link_to

pytestmark = pytest.mark.django_db
HTMX = {"hx-request": "true"}
MOST_BYTES = 10_000
"""Of what is sent at every run."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    pks: list[int] = []
    monkeypatch.setattr(kept, "enqueue_keep", pks.append)
    return pks


@pytest.fixture
def slow(site: Site, people: People, asked: list[int]) -> Experiment:
    """A live experiment, kept, of which computing took two seconds."""
    made = measured(site, people.owner, scales=["1x1", "1x2"])
    for repeat in (6, 7):
        RunFactory(job=JobFactory(experiment=made, repeat=repeat), state=Run.State.RUNNING)
    assert keep_comparison(made.pk) == "kept"
    KeptComparison.objects.update(seconds=2.0)
    return made


def end_one(experiment: Experiment) -> None:
    run = experiment.runs.filter(state=Run.State.RUNNING).earliest("pk")
    Run.objects.filter(pk=run.pk).update(state=Run.State.FAILED)


def open_page(client: Client, experiment: Experiment, query: str = "") -> BeautifulSoup:
    response = client.get(reverse("comparison", args=[experiment.pk]) + query)
    assert response.status_code == 200
    return BeautifulSoup(response.content, "html.parser")


def ask(client: Client, page: BeautifulSoup) -> Any:
    """Ask for the live part as the page does, and put the answer into it."""
    (live,) = page.select("#live")
    response = client.get(str(live["hx-get"]), headers=HTMX)
    if response.content:
        live.replace_with(BeautifulSoup(response.content, "html.parser"))
    return response


@pytest.fixture
def never_computed(slow: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(experiment: Experiment) -> Any:
        raise AssertionError("No page computes this.")

    monkeypatch.setattr(kept, "compare_experiment", refuse)


def test_nothing_is_said_where_the_numbers_are_of_now(slow: Experiment, as_owner: Client) -> None:
    (note,) = open_page(as_owner, slow).select(".how-new")
    assert "20 of 22 runs have ended; the table follows them." in " ".join(note.text.split())


@pytest.mark.parametrize("query", ["", "?section=all", "?section=full_results", "?section=runs"])
def test_what_is_not_counted_yet_is_said(
    query: str, slow: Experiment, as_owner: Client, never_computed: None
) -> None:
    end_one(slow)
    (note,) = open_page(as_owner, slow, query).select(".how-new")
    text = " ".join(note.text.split())
    assert "from 20 of 22 runs; it takes 2.0 s." in text
    assert "Newer runs are counted after" in text


def test_the_table_is_fetched_only_when_it_is_another_one(
    slow: Experiment, as_owner: Client, never_computed: None, asked: list[int]
) -> None:
    page = open_page(as_owner, slow)
    end_one(slow)
    answer = ask(as_owner, page)
    assert answer.status_code == 200
    assert "HX-Trigger" not in answer
    assert b"verdict-matrix" not in answer.content
    assert len(answer.content) < MOST_BYTES
    assert ask(as_owner, page).status_code == 204
    assert asked == []
    # The time has come: whoever looks asks, and says that it is under way.
    KeptComparison.objects.update(kept_at=database_now() - timedelta(seconds=101))
    assert "as soon as a worker is free" in ask(as_owner, page).content.decode()
    assert ask(as_owner, page).status_code == 204
    assert asked == [slow.pk] * 2


def test_when_a_worker_has_counted_the_table_is_fetched(slow: Experiment, as_owner: Client) -> None:
    page = open_page(as_owner, slow)
    end_one(slow)
    ask(as_owner, page)
    KeptComparison.objects.update(kept_at=database_now() - timedelta(seconds=101))
    assert keep_comparison(slow.pk) == "kept"
    KeptComparison.objects.update(seconds=2.0)
    assert ask(as_owner, page)["HX-Trigger"] == "newer-numbers"
    assert "21 of 22 runs have ended" in page.text
    assert ask(as_owner, page).status_code == 204


def test_it_is_followed_until_the_last_run_is_counted(
    slow: Experiment, as_owner: Client, asked: list[int]
) -> None:
    page = open_page(as_owner, slow)
    end_one(slow)
    end_one(slow)
    ask(as_owner, page)
    (live,) = page.select("#live")
    assert not live.has_attr("data-ended")
    assert asked == [slow.pk]
    assert keep_comparison(slow.pk) == "kept"
    assert ask(as_owner, page)["HX-Trigger"] == "newer-numbers"
    (live,) = page.select("#live")
    assert live.has_attr("data-ended")
    assert not live.has_attr("hx-get")
    assert not page.select(".how-new")


def test_a_failure_is_said_and_why_only_to_members(
    slow: Experiment, as_owner: Client, client: Client
) -> None:
    end_one(slow)
    KeptComparison.objects.update(
        failed_at=database_now(), failed_key="x", problem="ValueError: <script>at /srv/tare"
    )
    page = open_page(as_owner, slow)
    assert "Computing it anew failed" in page.text
    assert "ValueError: <script>at /srv/tare" in page.text
    assert not page.select("#live script")
    client.get(link_to(slow))
    page = open_page(client, slow)
    assert "Computing it anew failed" in page.text
    assert "ValueError" not in page.text


@pytest.mark.parametrize("part", ["live", "numbers", "x", ""])
@pytest.mark.parametrize("shown", ["", "~~~", "empty-", "empty-~", "x" * 5_000, "\ud800"])
def test_odd_addresses_are_no_error(
    part: str, shown: str, slow: Experiment, as_owner: Client
) -> None:
    end_one(slow)
    address = reverse("comparison", args=[slow.pk])
    query = {"part": part, "shown": shown.encode("utf-8", "replace").decode()}
    assert as_owner.get(address, query, headers=HTMX).status_code in (200, 204)
    assert as_owner.get(address, query).status_code == 200
