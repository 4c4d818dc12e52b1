"""Several values of a parameter, typed in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from experiments.models import Experiment
from tests.dashboard.conftest import Open, Site
from tests.factories import WorkloadFactory

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]


def test_variants_are_counted_and_named_while_they_are_typed(
    page: Page, open_page: Open, site: Site
) -> None:
    owner = site.workload.owner
    net = WorkloadFactory(name="net", kind="cnn", parameters={}, owner=owner, visibility="members")
    open_page("/experiments/new/")
    summary = page.locator(".workload-choice", has_text="net").locator("summary")
    expect(summary).to_be_hidden()
    page.get_by_label("Question").fill("Does it depend on the batch?")
    page.get_by_role("checkbox", name="net Training").check()
    page.get_by_role("checkbox", name="Apptainer").check()
    expect(summary).to_be_visible()
    summary.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    field = page.locator(f"#id_sweep_{net.pk}")
    expect(field).to_be_focused()
    page.keyboard.type("batch_size: 32..128 x2")
    variants = page.locator(f"#id_sweep_{net.pk}_variants")
    expect(variants).to_contain_text("3 variants:")
    expect(page.locator("#consequences")).to_contain_text("15")
    page.keyboard.press("Enter")
    page.keyboard.type("seedling: 1")
    expect(page.locator(f"#id_sweep_{net.pk}_error")).to_contain_text("Is seed meant?")
    expect(variants).to_be_empty()
    expect(field).to_be_focused()
    for _ in range(len("seedling: 1") + 1):
        page.keyboard.press("Backspace")
    expect(variants).to_contain_text("batch_size=128")
    page.get_by_role("button", name="Save draft").click()
    expect(page.locator("h1")).to_contain_text("Does it depend on the batch?")
    expect(page.locator("table", has_text="net batch_size=128").first).to_be_visible()
    assert Experiment.objects.get().sweeps == {str(net.pk): "batch_size: 32..128 x2"}
