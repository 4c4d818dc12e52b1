"""Help: every field and panel of the pages that matter most leads to its paragraph."""

from __future__ import annotations

from typing import Any
from urllib.parse import urldefrag

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse

from dashboard.comparisons.panels import PANELS as COMPARISON_PANELS
from dashboard.docs.documents import map_files, read_document
from dashboard.planning.experiment_forms import ExperimentForm
from experiments.admin.cluster_pages import ClusterAdmin, PartitionInline, RuntimeInline
from experiments.help_targets import FIELDS, PANELS, find_field_help, split_target
from experiments.models import Experiment
from tests.dashboard.conftest import People, Site

pytestmark = pytest.mark.django_db

TARGETS = sorted(
    {target for table in (FIELDS, PANELS) for group in table.values() for target in group.values()}
)


def read(client: Client, address: str) -> BeautifulSoup:
    answer = client.get(address)
    assert answer.status_code == 200
    return BeautifulSoup(answer.content.decode(), "html.parser")


def names(page: BeautifulSoup) -> list[str]:
    return [str(link["title"]) for link in page.select("a.help-link")]


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_is_a_heading_of_a_document(target: str) -> None:
    name, anchor = split_target(target)
    assert name in map_files()
    assert anchor in {heading.anchor for heading in read_document(name).headings}


def test_every_field_of_an_experiment_has_its_paragraph() -> None:
    assert set(ExperimentForm.base_fields) == set(FIELDS["ExperimentForm"])


def flatten(fields: Any) -> set[str]:
    return {name for row in fields for name in (row if isinstance(row, tuple) else (row,))}


def test_every_field_of_a_cluster_that_can_be_changed_has_its_paragraph() -> None:
    shown = {name for _, about in ClusterAdmin.fieldsets for name in about["fields"]}
    assert shown - set(ClusterAdmin.readonly_fields) == set(FIELDS["ClusterForm"])
    assert flatten(PartitionInline.fields) == set(FIELDS["PartitionForm"])
    assert flatten(RuntimeInline.fields) == set(FIELDS["RuntimeForm"])


def test_every_panel_of_a_comparison_has_its_paragraph() -> None:
    panels = {panel.name for panel in COMPARISON_PANELS}
    assert panels <= set(PANELS["comparison"])
    assert set(PANELS["comparison"]) - panels <= {"matrix", "forest", "export"}


def test_the_form_of_an_experiment_links_from_every_field(as_owner: Client, site: Site) -> None:
    page = read(as_owner, reverse("experiment_new"))
    shown = names(page)
    labels = ("Question", "Cluster", "Partition", "Workloads", "Environments", "Scales", "Repeats")
    labels += ("Interim analyses", "Margin", "Primary metric", "Design", "Warm-up", "Visibility")
    for label in (*labels, "Cool-down between runs", "Cost"):
        assert f"Help on {label}" in shown
    assert len(shown) == len(set(shown))


def test_every_open_section_of_a_comparison_has_a_link(
    as_owner: Client, results: Experiment
) -> None:
    address = reverse("comparison", args=[results.pk])
    page = read(as_owner, f"{address}?section=all")
    helped = page.select(".helped")
    assert len(helped) >= 9
    for box in helped:
        link = box.find("a", class_="help-link")
        assert link, box.get_text(" ", strip=True)[:100]
        assert len(str(link["title"])) > len("Help on ")
    assert {"Help on verdicts", "Help on the forest plot"} <= set(names(page))


def test_links_lead_to_pages_that_open_without_an_account(
    as_owner: Client, results: Experiment
) -> None:
    page = read(as_owner, reverse("comparison", args=[results.pk]))
    for link in page.select("a.help-link"):
        address, anchor = urldefrag(str(link["href"]))
        assert read(Client(), address).find(id=anchor)


def test_the_administration_of_a_cluster_links_from_its_fields(people: People, site: Site) -> None:
    address = reverse("admin:experiments_cluster_change", args=[site.cluster.pk])
    page = read(people.client("admin"), address)
    links = {str(link["href"]) for link in page.select("a[target=tare-docs]")}
    assert reverse("document", args=["clusters"]) + "#limits" in links
    assert reverse("document", args=["clusters"]) + "#launchers" in links
    assert reverse("document", args=["runtimes"]) + "#notes-for-administrators" in links


def test_a_field_without_a_paragraph_has_no_link() -> None:
    assert find_field_help(["LoginForm"], "username") is None
