"""Pictures that the server has no turn for now are drawn in the end, or a person can ask again."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from playwright.sync_api import Page, Route, expect

from dashboard.comparisons import figure_views
from dashboard.drawings import drawing_process
from dashboard.drawings.drawing_process import TookTooLong
from dashboard.drawings.turns import Turns
from experiments.models import Experiment
from tests.dashboard.conftest import Open

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
IS_SHOWN = "image => image.complete && image.naturalWidth > 300"


@pytest.fixture
def taken_turn(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> ExitStack:
    """Take the only turn at drawing that there is, until the test gives it back."""
    turns = Turns(at_once=1, for_visitors=1, waiting=0)
    monkeypatch.setattr(drawing_process, "turns", turns)
    monkeypatch.setattr(drawing_process, "_find_kept", lambda key: kept.get(key))
    kept: dict[str, bytes] = {}
    monkeypatch.setattr(
        drawing_process, "_keep", lambda key, file, _=None: kept.update({key: file})
    )
    stack = ExitStack()
    stack.enter_context(turns.take(is_visitor=False, seconds=0))
    return stack


def test_a_figure_that_waits_is_drawn_without_anybody_s_doing(
    page: Page,
    open_page: Open,
    results: Experiment,
    taken_turn: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(figure_views, "RETRY_SECONDS", 1)
    open_page(f"/experiments/{results.pk}/comparison/")
    picture = page.locator("figure.printed picture:visible img").first
    picture.scroll_into_view_if_needed()
    note = page.get_by_text("This figure waits until others are drawn.")
    expect(note.first).to_be_visible(timeout=60_000)
    taken_turn.close()
    expect(note).to_have_count(0, timeout=60_000)
    handle = picture.element_handle()
    page.wait_for_function(IS_SHOWN, arg=handle, timeout=60_000)
    expect(page.get_by_role("button", name="Draw again")).to_have_count(0)


def test_after_some_time_a_person_decides(
    page: Page,
    open_page: Open,
    results: Experiment,
    taken_turn: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(figure_views, "RETRY_SECONDS", 0)
    open_page(f"/experiments/{results.pk}/comparison/")
    picture = page.locator("figure.printed picture:visible img").first
    picture.scroll_into_view_if_needed()
    figure = page.locator("figure.printed").first
    button = figure.get_by_role("button", name="Draw again")
    expect(button).to_be_visible(timeout=60_000)
    expect(figure.get_by_text("This figure could not be drawn yet.")).to_be_visible()
    taken_turn.close()
    button.click()
    page.wait_for_function(IS_SHOWN, arg=picture.element_handle(), timeout=60_000)
    expect(button).to_have_count(0)


def test_a_figure_that_took_too_long_says_so_and_is_drawn_when_a_person_asks(
    page: Page,
    open_page: Open,
    results: Experiment,
    taken_turn: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken_turn.close()
    run_program = drawing_process._run_program
    orders: list[str] = []

    def run_too_long(order: str) -> bytes:
        orders.append(order)
        raise TookTooLong(30)

    monkeypatch.setattr(drawing_process, "_run_program", run_too_long)
    # The first figure's own: another one may say so while the first one waits for its turn.
    figure = page.locator("figure.printed").first
    picture = figure.locator("picture:visible img").first
    note = figure.get_by_role("status").filter(has_text="Drawing it took more than 30 s")
    for _ in range(2):
        open_page(f"/experiments/{results.pk}/comparison/")
        picture.scroll_into_view_if_needed()
        expect(note).to_contain_text(
            "A figure of one configuration takes less time", timeout=60_000
        )
    assert len(orders) == len(set(orders)), "no figure was started twice"
    monkeypatch.setattr(drawing_process, "_run_program", run_program)
    note.get_by_role("button", name="Draw again").click()
    page.wait_for_function(IS_SHOWN, arg=picture.element_handle(), timeout=60_000)


def test_a_picture_that_is_refused_after_its_file_was_there_is_asked_for_again(
    page: Page, open_page: Open, results: Experiment
) -> None:
    """Where no comparison is kept a picture takes a turn even if its file is there."""
    asked: list[str] = []

    def refuse_twice(route: Route) -> None:
        asked.append(route.request.resource_type)
        if asked[-1] == "image" and asked.count("image") < 3:
            route.fulfill(status=503, headers={"Retry-After": "1"}, body="Too many figures.")
        else:
            route.fallback()

    page.route("**/forest.svg?*", refuse_twice)
    open_page(f"/experiments/{results.pk}/comparison/")
    picture = page.locator("figure.printed picture:visible img").first
    picture.scroll_into_view_if_needed()
    page.wait_for_function(IS_SHOWN, arg=picture.element_handle(), timeout=60_000)
    assert asked == ["image", "fetch", "image", "fetch", "image"]
    expect(page.locator("figure.printed").first.get_by_role("status")).to_have_count(0)
