"""Where the focus is after a part of a page was replaced, for those who have no mouse."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from experiments.models import Experiment, Job, Run
from tests.dashboard.conftest import Open, People, Site, drawn, measured, show_all_sections
from tests.dashboard.execution.test_live_run import report
from tests.factories import JobFactory, RunFactory

expect.set_options(timeout=30_000)  # a live part is asked for every few seconds
pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]


@pytest.fixture
def running(site: Site, people: People) -> Run:
    experiment = measured(site, people.owner, blocks=1)
    job = JobFactory(experiment=experiment, repeat=2, state=Job.State.RUNNING)
    run: Run = RunFactory(job=job, state=Run.State.RUNNING)
    return run


@pytest.fixture(autouse=True)
def _undrawn(page: Page) -> None:
    """Draw no figure, which takes seconds and has no focus."""
    page.route("**/forest.svg*", lambda route: route.fulfill(body="", content_type="image/svg+xml"))


def test_the_output_of_a_live_run_keeps_the_focus_while_it_grows(
    page: Page, open_page: Open, running: Run
) -> None:
    report(running, output="epoch 1")
    open_page(running.get_absolute_url())
    output = page.locator("pre.from-end")
    output.focus()
    report(running, output="epoch 1\nepoch 2")
    expect(output).to_contain_text("epoch 2")
    expect(output).to_be_focused()


def test_the_focus_of_a_control_that_is_gone_goes_to_the_part_that_it_was_in(
    page: Page, open_page: Open, running: Run
) -> None:
    experiment = running.experiment
    open_page(experiment.get_absolute_url())
    page.locator("summary", has_text="Cancel").focus()
    experiment.runs.update(state=Run.State.SUCCEEDED)
    expect(page.get_by_text("3 of 3 runs have ended")).to_be_visible()
    expect(page.locator("#live")).to_be_focused()
    page.keyboard.press("Tab")
    assert page.evaluate("document.getElementById('live').contains(document.activeElement)")


def test_what_a_link_fetches_in_its_own_place_gets_its_focus(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    results = measured(site, people.owner, blocks=8)
    open_page(show_all_sections(f"/experiments/{results.pk}/comparison/"))
    page.get_by_role("link", name="What other tests say").press("Enter")
    expect(page.locator("#robustness")).to_contain_text("Student’s t")
    expect(page.locator("#robustness")).to_be_focused()


def test_a_menu_that_the_keyboard_has_left_covers_nothing(
    page: Page, open_page: Open, results: Experiment
) -> None:
    open_page(f"/experiments/{results.pk}/comparison/")
    opener = page.locator("#export > summary")
    opener.press("Enter")
    last = page.locator("#export a, #export button").last
    last.focus()
    expect(last).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.locator("#export")).not_to_have_attribute("open", "")


# A function: a text that is evaluated again and again is refused by the page's own policy.
IS_SCROLLED = "() => document.querySelector('.chart.wide > .scroll').scrollLeft > 0"


def test_a_chart_that_is_wider_than_a_phone_is_scrolled_by_keys(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    experiment = measured(site, people.owner)
    page.set_viewport_size({"width": 390, "height": 844})
    open_page(f"/experiments/{experiment.pk}/comparison/")
    fold = page.locator("summary", has_text="Interactive chart").first
    fold.click()
    drawn(page)
    fold.focus()
    page.keyboard.press("Tab")
    box = page.locator(".chart.wide > .scroll").first
    expect(box).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.wait_for_function(IS_SCROLLED)
    only = {"runOnly": {"type": "rule", "values": ["scrollable-region-focusable"]}}
    assert Axe().run(page, None, only).response["violations"] == []
