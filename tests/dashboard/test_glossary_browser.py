"""Links to the glossary in a real browser: the entry opens beside the word."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Locator, Page, Request, Route, expect

from tests.dashboard.conftest import Complaints, Open, Site

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]
FORM = "/experiments/new/"
ENTRY = "One run of every environment, for one configuration, in random order."


@pytest.fixture
def block(page: Page, open_page: Open, site: Site) -> Locator:
    open_page(FORM)
    return page.locator("main").get_by_role("link", name="block", exact=True)


@pytest.fixture
def asked(page: Page) -> list[str]:
    """Return the addresses of the glossary that the page asks for from now on."""
    addresses: list[str] = []

    def note(request: Request) -> None:
        if "/glossary/" in request.url:
            addresses.append(request.url)

    page.on("request", note)
    return addresses


def test_an_entry_opens_beside_the_word_by_mouse(
    page: Page, asked: list[str], block: Locator
) -> None:
    address = page.url
    assert asked == [], "nothing is fetched before somebody asks"
    block.click()
    entry = page.get_by_role("dialog", name="Block")
    expect(entry).to_contain_text(ENTRY)
    expect(entry).to_be_focused()
    word, box = block.bounding_box(), entry.bounding_box()
    assert word
    assert box
    assert (
        min(abs(box["y"] - word["y"] - word["height"]), abs(word["y"] - box["y"] - box["height"]))
        < 12
    )
    block.click()
    expect(entry).to_be_hidden()
    page.locator("main").get_by_role("link", name="equivalence margin", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_accessible_name("Equivalence margin")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert len(asked) == 1, "all entries come with one request"
    assert page.url == address


def test_an_entry_opens_and_closes_by_keyboard(page: Page, block: Locator) -> None:
    block.focus()
    page.keyboard.press("Enter")
    entry = page.get_by_role("dialog", name="Block")
    expect(entry).to_be_focused()
    page.keyboard.press("Tab")
    expect(entry.get_by_role("link", name="In the glossary")).to_be_focused()
    page.keyboard.press("Escape")
    expect(entry).to_be_hidden()
    expect(block).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("link", name="In the glossary").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Glossary")
    assert page.url.endswith("/glossary/#block")


def test_a_narrow_page_keeps_the_entry_inside(page: Page, block: Locator) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    block.click()
    entry = page.get_by_role("dialog", name="Block")
    expect(entry).to_be_visible()
    box = entry.bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize(
    "fail",
    [lambda route: route.abort(), lambda route: route.fulfill(body="<p>no entry</p>")],
    ids=["unreachable", "another page"],
)
def test_the_link_leads_to_the_glossary_where_the_entry_cannot_be_read(
    page: Page, block: Locator, complaints: Complaints, fail: Callable[[Route], None]
) -> None:
    page.route("**/glossary/", lambda route: fail(route), times=1)
    block.click()
    page.wait_for_url("**/glossary/#block")
    complaints.lines.clear()  # the browser logs what it could not fetch


def test_a_slow_answer_that_nobody_waits_for_opens_nothing(page: Page, block: Locator) -> None:
    held: list[Route] = []
    page.route("**/glossary/", lambda route: held.append(route))
    block.click()
    expect(page.get_by_role("dialog", name="block")).to_contain_text("Reading the glossary")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    with page.expect_response("**/glossary/"):
        held[0].continue_()
    page.evaluate("new Promise((resolve) => setTimeout(resolve))")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_link_is_a_link_with_ctrl_and_without_scripts(
    page: Page, block: Locator, browser: Browser
) -> None:
    with page.context.expect_page() as tab:
        block.click(modifiers=["ControlOrMeta"])
    tab.value.wait_for_url("**/glossary/#block")
    session = page.context.storage_state()
    plain = browser.new_context(java_script_enabled=False, storage_state=session)
    with_no_script = plain.new_page()
    with_no_script.goto(page.url)
    with_no_script.locator("main").get_by_role("link", name="block", exact=True).click()
    with_no_script.wait_for_url("**/glossary/#block")
    plain.close()
