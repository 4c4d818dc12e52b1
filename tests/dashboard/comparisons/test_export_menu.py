"""The menu of exports: everything that can be taken away stands in it, once, and is there."""

from __future__ import annotations

import pytest
from bs4 import BeautifulSoup, Tag
from django.test import Client
from django.urls import reverse

from dashboard.comparisons import bundle_files, report_figures
from experiments.models import Experiment, Run
from tests.dashboard.access.test_links import link_to, visitor
from tests.dashboard.comparisons.recorded_figures import record_figures
from tests.dashboard.conftest import People, Site, fetch, measured
from tests.factories import ExperimentFactory, PublishedTableFactory

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


def read_menu(client: Client, address: str, **headers: str) -> Tag:
    page = BeautifulSoup(client.get(address, headers=headers).content, "html.parser")
    (menu,) = page.select("#export")
    return menu


def list_links(menu: Tag) -> dict[str, str]:
    return {str(link["aria-label"]): str(link["href"]) for link in menu.select("td a")}


@pytest.fixture(autouse=True)
def not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are drawn in test_forest_figure.py."""
    record_figures(monkeypatch)
    for module in (report_figures, bundle_files):
        monkeypatch.setattr(module, "draw", lambda *_, **__: b"drawn")


@pytest.mark.parametrize("page", ["comparison", "experiment"])
def test_each_file_is_there_and_the_menu_opens_without_scripts(
    page: str, results: Experiment, as_owner: Client
) -> None:
    menu = read_menu(as_owner, reverse(page, args=[results.pk]))
    assert menu.name == "details"
    assert menu.summary is not None
    assert menu.summary.get_text() == "Export"
    links = list_links(menu)
    assert {name.partition(",")[0] for name in links} == {
        "Report",
        "Print",
        "Comparison",
        "Forest plot",
        "All runs",
        "Blocks",
        "Run order",
        "Equivalence curves",
        "Ratios as bars",
        "Components of variance",
        "Runs",
        "Measurements",
        "Steps",
        "Bundle",
        "Provenance",
        "Checklist",
        *("Experiment file", "Bencher", "pytest-benchmark"),
    }
    assert len(set(links.values())) == len(links)
    for address in links.values():
        assert fetch(as_owner, address), address
    about = [row.get_text() for row in menu.select("th[scope=row] .muted")]
    assert all(about)
    assert len(about) == len(menu.select("th[scope=row]"))


def test_a_table_and_a_visitor_have_theirs(
    results: Experiment, people: People, as_owner: Client
) -> None:
    row = PublishedTableFactory(owner=people.owner)
    links = list_links(read_menu(as_owner, reverse("table", args=[row.pk])))
    assert {name.partition(",")[0] for name in links} == {
        "Report",
        "Print",
        "Comparison",
        "Forest plot",
        "Equivalence curves",
        "Scaling",
        "Ratios as bars",
        "The table as given",
    }
    for address in links.values():
        assert fetch(as_owner, address), address
    blind = visitor(link_to(results, hides_names=True))
    links = list_links(read_menu(blind, reverse("comparison", args=[results.pk])))
    assert "Bundle, ZIP" not in links
    client = visitor(link_to(results))
    for address in list_links(read_menu(client, reverse("comparison", args=[results.pk]))).values():
        assert fetch(client, address), address


def test_what_is_not_there_yet_is_not_offered(
    results: Experiment, site: Site, people: People, as_owner: Client
) -> None:
    draft = ExperimentFactory(owner=people.owner, cluster=site.cluster)
    links = list_links(read_menu(as_owner, reverse("experiment", args=[draft.pk])))
    assert {name.partition(",")[0] for name in links} == {"Experiment file"}
    failed = measured(site, people.owner, blocks=1)
    failed.runs.update(state=Run.State.FAILED)
    links = list_links(read_menu(as_owner, reverse("experiment", args=[failed.pk])))
    assert {name.partition(",")[0] for name in links} == {
        *("Runs", "Measurements", "Steps", "Experiment file")
    }
    assert b'id="export"' not in as_owner.get(reverse("comparison", args=[failed.pk])).content
    waiting = results.runs.order_by("-pk")[0]
    Run.objects.filter(pk=waiting.pk).update(state=Run.State.RUNNING)
    links = list_links(read_menu(as_owner, reverse("comparison", args=[results.pk])))
    assert "Comparison, CSV" in links
    assert "Bundle, ZIP" not in links
    assert not any(name.startswith("Forest") for name in links), "no verdict, no forest plot"


@pytest.mark.parametrize(("page", "query"), [("comparison", "?part=live"), ("experiment", "")])
def test_a_live_part_leaves_the_menu_of_its_page_alone(
    page: str, query: str, results: Experiment, as_owner: Client
) -> None:
    """It is not sent again every few seconds, and stays as it is, open or closed."""
    Run.objects.filter(pk=results.runs.order_by("-pk")[0].pk).update(state=Run.State.RUNNING)
    address = reverse(page, args=[results.pk]) + query
    menu = BeautifulSoup(as_owner.get(address, headers=HTMX).content, "html.parser").select_one(
        "#export"
    )
    assert menu is not None
    assert menu.has_attr("hx-preserve")
    assert not menu.find()


def test_the_section_that_it_replaces_opens_the_menu(results: Experiment, as_owner: Client) -> None:
    address = reverse("comparison", args=[results.pk])
    assert not read_menu(as_owner, address).has_attr("open")
    assert read_menu(as_owner, f"{address}?section=export").has_attr("open")


def test_lists_have_the_same_button(results: Experiment, as_owner: Client) -> None:
    for name in ("runs", "experiments"):
        page = BeautifulSoup(as_owner.get(reverse(name) + "?q=cost&page=1").content, "html.parser")
        (menu,) = [menu for menu in page.select("details.menu") if menu.summary.text == "Export"]
        assert [link["href"] for link in menu.select("a")] == [
            f"/{name}.csv?q=cost",
            f"/{name}.parquet?q=cost",
        ]
