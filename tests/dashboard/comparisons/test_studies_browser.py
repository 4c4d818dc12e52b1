"""The page Across experiments in a browser: its figure, and the choice in its address."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from experiments.comparisons import keep_comparison
from tests.dashboard.comparisons.test_studies import make_study, query_of
from tests.dashboard.conftest import Open, People, Site
from tests.dashboard.test_looks_browser import OVERLAPPING, PHONE, WIDER
from tests.factories import ContainerFactory

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]
DRAWN = """() => [...document.querySelectorAll('figure.printed img')]
  .some((image) => image.complete && image.naturalWidth > 100)"""


def test_studies_are_seen_together_and_chosen_by_the_form(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    long = "What does Apptainer cost with cuDNN 9.15, and with the cuDNN 9.12 of the node itself?"
    studies = [
        make_study(people, site, cost, question=f"{long} {cost}", margin=margin)
        for cost, margin in ((0.001, 0.02), (0.004, 0.05), (0.002, 0.02), (0.03, 0.02), (0.0, 0.02))
    ]
    studies[0].environments.add(ContainerFactory(name="Podman", cluster=studies[0].cluster))
    keep_comparison(studies[0].pk)
    open_page("/compare/studies/" + query_of(studies))
    page.wait_for_function(DRAWN)
    expect(page.locator("#summary")).to_contain_text("Over 5 experiments")
    page.get_by_label("Leave out experiment 4").click()
    expect(page.locator("#summary")).to_contain_text("Over 4 experiments")
    page.get_by_label("Published table").focus()
    page.get_by_role("button", name="Show").click()
    assert f"e={studies[3].pk}&" not in page.url
    expect(page.locator("#summary")).to_contain_text("Over 4 experiments")
    page.set_viewport_size(PHONE)
    open_page("/compare/studies/" + query_of(studies))
    assert page.evaluate(OVERLAPPING) == []
    # The table of the figure is closed, and scrolls when it is opened, as on every comparison.
    wide = [text for text in page.evaluate(WIDER) if not text.startswith("Apptainer across")]
    assert wide == []
