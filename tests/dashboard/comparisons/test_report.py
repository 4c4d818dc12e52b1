"""The comparison as one report: what is always seen, and sections that are sent when opened."""

from __future__ import annotations

import re

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse

from experiments.models import Experiment, Run
from tests.dashboard.conftest import People, Site, measured
from tests.dashboard.published_tables import TABLE_3
from tests.factories import JobFactory, PublishedTableFactory, RunFactory, link_to

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}
ODD = ["", "none", "RUNS", "runs ", "<b>", "x" * 5_000, "\ufffd", "9" * 5_000, "-1", "0", "1.5"]


@pytest.fixture
def several(site: Site, people: People) -> Experiment:
    return measured(site, people.owner, scales=[f"1x{gpus}" for gpus in range(1, 7)])


def address_of(experiment: Experiment, query: str = "") -> str:
    return reverse("comparison", args=[experiment.pk]) + query


def soup(client: Client, address: str, **headers: str) -> BeautifulSoup:
    answer = client.get(address, headers=headers)
    assert answer.status_code == 200
    return BeautifulSoup(answer.content, "html.parser")


def drawn(page: BeautifulSoup) -> list[str]:
    return [str(plot["data-chart"]) for plot in page.select("[data-chart]")]


def test_the_matrix_is_always_seen_and_leads_to_each_configuration(
    several: Experiment, as_owner: Client
) -> None:
    for query in ("", "?section=methods", "?section=all"):
        page = soup(as_owner, address_of(several, query))
        assert len(page.select(".verdict-matrix tbody tr")) == 6
        assert len(page.select(".verdict-matrix .cell .verdict-slower")) == 6
        answer = page.select_one(".answer")
        assert answer
        assert "slower than bare metal in all 6 configurations" in answer.get_text()
    link = page.select(".verdict-matrix .cell a")[4]
    detail = soup(as_owner, str(link["href"]))
    section = detail.select_one("#section")
    assert section
    assert [name.get_text() for name in section.select("option[selected]")] == ["blas small, 1x5"]
    assert section.get_text().count("slower than bare metal") == 1


def test_only_the_open_section_is_sent(results: Experiment, as_owner: Client) -> None:
    page = soup(as_owner, address_of(results))
    names = [str(link["id"]).removeprefix("section-") for link in page.select("nav a[id]")]
    assert names == [
        "runs",
        "verdicts",
        "blocks",
        "run_order",
        "equivalence",
        "variance",
        "bars",
        "full_results",
        "sides",
        "facts",
        "robustness",
        "methods",
    ]
    assert drawn(page) == ["forest", "strip-0"]
    assert "<h2>Methods</h2>" not in str(page)
    for name in names:
        fragment = as_owner.get(address_of(results, f"?section={name}"), headers=HTMX)
        text = fragment.content.decode()
        assert "<html" not in text
        assert "verdict-matrix" not in text
        part = BeautifulSoup(text, "html.parser")
        (current,) = part.select("a[aria-current]")
        assert current["id"] == f"section-{name}"
        whole = soup(as_owner, str(current["href"]))
        assert whole.select_one("html"), "it is a page without JavaScript too"
        (section,) = part.select("#section")
        assert section.select_one("h2")


def test_of_several_configurations_one_is_drawn_until_all_are_asked_for(
    several: Experiment, as_owner: Client
) -> None:
    page = soup(as_owner, address_of(several, "?section=run_order&configuration=3"))
    assert drawn(page) == ["forest", "order-2"]
    runs = page.select_one("#section-runs")
    assert runs
    assert "configuration=3" in str(runs["href"]), "the choice stays in the other sections"
    page = soup(as_owner, address_of(several, "?section=run_order&configuration=all"))
    assert len(drawn(page)) == 7
    page = soup(as_owner, address_of(several, "?section=all"))
    assert len(drawn(page)) == 4 * 6 + 4, "four of each, forest, bars, scaling and efficiency"


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_address_shows_what_there_is(
    odd: str, results: Experiment, as_owner: Client
) -> None:
    asked = dict.fromkeys(("section", "configuration", "part", "shown", "scaling"), odd)
    for headers in ({}, HTMX):
        assert as_owner.get(address_of(results), asked, headers=headers).status_code == 200


