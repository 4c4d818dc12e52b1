"""What is typed into the search of two things side by side stays, and the address follows it."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse
from playwright.sync_api import Page, Route, expect

from experiments.models import Snapshot
from tests.dashboard.conftest import Open, People, Site, measured
from tests.factories import SeriesFactory

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]


def make_two(name: str, site: Site, people: People) -> str:
    """Return the address of two experiments, or of two runs, side by side."""
    left, right = (measured(site, people.owner, blocks=1) for _ in range(2))
    facts = {"package numpy": "2.4.6", "package scipy": "1.17"}
    for row in (left, right):
        snapshot = Snapshot.objects.keep({"inside": {"hostname": str(row.pk)}})
        Snapshot.objects.filter(pk=snapshot.pk).update(facts=facts)
        row.runs.update(snapshot=snapshot)
    if name == "two_experiments":
        return reverse(name, args=[left.pk, right.pk])
    first, second = left.runs.order_by("position")
    for number in range(8):
        SeriesFactory(run=first, metric=f"layer_{number}", unit="1", values=[1.0, 2.0])
    return reverse(name, args=[first.uid, second.uid])


@pytest.mark.parametrize("name", ["two_experiments", "two_runs"])
def test_what_is_typed_while_the_answer_comes_stays(
    name: str, page: Page, open_page: Open, site: Site, people: People
) -> None:
    address = make_two(name, site, people)
    open_page(address)
    field = page.get_by_label("Search the facts")

    def type_on(route: Route) -> None:
        """Have two more letters in the field before the answer to the first three arrives."""
        field.evaluate("field => { field.value = 'numpy' }")
        route.continue_()

    page.route(re.compile(r"[?&]find=num(&|$)"), type_on)
    field.press_sequentially("num")
    expect(page.locator("#facts-found")).to_contain_text("package numpy")
    expect(page.locator("#facts-found")).not_to_contain_text("package scipy")
    expect(field).to_have_value("numpy")
    expect(field).to_be_focused()
    field.press("Enter")
    expect(page).to_have_url(re.compile(r"[?&]find=numpy(&|$)"))
    page.reload()
    expect(field).to_have_value("numpy")
    expect(page.locator("#facts-found")).not_to_contain_text("package scipy")


def test_a_series_is_chosen_beside_a_search_and_both_stay_in_the_address(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    open_page(make_two("two_runs", site, people))
    expect(page.locator("#series figure.printed")).to_have_count(1)
    expect(page.locator("#series [data-chart]")).to_have_count(6)
    assert not page.evaluate("'Plotly' in window"), "it is fetched where a chart is opened"
    page.get_by_text("Interactive chart: layer 0").click()
    expect(page.locator("#series [data-drawn]")).to_have_count(1)
    page.locator("[data-chart=curve-0]").evaluate("chart => { chart.dataset.seen = 'yes' }")
    page.get_by_label("Search the facts").press_sequentially("numpy")
    expect(page.locator("#facts-found")).not_to_contain_text("package scipy")
    expect(page.locator("[data-seen]")).to_have_count(1)  # no chart was drawn again
    choice = page.get_by_label("Series inside the runs")
    choice.focus()
    choice.select_option("layer_7")
    expect(page.locator("#series [data-chart]")).to_have_count(1)
    expect(choice).to_be_focused()
    expect(page).to_have_url(re.compile(r"series=layer_7"))
    expect(page).to_have_url(re.compile(r"find=numpy"))
    page.reload()
    expect(choice).to_have_value("layer_7")
    expect(page.get_by_label("Search the facts")).to_have_value("numpy")
