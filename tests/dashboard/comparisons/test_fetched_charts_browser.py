"""Charts that are too large for their page are fetched when somebody opens them."""

from __future__ import annotations

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from dashboard.comparisons import step_views
from tests.dashboard.comparisons.test_steps import trained
from tests.dashboard.conftest import Open, People, Site

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_chart_and_its_table_are_fetched_and_a_failure_is_said_and_mended(
    page: Page, open_page: Open, site: Site, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_views, "MOST_CARRIED", 3)
    made = trained(site, people, scales=("1x1",))
    fetched: list[str] = []
    page.on("request", lambda request: "chart=" in request.url and fetched.append(request.url))
    open_page(reverse("comparison_steps", args=[made.pk]))
    assert fetched == []

    page.get_by_text("Table: loss").click()
    table = page.get_by_role("group", name="Table of the chart").locator("table:visible")
    expect(table.locator("tbody tr")).to_have_count(6 * 4 + 2 * 4)
    page.get_by_text("Interactive chart: loss").click()
    drawn = page.locator("[data-chart^=losses] .main-svg").first
    expect(drawn).to_be_visible(timeout=30_000)
    assert len(fetched) == 1, "once for both"

    page.route("**/*chart=accuracy*", lambda route: route.fulfill(status=503))
    fold = page.get_by_text("Interactive chart: accuracy")
    fold.click()
    note = page.get_by_text("The numbers of this chart could not be fetched.")
    expect(note).to_be_visible()
    page.unroute("**/*chart=accuracy*")
    fold.click()
    fold.click()
    expect(page.locator("[data-chart^=accuracy] .main-svg").first).to_be_visible()
    expect(note).to_have_count(0)


def test_a_chart_that_was_folded_has_the_colours_of_the_theme_when_it_is_opened_again(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    made = trained(site, people, scales=("1x1",))
    page.emulate_media(color_scheme="light")
    open_page(reverse("comparison_steps", args=[made.pk]))
    fold = page.get_by_text("Interactive chart: loss")
    label = page.locator("[data-chart^=losses] .xtitle").first

    def read_colour() -> str:
        return str(label.evaluate("element => getComputedStyle(element).fill"))

    fold.click()
    expect(label).to_be_visible(timeout=30_000)
    on_light = read_colour()
    fold.click()
    page.emulate_media(color_scheme="dark")
    fold.click()
    expect(label).to_be_visible()
    expect(label).not_to_have_css("fill", on_light)
