"""What has ended is announced politely: once, by a region that was empty until then."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from experiments.models import Experiment, Run
from tests.dashboard.conftest import Open, People, Site, measured
from tests.factories import JobFactory, RunFactory

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]
PATIENCE = 60_000
COUNT = """() => {
  window.announced = [];
  const region = document.getElementById('announcement');
  new MutationObserver(() => window.announced.push(region.textContent))
    .observe(region, { childList: true, characterData: true, subtree: true });
}"""


@pytest.fixture
def alive(site: Site, people: People) -> Experiment:
    """An experiment with two runs under way."""
    experiment = measured(site, people.owner, blocks=1)
    for repeat in (2, 3):
        RunFactory(job=JobFactory(experiment=experiment, repeat=repeat), state=Run.State.RUNNING)
    return experiment


def test_the_end_of_an_experiment_is_announced_once(
    page: Page, open_page: Open, alive: Experiment
) -> None:
    open_page(alive.get_absolute_url())
    region = page.get_by_role("status").and_(page.locator("#announcement"))
    expect(region).to_have_text("")
    page.evaluate(COUNT)
    first, second = alive.runs.filter(state=Run.State.RUNNING)

    # A run ends, and the page shows it: nothing is announced, as the experiment goes on.
    Run.objects.filter(pk=first.pk).update(state=Run.State.FAILED, reason="lost")
    expect(page.locator(".facts", has_text="1 failed").first).to_be_visible(timeout=PATIENCE)
    assert page.evaluate("window.announced") == []

    Run.objects.filter(pk=second.pk).update(state=Run.State.SUCCEEDED)
    text = "The experiment has ended: finished, 1 of 4 runs failed."
    expect(region).to_have_text(text, timeout=PATIENCE)
    assert page.evaluate("window.announced") == [text]
    # It is not asked for any more, so that nothing is ever said again: the other part, below it,
    # asks only when this one tells it to.
    asks_by_itself = page.locator("[data-live][hx-trigger^='every']")
    expect(asks_by_itself).to_have_count(0, timeout=PATIENCE)


def test_the_end_of_a_run_is_announced(page: Page, open_page: Open, alive: Experiment) -> None:
    run = alive.runs.filter(state=Run.State.RUNNING)[0]
    open_page(f"/runs/{run.uid}/")
    expect(page.locator("#announcement")).to_have_text("")
    Run.objects.filter(pk=run.pk).update(state=Run.State.SUCCEEDED)
    region = page.locator("#announcement")
    expect(region).to_have_text("The run has ended: succeeded.", timeout=PATIENCE)


def test_whoever_comes_after_the_end_is_told_nothing(
    page: Page, open_page: Open, results: Experiment
) -> None:
    open_page(results.get_absolute_url())
    expect(page.locator("#announcement")).to_have_text("")


def test_what_is_done_with_rows_appears_with_their_selection(
    page: Page, open_page: Open, results: Experiment
) -> None:
    for address in ("/experiments/", "/runs/"):
        open_page(address)
        archive = page.locator("#selection summary", has_text="Archive")
        expect(archive).to_be_hidden()
        page.locator("tbody input[name=pick]").first.check()
        expect(archive).to_be_visible()
        expect(page.locator("[data-selected]")).to_have_text("1 selected")
        page.get_by_role("button", name="Clear selection").click()
        expect(archive).to_be_hidden()
    page.locator("#selection input[name=all]").check()
    expect(page.locator("[data-selected]")).to_have_text("All selected")
    expect(archive).to_be_visible()
