"""The page that imports a file, in a browser: three widths, both themes, and axe."""

from __future__ import annotations

import os
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from experiments.models import Experiment
from tests.dashboard.conftest import Open
from tests.dashboard.planning.test_definition_drafts import make_place
from tests.dashboard.test_axe_browser import SETTLE

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
WIDTHS = (390, 1024, 1440)
SHOTS = os.environ.get("SHOTS", "")


def test_a_wrong_file_is_mended_on_the_page_and_imported(
    page: Page, open_page: Open, people: Any
) -> None:
    place = make_place()
    text = place.write(partition="a-partition-that-is-not-here").replace("repeats", "repeat")
    open_page("/experiments/import/file/")
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("Is repeats meant?")).to_be_visible()
    page.get_by_label("Text", exact=True).fill(text.replace("repeat:", "repeats:"))
    page.get_by_role("button", name="Check").click()
    choice = page.get_by_label("a-partition-that-is-not-here")
    expect(choice).to_be_visible()
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            overflow = "document.documentElement.scrollWidth - window.innerWidth"
            assert page.evaluate(overflow) <= 0, width
            if SHOTS:
                page.screenshot(path=f"{SHOTS}/import-{width}-{theme}.png", full_page=True)
        page.evaluate(SETTLE)
        assert Axe().run(page).response["violations"] == [], theme
    choice.select_option(place.partition.name)
    page.get_by_role("button", name="Import as a draft").click()
    expect(page.get_by_text("Imported as a draft. Nothing has been launched.")).to_be_visible()
    draft = Experiment.objects.get()
    assert draft.partition == place.partition
    page.get_by_text("Export", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Experiment file, YAML").click()
    assert f"partition: {place.partition.name}" in download.value.path().read_text()
    assert "# For the rebuttal." in download.value.path().read_text()
