"""The pages of publishing in a browser: nothing is wider than a phone, and the way through them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, expect
from pytest_django import Settings

from experiments.models import Deposit, DepositToken
from experiments.models.database_time import database_now
from experiments.signing import make_signing_key
from tests.dashboard.conftest import Open, People, Site, measured
from tests.deposit_service import TOKEN

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]
WIDTHS = (390, 1024, 1440)
AUTHORS = "Curie, Marie; 0000-0002-1825-0097; Sorbonne\nSkłodowska, Helena"
PROBLEM = (
    "zenodo.org refuses it (HTTP 400). It says: Validation error "
    "metadata.related_identifiers.0.identifier: notaurlbutaverylongidentifierwithoutanyblanks"
)
SHOTS = os.environ.get("PUBLISHING_SHOTS", "")
"""A folder for pictures of the pages, to be looked at."""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_experiment_is_published_at_any_width(
    theme: Literal["light", "dark"],
    page: Page,
    open_page: Open,
    site: Site,
    people: People,
    settings: Settings,
) -> None:
    settings.DEPOSIT_ADDRESS = "https://zenodo.org/api"
    make_signing_key()
    experiment = measured(site, people.owner, question="What does Apptainer cost with cuDNN 9.15?")
    page.emulate_media(color_scheme=theme)
    address = f"/experiments/{experiment.pk}/"
    open_page(address)
    page.get_by_role("link", name="Publication").click()
    page.get_by_label("Authors").fill(AUTHORS)
    page.get_by_label("Licence").fill("cc-by-4.0")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#bibtex")).to_contain_text("Curie, Marie and")
    expect(page.get_by_text("Your account has no token of zenodo.org.")).to_be_visible()
    DepositToken.objects.create(owner=people.owner, service=settings.DEPOSIT_ADDRESS, token=TOKEN)
    Deposit.objects.create(
        experiment=experiment,
        owner=people.owner,
        service=settings.DEPOSIT_ADDRESS,
        state=Deposit.State.FAILED,
        requested_at=database_now(),
        deposition=1,
        doi="10.5281/zenodo.1234567",
        page="https://zenodo.org/deposit/1234567",
        problem=PROBLEM,
    )
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for number, shown in enumerate((address, f"{address}publication/", "/account/publishing/")):
            open_page(shown)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, shown
            if SHOTS:
                path = Path(SHOTS) / f"{number}-{width}-{theme}.png"
                page.screenshot(path=str(path), full_page=True)
    open_page(address)
    page.locator("#export > summary").click()
    expect(page.get_by_label("Cite, BibTeX")).to_be_visible()
