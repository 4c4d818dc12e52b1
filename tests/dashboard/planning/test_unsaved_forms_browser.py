"""What is typed is kept by itself, in a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from experiments.models import UnsavedForm
from tests.dashboard.conftest import Complaints, Open, Site

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.mark.usefixtures("complaints")
def test_what_is_typed_is_there_after_a_reload(page: Page, open_page: Open, site: Site) -> None:
    open_page("/experiments/new/")
    question = page.get_by_label("Question")
    question.fill("Does it keep itself?")
    kept = page.locator("#kept")
    expect(kept).to_have_text(re.compile(r"^\s*Kept at \d\d:\d\d"))
    expect(kept).to_have_role("status")
    expect(page).to_have_url(re.compile(r"\?unsaved=[0-9a-f]+$"))
    page.reload()
    expect(question).to_have_value("Does it keep itself?")
    page.get_by_text("blas small").first.click()
    page.get_by_role("checkbox", name="Apptainer").check()
    page.get_by_role("button", name="Save draft").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Does it keep itself?")
    assert not UnsavedForm.objects.exists()


def test_what_cannot_be_kept_is_said(
    page: Page, open_page: Open, site: Site, complaints: Complaints
) -> None:
    open_page("/experiments/new/")
    page.route("**/keep/", lambda route: refuse(route))
    page.get_by_label("Question").fill("Does it?")
    expect(page.locator("#kept")).to_contain_text("Not kept: Tare does not answer.")
    page.unroute("**/keep/")
    page.get_by_label("Question").fill("Does it now?")
    expect(page.locator("#kept")).to_contain_text("Kept at")
    complaints.lines.clear()  # of the request that had no answer


def refuse(route: Route) -> None:
    route.abort()
