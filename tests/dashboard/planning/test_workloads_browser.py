"""The form of a workload in a browser: what means nothing with the values chosen is put away."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import Complaints, Open, Site

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_fields_come_and_go_with_what_they_depend_on(
    page: Page, open_page: Open, complaints: Complaints
) -> None:
    open_page("/catalogue/workloads/new/?kind=cnn")
    folder = page.get_by_label("Data directory")
    expect(folder).to_be_hidden()
    page.get_by_label("Data", exact=True).select_option("imagenet")
    expect(folder).to_be_visible()
    page.get_by_label("Mode").select_option("forward")
    expect(page.get_by_label("Optimizer")).to_be_hidden()
    page.get_by_label("Kind").select_option("blas")
    expect(page.get_by_label("Matrix size")).to_be_visible()
    page.get_by_label("Kind").select_option("cnn")
    expect(page.get_by_label("Network")).to_be_visible()
    expect(folder).to_be_hidden()


def test_what_is_wrong_stays_in_sight(page: Page, open_page: Open, complaints: Complaints) -> None:
    open_page("/catalogue/workloads/new/?kind=cnn")
    page.get_by_label("Name", exact=True).fill("fast")
    page.get_by_label("Learning rate").fill("quick")
    page.get_by_label("Mode").select_option("forward")
    page.get_by_role("button", name="Add to the catalogue").click()
    expect(
        page.locator("#id_learning_rate_error", has_text="Learning rate must be a number")
    ).to_be_visible()
    expect(page.get_by_label("Optimizer")).to_be_hidden()


def test_a_preset_becomes_a_draft_with_its_forecast(
    page: Page, open_page: Open, site: Site, complaints: Complaints
) -> None:
    open_page("/catalogue/presets/")
    page.get_by_role("link", name="Use preset NumPy on the BLAS that an image brings").click()
    page.get_by_role("button", name="Make the draft").click()
    expect(page.get_by_role("heading", name="Edit a draft")).to_be_visible()
    runs = page.locator("#consequences .tally div", has_text="runs")
    expect(runs).to_contain_text("40")
