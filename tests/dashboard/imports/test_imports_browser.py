"""Logs are imported in a real browser: the file is chosen once, whatever else has to be mended."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from experiments.imports import list_files, read_logs
from experiments.imports.imported_runs import store
from experiments.models import Experiment
from tests import tf_cnn_logs as logs
from tests.dashboard.conftest import Open, People, show_all_sections

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]


def test_logs_become_an_experiment(page: Page, open_page: Open, tmp_path: Path) -> None:
    archive = tmp_path / "k80.zip"
    archive.write_bytes(logs.as_zip(logs.runs()).getvalue())
    open_page("/experiments/import/")
    page.get_by_label("Logs").set_input_files(archive)
    found = page.locator("#found")
    expect(found).to_contain_text("synthetic_resnet50, batch 64")
    page.get_by_role("radio", name="udocker").check()
    page.get_by_role("button", name="Import 6 runs").click()
    expect(page.locator("#id_question_error")).to_contain_text("This field is required")
    expect(page.get_by_role("radio", name="udocker")).to_be_checked()
    summary = page.locator("#summary")
    expect(summary).to_contain_text("Not imported. To be filled in or corrected: Question")
    expect(summary).to_be_focused()
    page.get_by_label("The environment is").dispatch_event("change")  # a preview, and no attempt
    expect(page.locator("#found")).not_to_have_class(re.compile("htmx"))
    expect(page.get_by_label("Question")).to_have_attribute("aria-invalid", "true")
    expect(summary).to_contain_text("Question")
    summary.get_by_role("link", name="Question").click()
    expect(page.get_by_label("Question")).to_be_focused()
    page.get_by_label("Question").fill("What does Singularity cost?")
    page.get_by_role("button", name="Import 6 runs").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("What does Singularity cost?")
    expect(page.locator(".verdict", has_text="SLOWER").first).to_be_visible()
    assert Experiment.objects.get().baseline.name == "udocker"


def test_what_is_wrong_with_a_file_is_said_at_once(
    page: Page, open_page: Open, tmp_path: Path
) -> None:
    open_page("/experiments/import/")
    for name, content, words in (
        ("notes.zip", b"not a zip", "neither a zip, a tar nor a tar.gz"),
        ("../x.zip", logs.as_zip({"../a/metric.log": "x"}).getvalue(), "leads out of the archive"),
    ):
        archive = tmp_path / Path(name).name
        archive.write_bytes(content)
        page.get_by_label("Logs").set_input_files(archive)
        expect(page.locator("#found")).to_contain_text(words)
    expect(page.get_by_role("button", name="Import")).to_have_count(0)


def test_many_configurations_are_folded_on_screen_and_whole_on_paper(
    page: Page, open_page: Open, people: People
) -> None:
    """Verdicts, forest and methods stand open; tables and plots of each are opened one by one."""
    experiment = store(
        read_logs(list_files(logs.as_zip(logs.five_epochs()))),
        environment=0,
        baseline="lsdf_udocker_5epoch",
        question="What do five epochs cost?",
        margin=0.02,
        owner=people.owner,
        source="logs.zip",
        machine="K80",
    )
    page.set_viewport_size({"width": 1440, "height": 900})
    address = f"/experiments/{experiment.pk}/comparison/"
    open_page(address)
    assert page.evaluate("document.documentElement.scrollHeight") < 2_700
    open_page(show_all_sections(address))
    assert page.evaluate("document.documentElement.scrollHeight") < 12_000
    headings = page.locator("details.panel > summary")
    folded = headings.count()
    table = page.locator("#anatomy table:not(.exports)").first
    expect(table).to_be_hidden()
    headings.get_by_text("Phases").click()
    expect(table).to_be_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator("details.panel[open]")).to_have_count(folded)
    tables = page.locator("details.panel table:not(details.panel details table, .exports)")
    expect(tables.last).to_be_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(page.locator("details.panel[open]")).to_have_count(1)
    expect(table).to_be_visible()
    page.emulate_media(media="print")  # without the event, as without JavaScript
    expect(tables.last).to_be_visible()
