"""A user's own program is entered in a real browser, and its metrics tried while they are typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from experiments.models import Workload
from tests.dashboard.conftest import Open
from tests.tf_cnn_logs import output

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]


def test_a_pattern_shows_its_matches_while_it_is_typed(
    page: Page, open_page: Open, tmp_path: Path
) -> None:
    script = tmp_path / "train.sh"
    script.write_text("cat log\n")
    open_page("/catalogue/workloads/new/?kind=command")
    page.get_by_label("Name", exact=True).fill("mine")
    page.get_by_label("Command").fill("sh train.sh")
    page.get_by_label("Add files").set_input_files(script)
    page.get_by_label("Result source").select_option("patterns")
    page.locator("#id_metric-0-name").fill("rate")
    page.locator("#id_metric-0-unit").fill("images/s")
    page.get_by_label("Try it on a log").fill(output())
    tried = page.locator("#tried")
    expect(tried).to_contain_text("It is empty")
    find = page.locator("#id_metric-0-find")
    find.fill("^total images/sec: (")
    expect(tried).to_contain_text("missing )")
    find.fill(r"^total images/sec: ([\d.]+)")
    expect(tried).to_contain_text("127.5 images/s")
    expect(tried.locator("mark")).to_have_text("127.50")
    expect(find).to_be_focused()
    page.get_by_role("button", name="Add to the catalogue").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("mine")
    made = Workload.objects.get()
    assert list(made.parameters["files"]) == ["train.sh"]
    assert made.parameters["metrics"][0]["unit"] == "images/s"
