"""The page *Operations* in a real browser: its news come by themselves, its policy holds."""

from __future__ import annotations

import os
import socket

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from experiments.execution.holder import make_token
from experiments.models import ServiceSign
from tests.dashboard.conftest import People
from tests.factories import PASSWORD

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]


def test_what_ends_shows_without_a_click(
    page: Page, live_server: LiveServer, people: People
) -> None:
    page.goto(f"{live_server.url}/login/")
    page.get_by_label("Username").fill("admin")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{live_server.url}/")
    now = timezone.now()
    place = {"host": socket.gethostname(), "pid": os.getpid(), "started_at": now, "seen_at": now}
    for service, queue in (("worker", "default"), ("worker", "bulk"), ("clock", "")):
        ServiceSign.objects.create(service=service, queue=queue, token=make_token(), **place)
    page.locator("header details.menu summary").click()
    page.locator("header").get_by_role("link", name="Operations").click()
    expect(page.get_by_text("All that Tare needs is running.")).to_be_visible()
    ServiceSign.objects.filter(service="clock").update(ended_at=now)
    note = page.locator(".note.error")
    expect(note).to_contain_text("No clock runs", timeout=30_000)
