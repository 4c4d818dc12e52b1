"""Runs that rules of the plan rejected: the page, its files and its sentences count them."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse

from experiments.comparisons import keep_comparison
from experiments.models import Experiment, Run
from tests.dashboard.conftest import People, Site, measured, read_report
from tests.factories import link_to

pytestmark = pytest.mark.django_db
SWAP = "By the plan's rules: 19 pages went to swap or came from it."


def reject(experiment: Experiment, repeats: range, **which: Any) -> None:
    experiment.runs.filter(repeat__in=repeats, **which).update(
        state=Run.State.FAILED, reason="rejected", message=SWAP
    )


@pytest.fixture
def experiment(site: Site, people: People) -> Experiment:
    made = measured(site, people.owner, blocks=10, repeats=10, reject_swap=True)
    reject(made, range(1, 7), environment=site.container)
    return made


def read(client: Client, experiment: Experiment, name: str) -> str:
    answer: Any = client.get(reverse(name, args=[experiment.pk]))
    assert answer.status_code == 200
    return str((b"".join(answer) if answer.streaming else answer.content).decode())


def test_the_page_has_stamp_panel_and_a_line_below_the_matrix(
    experiment: Experiment, site: Site, as_owner: Client
) -> None:
    page = BeautifulSoup(read_report(as_owner, experiment), "html.parser")
    assert "REJECTIONS DIFFER" in page.select_one(".verdicts .stamp").get_text()  # type: ignore[union-attr]
    panel = page.select_one("#rejections")
    assert panel
    cells = [[cell.get_text(strip=True) for cell in row.select("td")] for row in panel.select("tr")]
    assert cells[2:] == [["0", "10", "–", "–"], ["6", "10", "swap: 6", "0.011"]]
    line = page.select_one("a[href$='?section=rejections#sections']")
    assert line
    assert line.parent
    assert "6 runs were rejected by rules of the plan" in " ".join(line.parent.get_text().split())


def test_the_files_have_the_numbers_and_the_reason(
    experiment: Experiment, as_owner: Client
) -> None:
    rows = json.loads(read(as_owner, experiment, "comparison_json"))["rejections"]
    assert [(row["rejected_runs"], row["judged_runs"]) for row in rows] == [(0, 10), (6, 10)]
    table = list(csv.DictReader(io.StringIO(read(as_owner, experiment, "comparison_csv"))))
    assert [row["rejected_by"] for row in table if row["judged_runs"]] == ["", "swap: 6"]
    assert "REJECTIONS DIFFER" in table[0]["stamps"]
    latex = read(as_owner, experiment, "comparison_tex")
    assert "pages went to swap or came from it: 6 runs were rejected, 6 of" in latex


def test_without_rejections_there_is_no_section(
    site: Site, people: People, as_owner: Client
) -> None:
    made = measured(site, people.owner, reject_swap=True)
    page = read_report(as_owner, made)
    assert 'id="rejections"' not in page
    assert "section=rejections" not in page
    assert "where pages went to swap or came from it: none was." in page


def test_where_all_are_rejected_the_page_says_so(experiment: Experiment, as_owner: Client) -> None:
    reject(experiment, range(1, 11))
    page = read(as_owner, experiment, "comparison")
    assert "Nothing to compare yet" in page
    assert "20 of them were rejected by rules of the plan." in " ".join(page.split())


def test_a_link_that_hides_names_hides_them_here(
    experiment: Experiment, site: Site, client: Client
) -> None:
    keep_comparison(experiment.pk)
    client.get(link_to(experiment, hides_names=True))
    for text in (
        read_report(client, experiment),
        read(client, experiment, "comparison_json"),
        read(client, experiment, "comparison_csv"),
    ):
        assert "REJECTIONS DIFFER" in text
        assert experiment.owner.username not in text
