"""axe finds nothing on any page, in both themes: https://www.deque.com/axe/.

Every address that answers with a page is tried, those of Django's administration too. Of long lists
axe is shown the first rows: the others are made by the same lines of a template.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.contrib import admin
from django.template.loader import render_to_string
from django.urls import reverse
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Page
from pytest_django.live_server_helper import LiveServer

from experiments.models import Role, User
from tests.dashboard.access.test_roles import GET, RULES, logged_in, mine, person  # noqa: F401

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PARTS = 16
HTML = "text/html; charset=utf-8"
THEMES = ("light", "dark")
# Rules about the pages' structure find the same in both themes.
COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
SHORTEN = """() => {
  for (const box of document.querySelectorAll('details')) box.open = true;
  for (const list of document.querySelectorAll('tbody, ul, ol, dl, select, optgroup'))
    [...list.children].slice(12).forEach((row) => row.remove());
  window.dispatchEvent(new Event('resize')); // whereupon the page measures what is too wide
}"""
# What a page does when it has been changed: tables that are too wide can be scrolled by keys, and
# colours change to those of the other theme little by little.
SETTLE = """async () => {
  for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
  document.getAnimations().forEach((change) => change.finish());
}"""
# Help of Django's own lists of rights, made by its own script.
NOT_OURS = {"exclude": [[".selector .help-tooltip"]]}
# Whoever has not logged in sees these.
WITHOUT_LOGGING_IN = (
    *("/login/", "/client/", "/docs/", "/docs/administration/"),
    *("/glossary/", "/no-such-page/"),
)
FIGURES = ("_svg", "_png", "_pdf")
ERRORS = (400, 403, 404, 409, 500, 503)
PARTS_OF_PAGES = ("/search/results/",)


def list_addresses(own: dict[str, list[Any]]) -> Iterator[str]:
    """Yield what can be opened: Tare's own addresses, then those of the administration."""
    for name, (method, what, _) in RULES.items():
        if name in ("link", "run_file") or name.endswith(FIGURES):
            continue  # without a log-in; a file's bytes; a figure, which is none without results
        if method == GET:
            yield reverse(name, args=own[what])
    yield reverse("comparison", args=own["results"]) + "?section=all"
    yield reverse("admin:index")
    for model in admin.site._registry:
        if model._meta.label_lower == "django_rq.dashboard":
            continue  # pages of django-rq, with its own templates and style
        base = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        yield reverse(f"{base}_changelist")
        yield reverse(f"{base}_add")
        if row := model._default_manager.first():
            yield reverse(f"{base}_change", args=[row.pk])


def open_address(page: Page, address: str) -> bool:
    """Go to an address; return whether a page is there, and not a file or rows nobody adds."""
    try:
        answer = page.goto(address, wait_until="load")
    except PlaywrightError as error:
        if "Download is starting" in str(error):
            return False
        raise
    assert answer, address
    if answer.status == 403 and address.endswith("/add/") and "/admin/" in address:
        return False
    assert answer.status == 200, address
    if answer.header_value("content-type") != HTML or address.endswith(PARTS_OF_PAGES):
        return False
    assert "<html" in answer.text()[:500], f"{address} is no whole page: see PARTS_OF_PAGES"
    return True


def find_faults(page: Page) -> list[str]:
    """Return what axe finds on the page that is open, in both themes."""
    page.evaluate(SHORTEN)
    faults = []
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        page.evaluate(SETTLE)
        only = {"resultTypes": ["violations"]} | ({"runOnly": COLOURS} if theme == "dark" else {})
        for fault in Axe().run(page, NOT_OURS, only).response["violations"]:
            faults += [
                f"{theme} {page.url} {fault['id']}: {node['html'][:160]} {node['failureSummary']}"
                for node in fault["nodes"][:3]
            ]
    return faults


def log_in(page: Page, live_server: LiveServer, user: User) -> None:
    """Give the browser the session of a client that has logged in."""
    session = logged_in(user).cookies[settings.SESSION_COOKIE_NAME].value
    page.context.add_cookies(
        [{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": live_server.url}]
    )


def leave_out_figures(page: Page) -> None:
    """Answer at once for figures, which another process draws: their texts stay on the page."""
    picture = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"></svg>'
    for kind in ("forest.svg*", "figures/*.svg*"):
        page.route(
            f"**/{kind}", lambda route: route.fulfill(body=picture, content_type="image/svg+xml")
        )


def test_every_address_is_tried(mine: Callable[[User], dict[str, list[Any]]]) -> None:  # noqa: F811
    own = mine(person(Role.SITE_ADMINISTRATOR))
    tried = {*list_addresses(own)}
    names = (
        "overview",
        "experiment",
        "run",
        "cluster",
        "cluster_draft_test",
        "audit",
        "operations",
    )
    assert {reverse(name, args=own[RULES[name][1]]) for name in names} <= tried
    assert len(tried) > 140


@pytest.mark.parametrize("part", range(PARTS))
def test_axe_finds_nothing(
    part: int,
    page: Page,
    live_server: LiveServer,
    mine: Callable[[User], dict[str, list[Any]]],  # noqa: F811
) -> None:
    user = person(Role.SITE_ADMINISTRATOR)
    addresses = [*list_addresses(mine(user))][part::PARTS]
    log_in(page, live_server, user)
    leave_out_figures(page)
    faults = []
    for address in addresses:
        if open_address(page, live_server.url + address):
            faults += find_faults(page)
    assert faults == []


def test_axe_finds_nothing_without_logging_in(
    page: Page,
    live_server: LiveServer,
    mine: Callable[[User], dict[str, list[Any]]],  # noqa: F811
) -> None:
    own = mine(person(Role.RESEARCHER))
    leave_out_figures(page)
    faults = []
    for address in (*WITHOUT_LOGGING_IN, reverse("link", args=own["link"])):
        page.goto(live_server.url + address, wait_until="load")
        faults += find_faults(page)
    assert faults == []


@pytest.mark.parametrize("status", ERRORS)
def test_axe_finds_nothing_on_a_page_that_says_what_went_wrong(
    status: int, page: Page, live_server: LiveServer
) -> None:
    body = render_to_string(f"{status}.html", {"exception": "It cannot be."})
    page.route(
        f"{live_server.url}/experiments/",
        lambda route: route.fulfill(status=status, content_type="text/html", body=body),
    )
    page.goto(f"{live_server.url}/experiments/")
    assert find_faults(page) == []


def test_it_would_notice(page: Page, live_server: LiveServer) -> None:
    page.goto(f"{live_server.url}/login/")
    page.evaluate("document.querySelector('label').remove()")
    page.evaluate("document.querySelector('button[type=submit]').style.color = '#fff8'")
    found = {fault.split()[2].rstrip(":") for fault in find_faults(page)}
    assert {"label", "color-contrast"} <= found
