"""The forest plot of a comparison as files: who gets them, and what the page has beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from bs4 import BeautifulSoup
from django.test import Client, RequestFactory
from django.urls import reverse

from dashboard.access.visitors import Visitor
from dashboard.comparisons import figure_views, forest_figure
from dashboard.comparisons.figure_panels import ForestPlot
from dashboard.comparisons.forest_figure import describe_comparison
from dashboard.drawings import drawing_process
from dashboard.drawings.drawing_process import NotDrawn
from dashboard.drawings.forest import Forest
from dashboard.drawings.forest_json import write_forest
from dashboard.drawings.forest_pages import estimate_heights
from dashboard.drawings.turns import Turns
from dashboard.typed_requests import OpenRequest
from experiments.comparisons import compare_experiment
from experiments.models import Experiment, ShareLink
from tests.dashboard.access.test_links import link_to, visitor
from tests.dashboard.comparisons.recorded_figures import record_figures
from tests.dashboard.conftest import People, show_all_sections
from tests.dashboard.drawings.examples import describe, make_pairs
from tests.dashboard.published_tables import TABLE_3
from tests.factories import PublishedTableFactory

pytestmark = pytest.mark.django_db
KINDS = {"svg": "image/svg+xml", "png": "image/png", "pdf": "application/pdf"}


@pytest.fixture
def drawn(monkeypatch) -> list[tuple[Forest, dict[str, Any]]]:
    """Return what is drawn; nothing is, so that no test waits for it."""
    return record_figures(monkeypatch)


def address_of(experiment: Experiment, ending: str = "svg") -> str:
    return reverse(f"forest_{ending}", args=[experiment.pk])


def test_the_description_has_the_numbers_of_the_page(results: Experiment) -> None:
    comparison = compare_experiment(results)
    forest = describe_comparison(comparison)
    assert forest
    (row,), (pair,) = forest.rows, comparison.pairs
    assert (row.ratio, row.thick, row.thin) == (pair.ratio, pair.ci90, pair.ci95)
    assert forest.axis_title == "Time per step, ratio to bare metal (log)"
    assert row.group == "blas small, 1x1"
    assert row.nodes_text == str(
        len(set(results.runs.values_list("node", flat=True)) - {""}) or "–"
    )


@pytest.mark.parametrize("ending", KINDS)
def test_a_figure_has_an_address_for_each_kind_of_file(
    ending: str, results: Experiment, as_owner: Client, drawn: list[Any]
) -> None:
    answer = as_owner.get(address_of(results, ending), {"width": "88", "theme": "grey"})
    assert (answer.status_code, answer.content) == (200, b"a figure")
    assert answer["Content-Type"] == KINDS[ending]
    assert answer["Content-Disposition"].startswith("inline; filename=")
    assert answer["Content-Disposition"].endswith(f'-forest-88mm.{ending}"')
    page = 0 if ending == "pdf" else 1
    named = {"width": 88, "theme": "grey", "ending": ending, "page": page}
    assert drawn[0][1] == named | {"is_visitor": False}
    kept = as_owner.get(address_of(results, ending) + "?download")
    assert kept["Content-Disposition"].startswith("attachment; ")


@pytest.mark.parametrize(
    "query",
    [
        {"width": "89"},
        {"width": ""},
        {"width": "٨٨"},
        {"theme": "pink"},
        {"theme": "../dark"},
        {"page": "-1"},
        {"page": "1e3"},
        {"page": "²"},
        {"page": "9999"},
        {"page": "2"},
        {"page": "0"},
    ],
)
def test_there_are_no_other_figures(
    query: dict[str, str], results: Experiment, as_owner: Client, drawn: list[Any]
) -> None:
    for ending in KINDS:
        if (ending, query.get("page")) != ("pdf", "0"):
            assert as_owner.get(address_of(results, ending), query).status_code == 404
    assert drawn == [], "no process starts for them"


def test_where_too_many_are_drawn_the_answer_says_when_to_come_again(
    results: Experiment, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing_process, "turns", Turns(at_once=0, for_visitors=0, waiting=0))
    monkeypatch.setattr(drawing_process, "_find_kept", lambda key: None)
    answer = as_owner.get(address_of(results))
    assert (answer.status_code, answer["Retry-After"]) == (503, "3")
    assert answer["Content-Type"].startswith("text/plain"), (
        "so that a picture fails, and asks again"
    )
    assert "Too many figures" in answer.content.decode()


def test_figures_of_visitors_are_drawn_as_theirs(results: Experiment, drawn: list[Any]) -> None:
    visitor(link_to(results)).get(address_of(results))
    assert drawn[0][1]["is_visitor"]


def test_nothing_is_drawn_where_nothing_is_compared(
    results: Experiment, as_owner: Client, drawn: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert describe_comparison(replace(compare_experiment(results), groups=[])) is None
    monkeypatch.setattr(figure_views, "describe_comparison", lambda comparison, hide: None)
    assert as_owner.get(address_of(results)).status_code == 404
    assert drawn == []


def test_who_may_not_see_the_comparison_does_not_see_its_figure(
    results: Experiment, people: People, drawn: list[Any]
) -> None:
    Experiment.objects.update(visibility="private")
    assert people.client("other").get(address_of(results)).status_code == 404
    assert people.client("anonymous").get(address_of(results)).status_code == 302
    assert visitor(link_to(results)).get(address_of(results)).status_code == 200


@pytest.mark.parametrize("ending", KINDS)
def test_a_link_that_hides_names_hides_them_in_pictures_too(
    ending: str, results: Experiment, people: People, drawn: list[Any]
) -> None:
    container = results.environments.get(name="Apptainer")
    container.name = "Apptainer of owner"
    container.save(update_fields=["name"])
    link: ShareLink = link_to(results, hides_names=True)
    answer = visitor(link).get(address_of(results, ending))
    assert (answer.status_code, answer.content) == (200, b"a figure")
    said = write_forest(drawn[0][0])
    assert "Apptainer of account-" in said
    assert "owner" not in said
    assert "owner" in write_forest(describe_comparison(compare_experiment(results)))  # type: ignore[arg-type]


def test_the_page_describes_to_each_reader_what_is_drawn_for_them(
    results: Experiment, people: People, drawn: list[Any], rf: RequestFactory
) -> None:
    """Else they would not have the same pages."""
    container = results.environments.get(name="Apptainer")
    container.name = "Apptainer\u200b of owner"
    container.save(update_fields=["name"])
    guest = visitor(link_to(results, hides_names=True))
    for user, client, name in (
        (people.owner, people.client("owner"), "Apptainer of owner"),
        (Visitor([ShareLink.objects.get().pk]), guest, "Apptainer of account-"),
    ):
        request = rf.get("/")
        request.user = user
        panel = ForestPlot().compute(compare_experiment(results), cast(OpenRequest, request))
        assert panel
        assert panel.described.rows[0].environment.startswith(name)
        client.get(address_of(results))
        assert drawn.pop()[0] == panel.described


@pytest.mark.parametrize("ending", KINDS)
@pytest.mark.parametrize("query", ["", "?download"])
def test_a_link_that_hides_names_hides_them_in_the_names_of_files(
    ending: str, query: str, results: Experiment, people: People, drawn: list[Any]
) -> None:
    results.question = "Is Müller's image slower? (owner)"
    results.save(update_fields=["question"])
    owner, guest = people.client("owner"), visitor(link_to(results, hides_names=True))
    named, hidden = (
        client.get(address_of(results, ending) + query)["Content-Disposition"]
        for client in (owner, guest)
    )
    assert "mullers-image-slower-owner" in named
    assert f'"tare-{results.pk}-forest-180mm.{ending}"' in hidden


def test_a_published_table_has_its_figure(
    people: People, as_owner: Client, drawn: list[Any]
) -> None:
    table = PublishedTableFactory(owner=people.owner, text=TABLE_3, baseline="baremetal")
    page = as_owner.get(reverse("table", args=[table.pk])).content.decode()
    address = reverse("table_forest_svg", args=[table.pk])
    assert f"{address}?width=180" in page
    assert as_owner.get(address).status_code == 200
    assert len(drawn[0][0].rows) >= 2


def test_the_page_has_the_picture_its_files_and_its_table(
    results: Experiment, as_owner: Client
) -> None:
    address = reverse("comparison", args=[results.pk])
    page = BeautifulSoup(as_owner.get(address).content, "html.parser")
    pictures = page.select(".chart-head + .printed img")
    assert [picture["src"] for picture in pictures] == [
        f"{address_of(results)}?width=180&theme={theme}&page=1" for theme in ("light", "dark")
    ]
    assert "1 comparison: 1 slower." in pictures[0]["alt"]
    assert {picture["loading"] for picture in pictures} == {"lazy"}, "no page waits for them"
    links = [link["href"] for link in page.select(".chart-head .exports a")]
    assert len(links) == 18
    assert f"{address_of(results, 'pdf')}?width=88&theme=grey&download" in links
    table = page.find(
        "caption", string=lambda text: "relative to bare metal" in (text or "")
    ).parent
    cells = [cell.get_text() for cell in table.select("tbody tr > *")]
    forest = describe_comparison(compare_experiment(results))
    assert forest
    assert cells[:10] == ["blas small, 1x1", "Apptainer", *forest.rows[0].numbers]
    assert "Slower" in cells
    assert all(head["scope"] for head in table.select("th"))


@pytest.fixture
def of_many_pages(monkeypatch: pytest.MonkeyPatch) -> int:
    """Make every comparison's figure one of several pages; return how many."""
    forest = describe(make_pairs(72))
    for module in (figure_views, forest_figure):
        monkeypatch.setattr(module, "describe_comparison", lambda comparison, hide=str: forest)
    assert len(estimate_heights(forest, 180)) == 2
    return len(estimate_heights(forest, 88))


