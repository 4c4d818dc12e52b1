"""The search while one types, in a real browser: by keyboard, by mouse and on a phone."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from experiments.models import Experiment
from tests.dashboard.conftest import Open, People, Site
from tests.factories import ExperimentFactory, WorkloadFactory

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]


@pytest.fixture
def questions(site: Site, people: People) -> list[Experiment]:
    WorkloadFactory(name="zebra training", owner=people.owner)
    return [
        ExperimentFactory(owner=people.owner, question=f"What does zebra {number} cost?")
        for number in (1, 2)
    ]


def list_options(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Results").get_by_role("option")


def type_slowly(page: Page, text: str) -> None:
    page.keyboard.type(text, delay=20)


def test_the_keyboard_alone_finds_and_opens(
    page: Page, open_page: Open, questions: list[Experiment]
) -> None:
    open_page("/runs/")
    page.locator("main a").first.focus()
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Search")
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-expanded", "false")
    type_slowly(page, "zebra")
    options = list_options(page)
    expect(options).to_have_count(4)  # two experiments, a workload, and the way to the page
    expect(page.get_by_role("group", name="Experiments").get_by_role("option")).to_have_count(2)
    expect(page.locator("dialog [role=status]")).to_have_text("3 results")
    expect(field).to_have_attribute("aria-expanded", "true")
    expect(options.nth(0)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    named = options.nth(1).get_attribute("id") or ""
    expect(field).to_have_attribute("aria-activedescendant", named)
    for _ in range(2):
        page.keyboard.press("ArrowUp")
    expect(options.nth(3)).to_have_attribute("aria-selected", "true")  # round the corner
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{questions[1].get_absolute_url()}**")


def test_escape_closes_it_and_the_focus_returns(
    page: Page, open_page: Open, questions: list[Experiment]
) -> None:
    open_page("/experiments/")
    link = page.get_by_role("link", name="What does zebra 1 cost?")
    link.focus()
    page.keyboard.press("/")
    expect(page.get_by_role("combobox", name="Search")).to_be_focused()
    type_slowly(page, "zebra")
    expect(list_options(page).first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog.search")).to_be_hidden()
    expect(link).to_be_focused()
    page.keyboard.press("Control+k")  # what was typed is there to be typed over
    expect(page.get_by_role("combobox", name="Search")).to_have_value("zebra")
    type_slowly(page, "zzyzx")
    expect(page.locator("dialog [role=status]")).to_have_text("Nothing found.")
    expect(list_options(page)).to_have_count(0)


def test_a_slash_in_a_field_is_a_slash(page: Page, open_page: Open, site: Site) -> None:
    open_page("/experiments/new/")
    page.get_by_label("Question").focus()
    page.keyboard.type("a/b")
    expect(page.get_by_label("Question")).to_have_value("a/b")
    expect(page.locator("dialog.search")).to_have_count(0)


def test_typing_in_the_header_goes_on_in_the_dialog(
    page: Page, open_page: Open, questions: list[Experiment]
) -> None:
    open_page("/runs/")
    box = page.get_by_role("searchbox", name="Search everything")
    box.focus()  # as by Tab: nothing opens
    expect(page.locator("dialog.search")).to_have_count(0)
    type_slowly(page, "zebra 2")
    expect(page.get_by_role("combobox", name="Search")).to_have_value("zebra 2")
    option = list_options(page).filter(has_text="zebra 2 cost")
    option.click()
    page.wait_for_url(f"**{questions[1].get_absolute_url()}**")


def test_a_late_answer_to_an_earlier_text_is_dropped(
    page: Page, open_page: Open, questions: list[Experiment]
) -> None:
    held: list[Route] = []

    def hold_the_first(route: Route) -> None:
        if parse_qs(urlsplit(route.request.url).query)["q"] == ["zebra 1"]:
            held.append(route)
        else:
            route.continue_()

    open_page("/runs/")
    page.route("**/search/results/**", hold_the_first)
    page.keyboard.press("Control+k")
    with page.expect_request("**/search/results/?q=zebra%201"):
        page.keyboard.type("zebra 1")
    page.keyboard.press("Backspace")
    page.keyboard.type("2")
    expect(list_options(page).first).to_contain_text("zebra 2")
    for route in held:
        try:
            route.fulfill(body='<a role="option" id="late" href="/">late</a>')
        except Exception:  # noqa: BLE001 - it was given up: that is what is wanted
            continue
    expect(list_options(page).first).to_contain_text("zebra 2")


def test_enter_before_the_answer_opens_the_page(
    page: Page, open_page: Open, questions: list[Experiment]
) -> None:
    open_page("/runs/")
    page.route("**/search/results/**", lambda route: None)  # never answered
    page.keyboard.press("Control+k")
    page.keyboard.type("zebra 1")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/search/\?q=zebra"))
    expect(page.get_by_role("link", name="What does zebra 1 cost?")).to_be_visible()


def test_no_answer_is_said(
    page: Page, open_page: Open, questions: list[Experiment], complaints: Any
) -> None:
    open_page("/runs/")
    page.route("**/search/results/**", lambda route: route.abort())
    page.keyboard.press("Control+k")
    page.keyboard.type("zebra")
    expect(page.locator("dialog [role=status]")).to_contain_text("Tare does not answer")
    page.unroute("**/search/results/**")
    page.context.clear_cookies()
    page.keyboard.type(" 1")
    expect(page.locator("dialog [role=status]")).to_contain_text("You are logged out")
    complaints.lines.clear()  # the browser reports the request that was broken off


@pytest.mark.parametrize("width", [390, 1440])
def test_it_fits_the_screen(
    width: int, page: Page, open_page: Open, people: People, site: Site
) -> None:
    for number in range(9):
        ExperimentFactory(owner=people.owner, question=f"zebra {number} " + "x" * 250)
    page.set_viewport_size({"width": width, "height": 700})
    open_page("/runs/")
    page.get_by_role("searchbox", name="Search everything").click()
    page.keyboard.type("zebra")
    expect(list_options(page).first).to_be_visible()
    box = page.locator("dialog.search").bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert box["y"] + box["height"] <= 700
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("button", name="Close").click()
    expect(page.locator("dialog.search")).to_be_hidden()
