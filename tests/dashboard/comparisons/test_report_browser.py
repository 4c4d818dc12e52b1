"""The report and the page on paper, in a browser: whole, and without anything to press."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from experiments.models import Experiment
from tests.dashboard.conftest import Open, People, Site, measured
from tests.factories import ContainerFactory, block

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
A4 = {"width": 703, "height": 1033}
"""Pixels between the margins."""


def test_a_saved_report_opens_from_a_disk_and_asks_for_nothing(
    page: Page, open_page: Open, live_server: LiveServer, results: Experiment, tmp_path: Path
) -> None:
    answer = page.request.get(
        f"{live_server.url}/experiments/{results.pk}/report.html", timeout=120_000
    )
    assert answer.ok
    file = tmp_path / "report.html"
    file.write_bytes(answer.body())
    page.goto("about:blank")  # what the page before asks for is not the report's
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    expect(page.get_by_role("heading", name="What does it cost?")).to_be_visible()
    picture = page.locator("figure img").first
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth > 400")
    assert page.locator("h1").evaluate("heading => getComputedStyle(heading).fontSize") == "24px"
    assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
    for width in (390, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width


def test_on_paper_the_matrix_is_a_table_and_nothing_is_cut_or_to_be_pressed(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    others = [ContainerFactory(name=f"container {n}", cluster=site.cluster) for n in range(4)]
    made = measured(site, people.owner, blocks=0, scales=["1x1", "1x2"])
    made.environments.add(*others)
    for scale in made.scales:
        for repeat in (1, 2, 3):
            times = {site.bare: 0.02 + repeat / 10_000, site.container: 0.022 + repeat / 10_000}
            times |= dict.fromkeys(others, 0.021 + repeat / 9_000)
            block(made, repeat, times, scale=scale)
    open_page(f"/experiments/{made.pk}/comparison/?section=full_results")
    page.emulate_media(media="print")
    page.set_viewport_size(A4)
    expect(page.locator(".verdict-matrix thead")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for selector in (".bar", ".btn", "details.menu", ".help-link", "main button", ".report-list"):
        for row in page.locator(selector).all():
            expect(row).to_be_hidden()


def test_the_reports_table_fits_a4_and_breaks_no_p_from_its_sign(
    page: Page, open_page: Open, results: Experiment
) -> None:
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 680, "height": 960})  # 180 mm
    open_page(f"/experiments/{results.pk}/report.html")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    cell = page.locator(".results tbody tr:not(.group) td:nth-last-child(2)").first
    expect(cell).to_contain_text("lower")
    count_lines = """cell => { const range = document.createRange();
      range.selectNodeContents(cell); return range.getClientRects().length }"""
    assert cell.evaluate(count_lines) <= 2


def test_the_menu_of_exports_is_used_by_keyboard_alone(
    page: Page, open_page: Open, results: Experiment
) -> None:
    open_page(f"/experiments/{results.pk}/comparison/")
    page.locator("#export > summary").press("Enter")
    link = page.get_by_role("link", name="Runs, CSV")
    expect(link).to_be_visible()
    for _ in range(90):
        if link.evaluate("link => link === document.activeElement"):
            break
        page.keyboard.press("Tab")
    expect(link).to_be_focused()
    page.keyboard.press("Escape")
    expect(link).to_be_hidden()
    expect(page.locator("#export > summary")).to_be_focused()


LUMINANCE = """(image) => {
  const canvas = document.createElement('canvas');
  canvas.width = 40; canvas.height = 20;
  const paper = canvas.getContext('2d');
  paper.drawImage(image, 0, 0, 40, 20);
  const [red, green, blue] = paper.getImageData(1, 1, 1, 1).data;
  return (red + green + blue) / 3;
}"""
SMALLER = """() => [...document.querySelectorAll('main *')].filter((part) =>
  [...part.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()))
  .map((part) => getComputedStyle(part).fontSize)"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_report_follows_the_readers_theme_with_its_pictures_and_is_light_on_paper(
    theme: Literal["light", "dark"], page: Page, open_page: Open, results: Experiment
) -> None:
    page.emulate_media(color_scheme=theme)
    open_page(f"/experiments/{results.pk}/report.html")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert (
        page.evaluate(ground) == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 26)"}[theme]
    )
    picture = page.locator("figure img").first
    expect(picture).to_be_visible()
    assert (picture.evaluate(LUMINANCE) < 128) == (theme == "dark")
    page.emulate_media(media="print", color_scheme=theme)
    assert page.evaluate(ground) == "rgb(255, 255, 255)"


def test_the_report_has_three_sizes_of_type_and_never_scrolls_sideways(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    name = "a-container-of-one-very-long-word-that-has-no-place-to-break-in-it"
    other = ContainerFactory(name=name, cluster=site.cluster)
    made = measured(site, people.owner, others=[other], question=f"What does {name}{name} cost?")
    for width, title in ((390, "20px"), (1024, "24px"), (1440, "24px")):
        page.set_viewport_size({"width": width, "height": 900})
        open_page(f"/experiments/{made.pk}/report.html")
        assert set(page.evaluate(SMALLER)) == {title, "15px", "13px"}, width
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
