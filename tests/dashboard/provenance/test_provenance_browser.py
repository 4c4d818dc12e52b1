"""The provenance graph in a real browser: on a phone it scrolls in its own box, boxes are links."""

from __future__ import annotations

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from experiments.models import Experiment
from tests.dashboard.conftest import Open, People
from tests.experiments.bundles.studies import end_runs, launch

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]
PHONE = {"width": 390, "height": 844}


@pytest.fixture
def ended(people: People) -> Experiment:
    experiment = launch(containers=2, owner=people.owner)
    end_runs(experiment)
    return Experiment.objects.get(pk=experiment.pk)


def test_on_a_phone_the_picture_scrolls_and_the_page_does_not(
    page: Page, open_page: Open, ended: Experiment
) -> None:
    page.set_viewport_size(PHONE)
    open_page(reverse("result_provenance", args=[ended.pk, 1, 1]))
    box = page.locator("#graph .scroll")
    width, seen = box.evaluate("box => [box.scrollWidth, box.clientWidth]")
    assert width > seen
    # What was asked for is in view.
    expect(page.locator("svg.provenance a", has_text="verdict")).to_be_in_viewport()
    assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    # Texts stay inside of their boxes.
    outside = page.evaluate(
        """() => [...document.querySelectorAll('svg.provenance a')].filter((link) => {
          const frame = link.querySelector('rect, path').getBoundingClientRect();
          return [...link.querySelectorAll('text')].some((text) => {
            const box = text.getBoundingClientRect();
            return box.left < frame.left || box.right > frame.right;
          });
        }).map((link) => link.textContent.trim())"""
    )
    assert outside == []


def test_a_box_of_runs_opens_them_and_each_leads_to_its_page(
    page: Page, open_page: Open, ended: Experiment
) -> None:
    page.set_viewport_size({"width": 1280, "height": 900})
    open_page(reverse("result_provenance", args=[ended.pk, 1, 1]))
    page.locator("svg.provenance a", has_text="5 runs, 5 blocks").first.click()
    runs = page.locator('svg.provenance a.activity[href^="/runs/"]')
    expect(runs).to_have_count(5)
    runs.first.click()
    expect(page.locator("h1")).to_contain_text(" in ")
    assert "/runs/" in page.url
