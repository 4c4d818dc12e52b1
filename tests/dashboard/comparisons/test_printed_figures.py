"""All figures of a comparison have files: beside the figure, in the menu, and by address."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse

from dashboard.comparisons import figure_views
from dashboard.comparisons.figure_files import list_printed_figures
from dashboard.comparisons.panels import list_panels
from dashboard.comparisons.printed_figures import FIGURES
from dashboard.drawings.axes_figure import AxesFigure
from dashboard.drawings.axes_json import write_axes_figure
from experiments.comparisons.experiment_comparison import compare_experiment
from experiments.models import Experiment
from tests.dashboard.access.test_links import link_to, visitor
from tests.dashboard.comparisons.recorded_figures import record_figures
from tests.dashboard.conftest import People
from tests.factories import PublishedTableFactory

pytestmark = pytest.mark.django_db
HERE = {
    *("runs", "blocks", "run_order", "equivalence", "steps", "anatomy", "bars", "robustness"),
    "variance",
}
"""The figures of an experiment of one configuration."""


@pytest.fixture
def drawn(monkeypatch) -> list[tuple[AxesFigure, dict[str, Any]]]:
    """Return what is drawn; nothing is, so that no test waits for it."""
    return record_figures(monkeypatch)


def address_of(experiment: Experiment, name: str, ending: str = "svg") -> str:
    return reverse(f"figure_{ending}", args=[experiment.pk, name])


def test_each_figure_belongs_to_a_section(results: Experiment) -> None:
    names = {panel.name for panel in list_panels(compare_experiment(results))}
    assert set(FIGURES) <= names


def test_each_figure_that_is_offered_has_its_files(
    results: Experiment, as_owner: Client, drawn: list[Any]
) -> None:
    offered = {kind.name for kind in list_printed_figures(compare_experiment(results))}
    assert offered <= HERE
    for name in offered:
        for ending in ("pdf", "svg", "png"):
            answer = as_owner.get(address_of(results, name, ending), {"width": "88"})
            assert (answer.status_code, answer.content) == (200, b"a figure"), name
            file = f"-{name.replace('_', '-')}-88mm.{ending}"
            assert answer["Content-Disposition"].endswith(f'{file}"')
            assert drawn[-1][1]["width"] == 88
            assert drawn[-1][0].panels
    for name in (set(FIGURES) - offered) | {"no_such"}:
        assert as_owner.get(address_of(results, name)).status_code == 404, name


def test_a_figure_is_drawn_by_the_same_program(results: Experiment, as_owner: Client) -> None:
    answer = as_owner.get(address_of(results, "runs"), {"theme": "dark"})
    assert answer["Content-Type"] == "image/svg+xml"
    assert b"<title>All runs by environment</title>" in answer.content


@pytest.mark.parametrize(
    "query", [{"width": "89"}, {"theme": "pink"}, {"page": "2"}, {"page": "0"}, {"page": "x"}]
)
def test_there_are_no_other_figures(
    query: dict[str, str], results: Experiment, as_owner: Client, drawn: list[Any]
) -> None:
    assert as_owner.get(address_of(results, "runs"), query).status_code == 404
    assert drawn == []


def test_the_forest_plot_has_both_addresses(
    results: Experiment, as_owner: Client, drawn: list[Any]
) -> None:
    for address in (address_of(results, "forest"), reverse("forest_svg", args=[results.pk])):
        assert as_owner.get(address).status_code == 200
    assert drawn[0] == drawn[1]


def test_a_section_has_the_files_of_its_figure(results: Experiment, as_owner: Client) -> None:
    address = reverse("comparison", args=[results.pk])
    page = BeautifulSoup(as_owner.get(address, {"section": "runs"}).content, "html.parser")
    links = [link["href"] for link in page.select("#section .exports a")]
    assert len(links) == 18
    assert f"{address_of(results, 'runs', 'pdf')}?width=88&theme=grey&download" in links
    (light, dark) = page.select("#section figure.printed img")
    assert "theme=light" in light["src"]
    assert "theme=dark" in dark["src"]
    chart = page.select_one("#section [data-chart]")
    assert chart
    assert chart.find_parent("details"), "the picture is shown first"
    page = BeautifulSoup(as_owner.get(address, {"section": "methods"}).content, "html.parser")
    assert page.select("#section .exports a") == []


def test_one_configuration_of_several_is_chosen_by_its_number(
    results: Experiment, as_owner: Client, drawn: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison = compare_experiment(results)
    (group,) = comparison.groups
    second = replace(group, configuration={"workload": "another", "scale": "2x1"})
    several = replace(comparison, groups=[group, second])
    monkeypatch.setattr(figure_views, "_read_shown", lambda row, latest: several)
    for query, titles in (
        ({}, [group.name, second.name]),
        ({"configuration": "2"}, [second.name]),
        ({"configuration": "99"}, [group.name, second.name]),
        ({"configuration": "all"}, [group.name, second.name]),
    ):
        as_owner.get(address_of(results, "runs"), query)
        assert [panel.title for panel in drawn[-1][0].panels] == titles


def test_who_may_not_see_the_comparison_does_not_see_its_figures(
    results: Experiment, people: People, drawn: list[Any]
) -> None:
    Experiment.objects.update(visibility="private")
    assert people.client("other").get(address_of(results, "runs")).status_code == 404
    assert people.client("anonymous").get(address_of(results, "runs")).status_code == 302
    assert visitor(link_to(results)).get(address_of(results, "runs")).status_code == 200
    assert drawn[0][1]["is_visitor"]


def test_a_link_that_hides_names_hides_them_in_all_figures(
    results: Experiment, drawn: list[Any]
) -> None:
    container = results.environments.get(name="Apptainer")
    container.name = "Apptainer of owner"
    container.save(update_fields=["name"])
    client = visitor(link_to(results, hides_names=True))
    for name in ("runs", "run_order", "blocks", "bars"):
        answer = client.get(address_of(results, name))
        assert answer.status_code == 200
        text = write_axes_figure(drawn[-1][0])
        assert "Apptainer of account-" in text, name
        assert "owner" not in text, name


def test_a_published_table_has_the_figures_of_its_numbers(
    people: People, as_owner: Client, drawn: list[Any]
) -> None:
    row = PublishedTableFactory(owner=people.owner)
    assert as_owner.get(reverse("table_figure_pdf", args=[row.pk, "bars"])).status_code == 200
    for name in ("steps", "anatomy"):
        assert as_owner.get(reverse("table_figure_pdf", args=[row.pk, name])).status_code == 404
