"""A cluster is added and read again in a real browser, by the keyboard alone, over SSH."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Locator, Page, expect

from experiments import execution
from experiments.models import Cluster, ClusterReading, Credential, Partition, Role
from tests.dashboard.conftest import Open, People
from tests.dashboard.test_accessibility_browser import RING, SMALL, nameless
from tests.runners.sshd import Server, serve

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]
MOST_TABS = 80
expect.set_options(timeout=30_000)  # the browser, the site and an SSH server share the machine
Look = Callable[[str], None]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(tmp_path_factory.mktemp("sshd")) as server:
        yield server


def tab_to(page: Page, target: Locator) -> None:
    """Press Tab until the focus is there, and is seen."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if target.evaluate("one => one === document.activeElement"):
            ring = page.evaluate(RING)
            assert (ring["width"] >= 2, ring["contrast"] >= 3) == (True, True), ring
            return
    pytest.fail(f"The keyboard does not reach {target}.")


def press(page: Page, name: str, key: str = "Enter") -> None:
    tab_to(page, page.get_by_role("main").get_by_role("button", name=name, exact=True))
    page.keyboard.press(key)


def type_into(page: Page, label: str, text: str) -> None:
    tab_to(page, page.get_by_label(label, exact=True).locator("visible=true"))
    page.keyboard.press("Control+a")
    page.keyboard.type(text)


def work() -> None:
    """Make the readings that wait for a worker."""
    for pk in ClusterReading.objects.filter(began_at=None, ended_at=None).values_list("pk"):
        execution.read_cluster(*pk)


@pytest.fixture
def look(page: Page) -> Look:
    """Hold a page to the rules for hands and eyes; keep its picture where one is wanted."""

    def see(name: str) -> None:
        assert nameless(page) == []
        assert page.evaluate(SMALL) == []
        for width in (390, 1024, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            if folder := os.environ.get("TARE_PICTURES"):
                page.screenshot(path=Path(folder) / f"{name}-{width}.png", full_page=True)

    return see


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_steps_by_the_keyboard(
    theme: Literal["light", "dark"],
    page: Page,
    open_page: Open,
    people: People,
    server: Server,
    look: Look,
) -> None:
    people.owner.role = Role.CLUSTER_ADMINISTRATOR
    people.owner.save()
    page.emulate_media(color_scheme=theme)
    at = server.address
    open_page("/clusters/new/")
    look(f"{theme}-1-address")
    type_into(page, "Name", "neuro")
    type_into(page, "Host", at.host)
    type_into(page, "Port", str(at.port))
    type_into(page, "Account", at.user)
    page.keyboard.press("Enter")
    expect(page.get_by_text("Tare asks the host for its key")).to_be_visible()
    work()
    expect(page.get_by_text("The host shows", exact=True)).to_be_visible()
    look(f"{theme}-2-host-key")
    press(page, "I have compared it: it is the same")
    expect(page.get_by_text("By which key does Tare log in")).to_be_visible()
    look(f"{theme}-3-credential")
    press(page, "Make the pair")
    expect(page.get_by_text("append this one line to")).to_be_visible()
    look(f"{theme}-3-credential-made")
    credential = Credential.objects.get()
    tab_to(page, page.get_by_role("link", name="The line is installed: continue"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Log in and read the cluster")).to_be_visible()
    look(f"{theme}-4-test")
    press(page, "Log in and read")
    expect(page.get_by_text("waiting")).to_be_visible()
    work()
    expect(page.get_by_text("The cluster could not be read.")).to_be_visible()
    look(f"{theme}-4-test-refused")
    server.authorize(f"{credential.public_key} tare-neuro\n")
    press(page, "Log in and read")
    expect(page.get_by_text("waiting")).to_be_visible()
    work()
    expect(page.get_by_role("heading", name="Results of the test")).to_be_visible()
    expect(page.get_by_role("link", name="5. Confirm")).to_be_visible()  # without a reload
    look(f"{theme}-4-test-found")
    tab_to(page, page.get_by_role("link", name="Continue"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Add this cluster")).to_be_visible()
    look(f"{theme}-5-confirm")
    page.set_viewport_size({"width": 390, "height": 900})
    last = page.get_by_label("QOS of machine").bounding_box()
    assert last
    assert last["x"] + last["width"] <= 390, "a partition is a card"
    page.set_viewport_size({"width": 1440, "height": 900})
    press(page, "Add this cluster")
    expect(page.get_by_text("neuro is added")).to_be_visible()
    partition = Cluster.objects.get().partitions.get()
    assert partition.name == "machine"
    Partition.objects.update(cpus_per_node=4000, gpu_model="", enabled=True)
    open_page(f"/clusters/{partition.cluster_id}/")
    press(page, "Read the cluster again")
    expect(page.get_by_text("waiting")).to_be_visible()
    look(f"{theme}-6-reading")
    work()
    cpus = page.get_by_label("Use CPUs per node of partition machine")
    expect(cpus).to_be_checked()
    look(f"{theme}-6-differences")
    press(page, "Apply selected")
    expect(page.get_by_text("1 difference stored")).to_be_visible()
    look(f"{theme}-6-applied")
    partition.refresh_from_db()
    assert partition.cpus_per_node < 4000