def test_a_figure_of_several_pages_is_whole_as_pdf_and_has_links_for_each_page(
    results: Experiment, as_owner: Client, of_many_pages: int
) -> None:
    assert of_many_pages > 2
    address = show_all_sections(reverse("comparison", args=[results.pk]))
    page = BeautifulSoup(as_owner.get(address).content, "html.parser")
    links = [link["href"] for link in page.select(".chart-head .exports a")]
    assert len(links) == 6, "of both widths the PDF alone"
    svg, png, pdf = (address_of(results, ending) for ending in KINDS)
    assert {link.partition("?")[0] for link in links} == {pdf}
    assert [link["href"] for link in page.select(".printed p a")] == [
        f"{file}?{width}page={number}&download"
        for number in range(1, of_many_pages + 1)
        for width in (*([""] if number <= 2 else []), "width=88&")
        for file in (svg, png)
    ]
    whole = [link["href"] for link in page.select("#export a")]
    assert pdf in whole
    assert not {svg, png} & set(whole)


def test_the_file_of_a_page_says_which_one_it_is(
    results: Experiment, as_owner: Client, drawn: list[Any], of_many_pages: int
) -> None:
    for ending, page, part in (
        ("svg", "", "-page-1-of-2"),
        ("png", "?page=2", "-page-2-of-2"),
        ("pdf", "?page=2", "-page-2-of-2"),
        ("pdf", "", ""),
    ):
        answer = as_owner.get(address_of(results, ending) + page)
        assert answer["Content-Disposition"].endswith(f'-forest-180mm{part}.{ending}"')


