"""The extension in a real browser: what it takes is read first, and one press plans the blocks."""

from __future__ import annotations

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from experiments.models import Job
from tests.dashboard.comparisons.test_extension import make_inconclusive
from tests.dashboard.conftest import Open, People, Site

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]


def test_what_it_takes_is_read_first_and_one_press_plans_the_blocks(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    experiment = make_inconclusive(site, people)
    open_page(reverse("comparison", args=[experiment.pk]))
    button = page.get_by_role("button", name="Extend", exact=True)
    expect(button).to_be_hidden()
    page.get_by_text("Extend by").click()
    expect(page.locator("#extension")).to_contain_text("GPU-hours")
    page.get_by_label("Further blocks of each inconclusive configuration").fill("3")
    button.click()
    expect(page.get_by_text("Extended by 3 blocks")).to_be_visible()
    assert experiment.jobs.filter(state=Job.State.PLANNED).count() == 3
