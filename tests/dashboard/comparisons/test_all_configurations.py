"""What all cells of an experiment say together: on its pages and in every file."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.comparisons.panels import latex_file
from dashboard.templatetags.numbers import unbroken
from experiments.comparisons import compare_experiment
from experiments.models import Experiment
from tests.dashboard.conftest import People, Site, measured, read_report

pytestmark = pytest.mark.django_db


@pytest.fixture
def two_scales(site: Site, people: People) -> Experiment:
    return measured(site, people.owner, scales=["1x1", "1x2"], margin=0.15)


def test_the_summary_stands_beside_the_cells(two_scales: Experiment, as_owner: Client) -> None:
    comparison = compare_experiment(two_scales)
    (one,) = comparison.everywhere
    assert (one.configurations, one.equivalent_in_all) == (2, True)
    page = read_report(as_owner, two_scales)
    said = "Apptainer is equivalent to bare metal within 15 % in both configurations compared"
    assert unbroken(said) in page
    assert "intersection-union" in page
    assert unbroken(one.claim) in as_owner.get(two_scales.get_absolute_url()).content.decode()


def test_the_summary_is_in_every_file(two_scales: Experiment, as_owner: Client) -> None:
    comparison = compare_experiment(two_scales)
    (one,) = comparison.everywhere
    answer: Any = as_owner.get(reverse("comparison_csv", args=[two_scales.pk]))
    rows = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))
    assert [row["scale"] for row in rows] == ["1x1", "1x2", ""]
    assert float(rows[-1]["geometric_mean_ratio"]) == one.ratio
    found = json.loads(as_owner.get(reverse("comparison_json", args=[two_scales.pk])).content)
    assert len(found["comparison"]) == 2
    (exported,) = found["all_cells"]
    assert exported["largest_p_equivalence"] == one.largest_p_equivalence
    assert (exported["ci95_low"], exported["ci95_high"]) == one.ci95
    assert exported["sentence"] == one.sentence
    assert "equivalent in all" in latex_file(comparison)


def test_one_cell_needs_no_summary(results: Experiment, as_owner: Client) -> None:
    page = read_report(as_owner, results)
    assert "All configurations" not in page
    assert "intersection-union" not in page
    found = json.loads(as_owner.get(reverse("comparison_json", args=[results.pk])).content)
    assert found["all_cells"] == []
