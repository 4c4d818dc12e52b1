"""The job script beside the form follows what is typed, in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import Open, Site

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]


def test_the_script_follows_what_is_typed(page: Page, open_page: Open, site: Site) -> None:
    open_page("/experiments/new/")
    script = page.locator("#script")
    page.get_by_text("Job script").click()
    expect(script).to_contain_text("Waits for: Workloads")
    page.get_by_text("blas small").first.click()
    page.get_by_role("checkbox", name="Apptainer").check()
    expect(script).to_contain_text("Block 1 of 5")
    expect(script.locator("pre")).to_contain_text("#!/bin/bash")
    page.get_by_role("spinbutton", name="Block").fill("4")
    expect(script).to_contain_text("Block 4 of 5")
    page.get_by_text("Design, warm-up and interim analyses").click()
    page.get_by_label("Cool-down between runs").fill("17")
    expect(script.locator("pre")).to_contain_text("cool_down 17")
    expect(page.get_by_label("Cool-down between runs")).to_be_focused()
    page.get_by_label("Repeats").fill("3")
    expect(page.locator("#consequences")).to_contain_text("every verdict is provisional")
