"""Margins of training come and go with the workloads that are ticked, and are typed in peace."""

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


def test_margins_come_with_a_training_and_keep_what_is_typed(
    page: Page, open_page: Open, site: Site
) -> None:
    owner = site.workload.owner
    WorkloadFactory(
        name="net", kind="cnn", parameters={"evaluate": True}, owner=owner, visibility="members"
    )
    open_page("/experiments/new/")
    summary = page.locator("#training summary")
    expect(summary).to_be_hidden()
    page.get_by_label("Question").fill("Does it train alike?")
    page.get_by_role("checkbox", name="net Training").check()
    page.get_by_role("checkbox", name="Apptainer").check()
    expect(summary).to_be_visible()
    summary.click()
    page.locator("#id_accuracy_margin").focus()
    page.keyboard.type("0.")
    expect(page.locator("#consequences")).to_contain_text("5")
    page.keyboard.type("5")
    expect(page.locator("#id_accuracy_margin")).to_be_focused()
    expect(page.locator("#id_accuracy_margin")).to_have_value("0.5")
    page.locator("#id_loss_margin").fill("nought")
    expect(page.locator("#id_loss_margin_error")).to_contain_text("Enter a number.")
    page.locator("#id_loss_margin").fill("0.02")
    page.get_by_role("button", name="Save draft").click()
    expect(page.locator("h1")).to_contain_text("Does it train alike?")
    saved = Experiment.objects.get()
    assert (saved.accuracy_margin, saved.loss_margin) == (0.5, 0.02)
