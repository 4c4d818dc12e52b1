"""The page *Operations* in a real browser: its news come by themselves, its policy holds."""

from __future__ import annotations

import os
import socket

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from experiments.execution.holder import make_token
from experiments.health.processes import LATE
from experiments.models import ServiceSign
from tests.dashboard.conftest import People
from tests.factories import PASSWORD, ClusterFactory

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]


def log_in(page: Page, live_server: LiveServer) -> None:
    page.goto(f"{live_server.url}/login/")
    page.get_by_label("Username").fill("admin")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{live_server.url}/")


def test_a_phone_shows_all_columns_without_scrolling(
    page: Page, live_server: LiveServer, people: People
) -> None:
    now = timezone.now()
    ClusterFactory(name="a cluster with a long name", last_tick_at=now, last_tick_seconds=0.2)
    place = {"host": socket.gethostname(), "pid": os.getpid(), "started_at": now, "seen_at": now}
    ServiceSign.objects.create(service="worker", queue="default", token=make_token(), **place)
    page.set_viewport_size({"width": 390, "height": 844})
    log_in(page, live_server)
    page.goto(f"{live_server.url}/operations/")
    expect(page.get_by_role("heading", name="Visits to clusters")).to_be_visible()
    hidden = page.eval_on_selector_all(
        ".scroll:has(> .table.as-cards)",
        "boxes => boxes.filter(box => box.scrollWidth > box.clientWidth).length",
    )
    assert hidden == 0
    assert page.locator(".table.as-cards").count() >= 3
    last_visit = page.locator("td[data-label='Last visit']")
    label = last_visit.evaluate("cell => getComputedStyle(cell, '::before').content")
    assert label == '"Last visit: "'


def test_what_ends_shows_without_a_click(
    page: Page, live_server: LiveServer, people: People, roomy_disks: None, empty_queues: None
) -> None:
    log_in(page, live_server)
    now = timezone.now()
    fresh = now + LATE * 0.9  # as fresh as can be: on a busy machine the page takes seconds
    place = {"host": socket.gethostname(), "pid": os.getpid(), "started_at": now, "seen_at": fresh}
    for service, queue in (("worker", "default"), ("worker", "bulk"), ("clock", "")):
        ServiceSign.objects.create(service=service, queue=queue, token=make_token(), **place)
    page.locator("header details.menu summary").click()
    page.locator("header").get_by_role("link", name="Operations").click()
    expect(page.get_by_text("All that Tare needs is running.")).to_be_visible(timeout=30_000)
    ServiceSign.objects.filter(service="clock").update(ended_at=now)
    note = page.locator(".note.error")
    expect(note).to_contain_text("No clock runs", timeout=30_000)
