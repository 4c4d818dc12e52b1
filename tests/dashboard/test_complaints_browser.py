"""What counts as a complaint of the browser in tests, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.conftest import Complaints, Open

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

ASK = "htmx.ajax('GET', '/asked/', {source: 'main', swap: 'none'}); null"


def test_a_request_that_is_given_up_is_none(
    page: Any, open_page: Open, complaints: Complaints
) -> None:
    open_page("/runs/")
    page.route("**/asked/", lambda route: None)  # it is never answered
    with page.expect_request("**/asked/"):
        page.evaluate(ASK)
    with page.expect_console_message(lambda message: "htmx:sendAbort" in message.text):
        page.evaluate("htmx.trigger('main', 'htmx:abort')")
    assert complaints.lines == []


def test_a_request_that_fails_is_one(page: Any, open_page: Open, complaints: Complaints) -> None:
    open_page("/runs/")
    page.route("**/asked/", lambda route: route.abort())
    with page.expect_console_message(lambda message: "htmx:sendError" in message.text):
        page.evaluate(ASK)
    assert any("htmx:sendError" in line for line in complaints.lines)
    complaints.lines.clear()


def test_a_figure_without_a_turn_is_none_as_its_page_asks_again(
    page: Any, open_page: Open, complaints: Complaints
) -> None:
    open_page("/runs/")
    page.route("**/*.svg*", lambda route: route.fulfill(status=503, body="busy"))
    for address in ("/experiments/1/figures/run_order.svg?x=1", "/experiments/1/forest.svg"):
        with page.expect_console_message(lambda message: "status of 503" in message.text):
            page.evaluate("address => fetch(address).then(() => null)", address)
    assert complaints.lines == []
    with page.expect_console_message(lambda message: "status of 503" in message.text):
        page.evaluate("fetch('/static/other.svg').then(() => null)")
    assert len(complaints.lines) == 1
    complaints.lines.clear()
