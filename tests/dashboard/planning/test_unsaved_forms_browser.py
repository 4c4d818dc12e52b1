"""What is typed is kept by itself, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from experiments.models import Experiment, UnsavedForm
from tests.dashboard.conftest import Complaints, Open, People, Site
from tests.factories import ExperimentFactory

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


@pytest.mark.parametrize(
    "refuse", [lambda route: route.abort(), lambda route: route.fulfill(status=503)]
)
def test_what_cannot_be_kept_is_said(
    page: Page,
    open_page: Open,
    site: Site,
    complaints: Complaints,
    refuse: Callable[[Route], None],
) -> None:
    open_page("/experiments/new/")
    page.route("**/keep/", refuse)
    page.get_by_label("Question").fill("Does it?")
    expect(page.locator("#kept")).to_contain_text("Not kept: Tare does not answer.")
    page.unroute("**/keep/")
    page.get_by_label("Question").fill("Does it now?")
    expect(page.locator("#kept")).to_contain_text("Kept at")
    complaints.lines.clear()  # of the request that had no answer


def test_a_draft_that_was_deleted_in_another_tab_is_kept_no_more(
    page: Page, open_page: Open, site: Site, people: People, complaints: Complaints
) -> None:
    draft = ExperimentFactory(
        owner=people.owner, cluster=site.cluster, partition=site.partition, baseline=site.bare
    )
    open_page(f"/experiments/{draft.pk}/edit/")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    Experiment.objects.filter(pk=draft.pk).delete()
    page.get_by_label("Question").fill("Is it still there?")
    kept = page.locator("#kept")
    expect(kept).to_contain_text("Not kept: this draft was deleted.")
    count = sum("/keep/" in url for url in requests)
    page.evaluate("htmx.trigger('#kept', 'unanswered')")  # asks at once, where it may
    page.evaluate("fetch('/healthz/')")  # whatever was asked before it is in the list by then
    expect(kept).to_contain_text("Not kept: this draft was deleted.")
    assert sum("/keep/" in url for url in requests) == count == 1
    complaints.lines.clear()  # of the answers 404


def test_a_refusal_is_not_taken_for_silence(
    page: Page, open_page: Open, site: Site, complaints: Complaints
) -> None:
    open_page("/experiments/new/")
    page.route("**/keep/", lambda route: route.fulfill(status=403))
    page.get_by_label("Question").fill("May I?")
    expect(page.locator("#kept")).to_contain_text("Not kept: Tare refuses it.")
    complaints.lines.clear()
