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
