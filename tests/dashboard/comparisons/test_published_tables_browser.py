"""From a published table to its verdicts, as somebody new would come to them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from experiments.comparisons.published_tables import MOST_BYTES
from experiments.models import PublishedTable
from tests.dashboard.conftest import Open, drawn
from tests.dashboard.published_tables import CLOCK, TABLE_3, WIDE
from tests.experiments.statistics.test_table_formats import FILES
from tests.factories import PublishedTableFactory

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]


def test_from_a_pasted_table_to_its_verdicts(page: Page, open_page: Open) -> None:
    open_page("/")
    page.get_by_role("link", name="Compare", exact=True).click()
    page.get_by_role("link", name="Compare a published table").first.click()
    page.get_by_label("The table").fill(TABLE_3)
    preview = page.locator("#preview")
    expect(preview).to_contain_text("6 values read as means in s, lower is better")
    expect(preview.get_by_label("mean_s is")).to_have_value("mean")
    expect(preview.get_by_label("Baseline")).to_have_value("baremetal")
    preview.get_by_role("button", name="Compare").click()
    page.wait_for_url(re.compile(r"/compare/tables/\d+/$"))
    expect(page.get_by_role("heading", level=1)).to_contain_text("What does uDocker cost")
    verdicts = page.get_by_role("region", name="Verdicts")
    expect(verdicts).to_contain_text("inconclusive against baremetal in 2 of 3 configurations")
    expect(verdicts).to_contain_text("ROUNDING-SENSITIVE: 1")
    page.get_by_text("Interactive chart").first.click()
    assert drawn(page) == 1
    save = page.locator("[data-save=csv]").first
    save.evaluate("button => { button.closest('details').open = true }")
    with page.expect_download() as download:
        save.click()
    assert re.fullmatch(r"tare-table-\d+-forest\.csv", download.value.suggested_filename)


def test_a_column_is_mapped_and_focus_stays(page: Page, open_page: Open) -> None:
    open_page("/compare/tables/new/")
    page.get_by_label("The table").fill(CLOCK)
    preview = page.locator("#preview")
    expect(preview.get_by_role("alert")).to_contain_text("no row of the baseline")
    for name in ("epochs", "top_1"):
        column = preview.get_by_label(f"{name} is")
        column.focus()
        column.select_option("ignore")
        expect(preview.locator("input[name=said]")).to_have_value(re.compile(name))
        expect(column).to_be_focused()
    expect(preview).to_contain_text("1 comparison in 1 configuration")
    preview.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("region", name="Verdicts")).to_contain_text("NO INFERENCE")
    assert PublishedTable.objects.get().reading["roles"] == {"epochs": "ignore", "top_1": "ignore"}


def test_a_file_is_read_into_the_page(page: Page, open_page: Open, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(WIDE)
    open_page("/compare/tables/new/")
    page.get_by_label("or a file").set_input_files(path)
    expect(page.get_by_label("The table")).to_have_value(WIDE)
    expect(page.locator("#preview").get_by_label("udocker is")).to_have_value("arm")
    path.write_text("x," * MOST_BYTES)
    page.get_by_label("or a file").set_input_files(path)
    expect(page.locator("#given").get_by_text("nothing was read or kept")).to_be_visible()
    expect(page.get_by_label("The table")).to_have_value(WIDE)


def test_from_a_file_of_hyperfine_to_its_verdict(page: Page, open_page: Open) -> None:
    open_page("/compare/tables/new/")
    page.get_by_text("Formats that are read").click()
    expect(page.locator("#given")).to_contain_text("JSON of hyperfine: each of the `times`")
    page.get_by_label("or a file").set_input_files(FILES / "hyperfine.json")
    preview = page.locator("#preview")
    expect(preview).to_contain_text("Read as JSON of hyperfine.")
    expect(preview).to_contain_text("Unit: seconds, in which hyperfine stores times.")
    expect(preview.get_by_label("command is")).to_have_value("environment")
    expect(preview.get_by_label("Baseline")).to_have_value("bare metal")
    preview.get_by_role("button", name="Compare").click()
    page.wait_for_url(re.compile(r"/compare/tables/\d+/$"))
    verdicts = page.get_by_role("region", name="Verdicts")
    expect(verdicts).to_contain_text("INCONCLUSIVE")
    expect(verdicts).to_contain_text("8 runs each")


def test_several_files_are_chosen_together(page: Page, open_page: Open) -> None:
    open_page("/compare/tables/new/")
    names = ("pyperf_bare_metal.json", "pyperf_apptainer.json")
    page.get_by_label("or a file").set_input_files([FILES / name for name in names])
    preview = page.locator("#preview")
    expect(preview).to_contain_text("2 files; the name of a file is its environment.")
    expect(preview).to_contain_text("8 values read as single runs in s")
    expect(page.get_by_label("The table")).to_have_value(
        re.compile("==> pyperf_apptainer.json <==")
    )


def test_without_javascript_two_clicks_more_lead_there_too(
    browser: object, open_page: Open, page: Page
) -> None:
    state = page.context.storage_state()
    context = browser.new_context(java_script_enabled=False, storage_state=state)  # type: ignore[attr-defined]
    plain = context.new_page()
    plain.goto(page.url + "compare/tables/new/")
    plain.get_by_label("The table").fill(TABLE_3)
    plain.get_by_role("button", name="Show what is read").click()
    plain.get_by_role("button", name="Compare").click()
    expect(plain.get_by_role("region", name="Verdicts")).to_contain_text(
        "inconclusive against baremetal"
    )
    context.close()


def test_no_page_of_a_table_scrolls_sideways_on_a_phone(page: Page, open_page: Open) -> None:
    wide = "label" * 12 + "," + TABLE_3.splitlines()[0].partition(",")[2]
    row = PublishedTableFactory(
        question="long" * 70,
        source="https://example.org/" + "a" * 300,
        visibility="members",
        text="\n".join([wide, *TABLE_3.splitlines()[1:]]),
        baseline="baremetal",
    )
    page.set_viewport_size({"width": 360, "height": 800})
    for address in (row.get_absolute_url(), "/compare/?tab=tables", "/compare/tables/new/"):
        open_page(address)
        if address.endswith("new/"):
            page.get_by_label("The table").fill(row.text)
            expect(page.locator("#preview")).to_contain_text("What is read")
        over = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert over <= 0, f"{address} is {over} px too wide"


def test_what_keeps_a_table_from_being_compared_stays_until_it_is_mended(
    page: Page, open_page: Open
) -> None:
    open_page("/compare/tables/new/")
    page.get_by_label("The table").fill(TABLE_3)
    expect(page.locator("#preview")).to_contain_text("6 values read")
    margin = page.get_by_label("Margin")
    margin.fill("much")
    expect(page.locator("#id_margin_error")).not_to_be_empty()
    page.get_by_role("button", name="Compare").click()
    summary = page.locator("#summary")
    expect(summary).to_contain_text("Not compared. To be filled in or corrected: Margin")
    expect(summary).to_be_focused()
    page.get_by_label("Source").fill("A paper")
    expect(page.locator("#preview")).not_to_have_class(re.compile("htmx"))
    expect(summary).to_contain_text("Margin")
    margin.fill("2")
    expect(summary).to_be_empty()
    expect(margin).not_to_have_attribute("aria-invalid", "true")