def test_where_it_cannot_be_drawn_the_page_works_and_the_picture_says_so(
    results: Experiment, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **options: Any) -> bytes:
        raise NotDrawn("The program ended. <b>")

    monkeypatch.setattr(figure_views, "find_drawn", fail)
    for ending in ("svg", "png", "pdf"):
        answer = as_owner.get(address_of(results, ending))
        assert answer.status_code == 503
        assert answer["Content-Type"].startswith("text/plain"), "so that its page says it"
        assert "Retry-After" not in answer, "nobody asks again by themselves"
        assert "could not be drawn. The program ended. <b>" in answer.content.decode()
        link = as_owner.get(address_of(results, ending), {"download": ""})
        assert link.status_code == 503
        page = BeautifulSoup(link.content, "html.parser")
        assert "The program ended. <b>" in page.text
        (again,) = page.select("main a.btn")
        assert again["href"] == f"{address_of(results, ending)}?download=&again=1"
    page = as_owner.get(reverse("comparison", args=[results.pk]))
    assert page.status_code == 200
    assert "SLOWER" in page.content.decode()


def test_a_program_that_takes_too_long_is_ended_and_the_comparison_still_works(
    results: Experiment, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing_process, "SECONDS", 0.01)
    monkeypatch.setattr(drawing_process, "_find_kept", lambda key: None)
    answer = as_owner.get(address_of(results))
    assert answer.status_code == 503
    assert "took more than 0.01 s" in answer.content.decode()
    assert as_owner.get(reverse("comparison", args=[results.pk])).status_code == 200
