"""The pages of data sets on a phone: nothing is wider than the screen, long names break."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from experiments.models import DataCopy
from tests.dashboard.conftest import Open, People, Site
from tests.dashboard.test_looks_browser import PHONE, WIDER
from tests.factories import DataCopyFactory, DataSetFactory, OperationFactory, WorkloadFactory

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]


@pytest.fixture
def copy(people: People, site: Site) -> DataCopy:
    data_set = DataSetFactory(
        name="ImageNet (ILSVRC 2012), 1.28 million JPEG files",
        owner=people.owner,
        source="https://image-net.org/" + "challenges/" * 9,
        description="As it comes from its authors.",
        files=1_331_167,
        size_bytes=154_000_000_000,
    )
    made: DataCopy = DataCopyFactory(
        data_set=data_set,
        cluster=site.cluster,
        path="/projects/" + "shared-data/" * 9 + "imagenet",
        state=DataCopy.State.CHANGED,
        message="train/n01440764/n01440764_10026.JPEG has 13698 bytes, not 13697; and 17 more",
    )
    OperationFactory(
        kind="check_data", staged_image=None, data_copy=made, cluster=made.cluster,
        owner=people.owner, state="failed", message=made.message,
    )  # fmt: skip
    WorkloadFactory(name="resnet50", kind="cnn", data_set=data_set, owner=people.owner)
    return made


def test_pages_of_data_sets_fit_a_phone(page: Page, open_page: Open, copy: DataCopy) -> None:
    page.set_viewport_size(PHONE)
    for address in (
        "/catalogue/?tab=datasets",
        copy.data_set.get_absolute_url(),
        "/catalogue/data-sets/new/",
        f"/catalogue/data-sets/{copy.data_set_id}/edit/",
    ):
        open_page(address)
        wider = "() => document.documentElement.scrollWidth > window.innerWidth + 1"
        assert not page.evaluate(wider), address
    open_page("/catalogue/?tab=datasets")
    assert page.evaluate(WIDER) == []


def test_all_parts_of_the_catalogue_are_seen_on_a_phone(page: Page, open_page: Open) -> None:
    page.set_viewport_size(PHONE)
    for tab in ("images", "workloads", "environments", "datasets"):
        open_page(f"/catalogue/?tab={tab}")
        tabs = page.locator('nav[aria-label="Parts of the catalogue"]')
        width, seen = tabs.evaluate("nav => [nav.scrollWidth, nav.clientWidth]")
        assert width <= seen, tab
