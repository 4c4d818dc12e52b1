"""What a page fetches once is fetched again where nobody answered, and the page says so."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from experiments.comparisons import keep_comparison, kept
from experiments.models import Experiment, KeptComparison, Run
from tests.dashboard.conftest import Open, People, Site, measured
from tests.factories import JobFactory, RunFactory

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
PATIENCE = 60_000


@pytest.fixture
def alive(site: Site, people: People, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """An experiment with two runs under way, whose comparison is kept and takes long."""
    monkeypatch.setattr(kept, "enqueue_keep", lambda pk: None)
    experiment = measured(site, people.owner)
    for repeat in (6, 7):
        RunFactory(job=JobFactory(experiment=experiment, repeat=repeat), state=Run.State.RUNNING)
    assert keep_comparison(experiment.pk) == "kept"
    KeptComparison.objects.update(seconds=2.0)
    return experiment


class Refusing:
    """Answer 503 the first times that an address is asked for."""

    def __init__(self, page: Page, address: str, times: int) -> None:
        self.left = times
        page.route(re.compile(address), self.answer)

    def answer(self, route: Route) -> None:
        if self.left:
            self.left -= 1
            route.fulfill(status=503, body="The server restarts.")
        else:
            route.continue_()


def compute_anew(experiment: Experiment) -> None:
    run = experiment.runs.filter(state=Run.State.RUNNING).earliest("pk")
    Run.objects.filter(pk=run.pk).update(state=Run.State.FAILED)
    KeptComparison.objects.update(kept_at="2026-01-01T00:00Z")
    assert keep_comparison(experiment.pk) == "kept"
    KeptComparison.objects.update(seconds=2.0)


WRITE_DOWN_SENTENCES = """() => {
  window.sentences = [];
  new MutationObserver(() => {
    const sentence = document.querySelector("[role=status].fetch-failed")?.textContent;
    if (sentence && sentence !== window.sentences.at(-1)) window.sentences.push(sentence);
  }).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""


def test_newer_numbers_are_fetched_again_with_growing_waits(
    page: Page, open_page: Open, alive: Experiment
) -> None:
    page.clock.install()
    open_page(f"/experiments/{alive.pk}/comparison/")
    page.evaluate("document.getElementById('numbers').dataset.old = 'yes'")
    page.evaluate(WRITE_DOWN_SENTENCES)  # a busy machine may show one for a moment only
    refusing = Refusing(page, r"part=numbers", times=2)
    compute_anew(alive)
    page.clock.fast_forward(6_000)  # the live part asks, and has the numbers fetched
    page.wait_for_function("() => window.sentences.length > 0", timeout=PATIENCE)
    page.clock.fast_forward(5_000)
    page.wait_for_function("() => window.sentences.length > 1", timeout=PATIENCE)
    page.clock.fast_forward(10_000)
    expect(page.locator("#numbers:not([data-old])")).to_have_count(1, timeout=PATIENCE)
    expect(page.locator(".fetch-failed")).to_have_count(0, timeout=PATIENCE)
    first, second = page.evaluate("window.sentences")
    assert first.startswith("Newer numbers could not be fetched. Next try in 5 s, at ")
    assert second.startswith("Newer numbers could not be fetched. Next try in 10 s, at ")
    assert refusing.left == 0


def test_a_part_that_asks_by_itself_says_that_nobody_answers(
    page: Page, open_page: Open, alive: Experiment
) -> None:
    page.clock.install()
    open_page(alive.get_absolute_url())
    Refusing(page, rf"/experiments/{alive.pk}/$", times=2)
    note = page.get_by_role("status").and_(page.locator(".fetch-failed"))
    for _ in range(2):
        page.clock.fast_forward(3_100)
        expect(note).to_contain_text(
            "Tare does not answer. This page asks again every few seconds."
        )
    page.clock.fast_forward(3_100)
    expect(note).to_have_count(0, timeout=PATIENCE)


def test_numbers_that_come_while_somebody_reads_in_a_menu_are_fetched_later(
    page: Page, open_page: Open, alive: Experiment
) -> None:
    page.clock.install()
    open_page(f"/experiments/{alive.pk}/comparison/")
    page.evaluate(
        """() => {
          const numbers = document.getElementById('numbers');
          numbers.dataset.old = 'yes';
          numbers.insertAdjacentHTML('beforeend', '<details class="menu" open>x</details>');
        }"""
    )
    compute_anew(alive)
    with page.expect_response(re.compile("part=live")):
        page.clock.fast_forward(6_000)
    page.evaluate("document.querySelector('#numbers details.menu').remove()")
    page.clock.fast_forward(5_100)
    expect(page.locator("#numbers:not([data-old])")).to_have_count(1, timeout=PATIENCE)


def test_the_verdicts_of_a_list_are_fetched_again(
    page: Page, open_page: Open, results: Any
) -> None:
    page.clock.install()
    Refusing(page, rf"/experiments/{results.pk}/comparison/$", times=1)
    open_page("/compare/")
    cell = page.locator("td.verdicts").first
    expect(cell.get_by_role("status")).to_contain_text("The verdicts could not be fetched.")
    page.clock.fast_forward(5_100)
    expect(cell).to_contain_text("SLOWER", timeout=PATIENCE)
    expect(cell.get_by_role("status")).to_have_count(0)