def test_a_configuration_that_is_not_there_is_the_first_one(
    several: Experiment, as_owner: Client
) -> None:
    for number in ("0", "7", "-1", "x"):
        page = soup(as_owner, address_of(several, f"?section=runs&configuration={number}"))
        assert drawn(page) == ["forest", "strip-0"]


def test_going_back_in_the_browser_shows_the_whole_page(
    results: Experiment, as_owner: Client
) -> None:
    headers = HTMX | {"HX-History-Restore-Request": "true"}
    answer = as_owner.get(address_of(results, "?section=methods"), headers=headers)
    assert "<html" in answer.content.decode()


def test_a_published_table_and_a_referee_have_the_same_page(
    several: Experiment, people: People, as_owner: Client
) -> None:
    row = PublishedTableFactory(owner=people.owner, text=TABLE_3, baseline="baremetal")
    for query in ("", "?section=all", "?section=table_text", "?section=scaling&scaling=strong"):
        page = soup(as_owner, row.get_absolute_url() + query)
        assert len(page.select(".verdict-matrix tbody tr")) == 3
    part = as_owner.get(row.get_absolute_url() + "?section=methods", headers=HTMX)
    assert "<html" not in part.content.decode()
    assert "efficiency-0" in str(soup(as_owner, row.get_absolute_url() + "?scaling=strong"))
    referee = Client()
    referee.get(link_to(several))
    for query in ("", "?section=all", "?section=run_order&configuration=2"):
        assert len(soup(referee, address_of(several, query)).select(".cell")) == 6


def test_while_runs_live_the_matrix_follows_them_and_is_not_sent_twice(
    several: Experiment, as_owner: Client
) -> None:
    run = RunFactory(job=JobFactory(experiment=several, repeat=6), state=Run.State.RUNNING)
    page = soup(as_owner, address_of(several))
    live, table = page.select("[data-live]")
    address = str(live["hx-get"])
    again = as_owner.get(address, headers=HTMX)
    assert (again.status_code, again.content) == (204, b"")
    Run.objects.filter(pk=run.pk).update(state=Run.State.FAILED)
    ended = as_owner.get(address, headers=HTMX)
    assert ended["HX-Trigger"] in str(table["hx-trigger"])
    assert "data-live" not in ended.content.decode()
    assert "verdict-matrix" not in ended.content.decode()
    numbers = as_owner.get(str(table["hx-get"]), headers=HTMX).content.decode()
    assert "verdict-matrix" in numbers
    assert "data-chart" not in numbers
    assert "data-live" not in numbers
    assert 'id="sections"' not in numbers


def test_a_page_without_numbers_loads_itself_when_there_are_some(
    site: Site, people: People, as_owner: Client
) -> None:
    made = measured(site, people.owner, blocks=0)
    run = RunFactory(job=JobFactory(experiment=made, repeat=1), state=Run.State.RUNNING)
    (live,) = soup(as_owner, address_of(made)).select("[data-live]")
    address = str(live["hx-get"])
    assert as_owner.get(address, headers=HTMX).status_code == 204
    Run.objects.filter(pk=run.pk).update(state=Run.State.FAILED)
    assert "HX-Refresh" not in as_owner.get(address, headers=HTMX)
    RunFactory(
        job=JobFactory(experiment=made, repeat=2),
        environment=site.bare,
        values={"step_time": 0.02},
    )
    assert as_owner.get(address, headers=HTMX)["HX-Refresh"] == "true"


def test_no_name_is_shown_as_markup(site: Site, people: People, as_owner: Client) -> None:
    site.container.name = "<script>x</script>"
    site.container.save(update_fields=["name"])
    made = measured(site, people.owner, scales=["1x1", "1x2"])
    for query in ("", "?section=all"):
        text = as_owner.get(address_of(made, query)).content.decode()
        assert not re.search(r"<script>x", text)
