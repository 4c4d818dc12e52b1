"""The page of a study in a browser: stamps of verdicts stay within their cell."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from experiments.comparisons import keep_comparison
from tests.dashboard.conftest import Open, People, Site, measured
from tests.factories import ContainerFactory, StudyFactory

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]
# A verdict may bear several, as of a program that differs, with an outlier, after Holm’s rule.
STAMP = """() => {
  const verdict = document.querySelector('.verdict-matrix .said');
  for (const label of ['CONFOUNDED', 'OUTLIER-SENSITIVE', 'NOT SIGNIFICANT AFTER HOLM CORRECTION'])
    verdict.insertAdjacentHTML('beforeend', `<span class="mark">${label}</span>`);
}"""
OUTSIDE = """() => [...document.querySelectorAll('.verdict-matrix .mark')].filter((mark) =>
  mark.getBoundingClientRect().right > mark.closest('td').getBoundingClientRect().right + 1)
  .map((mark) => mark.textContent)"""


def test_the_stamps_of_a_verdict_stay_within_its_cell(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    row = measured(site, people.owner)
    for name in ("Podman", "udocker"):
        row.environments.add(ContainerFactory(name=name, cluster=row.cluster))
    assert keep_comparison(row.pk) == "kept"
    study = StudyFactory(owner=people.owner, members=[row])
    for width in (1440, 1024, 390):
        page.set_viewport_size({"width": width, "height": 900})
        open_page(study.get_absolute_url())
        expect(page.locator(".verdict-matrix .said").first).to_be_visible()
        page.evaluate(STAMP)
        assert page.evaluate(OUTSIDE) == [], width
