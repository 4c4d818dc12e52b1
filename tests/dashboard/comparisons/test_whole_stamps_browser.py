"""In the matrix of verdicts no stamp is cut: it goes below the verdict, and so does the count."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from experiments.comparisons import keep_comparison
from tests.dashboard.conftest import Open, People, Site, measured
from tests.factories import ContainerFactory

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]
LONGEST = "NOT SIGNIFICANT AFTER HOLM CORRECTION"
# Stamps as they come, a count beside each; in the first cell the longest stamp there is.
FILL = """(longest) => {
  for (const line of document.querySelectorAll('.verdict-matrix .said')) {
    line.querySelector('.count')?.remove();
    line.insertAdjacentHTML('beforeend', '<span class="count">n = 25, 8 nodes</span>');
  }
  document.querySelector('.verdict-matrix .stamp > summary > span').textContent = longest;
}"""
CUT = """() => [...document.querySelectorAll('.verdict-matrix .stamp > summary > span, .count')]
  .filter((text) => {
    const range = document.createRange();
    range.selectNodeContents(text);
    const letters = range.getBoundingClientRect(), own = text.getBoundingClientRect();
    const cell = text.closest('td').getBoundingClientRect();
    return letters.width > own.width + 1 || letters.right > cell.right + 1
      || letters.bottom > cell.bottom + 1 || text.scrollWidth > text.clientWidth + 1;
  }).map((text) => text.textContent)"""
OVER = """() => [...document.querySelectorAll('.verdict-matrix td')].filter((cell) => {
  const parts = [...cell.querySelectorAll('.said > *, .measured > *')];
  const boxes = parts.map((part) => part.getBoundingClientRect());
  return boxes.some((a, at) => boxes.slice(at + 1).some((b) => a.left < b.right - 1
    && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1));
}).map((cell) => cell.textContent)"""


@pytest.mark.parametrize("environments", [1, 2, 3, 4])
def test_no_stamp_is_cut_and_nothing_lies_over_another(
    environments: int, page: Page, open_page: Open, site: Site, people: People
) -> None:
    others = [
        ContainerFactory(name=f"container {number}", cluster=site.cluster)
        for number in range(1, environments)
    ]
    made = measured(site, people.owner, blocks=4, others=others)
    assert keep_comparison(made.pk) == "kept"
    for width in (390, 1024, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        open_page(f"/experiments/{made.pk}/comparison/")
        expect(page.locator(".verdict-matrix .stamp").first).to_be_visible()
        page.evaluate(FILL, LONGEST)
        assert page.evaluate(CUT) == [], width
        assert page.evaluate(OVER) == [], width
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
