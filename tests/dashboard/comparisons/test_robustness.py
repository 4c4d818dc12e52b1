"""The panel of other tests: on demand, beside the verdict, never in its place."""

from __future__ import annotations

import json
import sys

import pytest
from django.test import Client
from django.urls import reverse

from experiments.comparisons import compare_experiment
from experiments.comparisons.companions import compute_companions
from experiments.models import Experiment
from tests.dashboard.comparisons.test_interim_pages import under_way
from tests.dashboard.conftest import People, Site, measured, read_report
from tests.dashboard.planning.test_form import HTMX
from tests.factories import block

pytestmark = pytest.mark.django_db


@pytest.fixture
def ten(site: Site, people: People) -> Experiment:
    return measured(site, people.owner, blocks=10, question="What does it cost?")


def test_the_comparison_links_to_it_and_a_click_fetches_the_panel(
    ten: Experiment, as_owner: Client
) -> None:
    address = reverse("robustness", args=[ten.pk])
    page = read_report(as_owner, ten)
    assert f'href="{address}" hx-get="{address}" hx-target="#robustness"' in page
    assert "Wilcoxon" not in page
    fragment = as_owner.get(address, headers=HTMX).content.decode()
    assert "<html" not in fragment
    whole = as_owner.get(address).content.decode()
    assert "<html" in whole
    for words in (
        "Wilcoxon’s signed ranks",
        "A permutation of signs",
        "The 20 % trimmed mean",
        "Fieller’s interval",
        "Shapiro-Wilk: Apptainer / bare metal",
        "All agree with Student’s t about whether there is a difference.",
        'data-chart="quantiles-0"',
    ):
        assert words in fragment
        assert words in whole
    assert "BCa" not in whole


def test_few_runs_are_not_checked(results: Experiment, as_owner: Client) -> None:
    page = read_report(as_owner, results)
    assert reverse("robustness", args=[results.pk]) not in page
    assert "Too few runs to check by other tests" in page
    panel = as_owner.get(reverse("robustness", args=[results.pk])).content.decode()
    assert "Too few runs to check: from 8 blocks on." in panel
    assert "quantiles" not in panel


def test_nothing_is_said_before_the_verdict(site: Site, people: People, as_owner: Client) -> None:
    experiment = under_way(site, people, blocks=9, planned=10)
    for name in ("comparison", "robustness", "comparison_json"):
        text = as_owner.get(reverse(name, args=[experiment.pk])).content.decode()
        assert "Wilcoxon" not in text
        assert "Shapiro" not in text
    panel = as_owner.get(reverse("robustness", args=[experiment.pk])).content.decode()
    assert "nothing to check before there is a verdict" in panel


def test_json_has_every_companion(ten: Experiment, as_owner: Client) -> None:
    exported = json.loads(as_owner.get(reverse("comparison_json", args=[ten.pk])).content)
    (row,) = exported["robustness"]
    assert row["environment"] == "Apptainer"
    assert [one["name"] for one in row["companions"]] == [
        "Wilcoxon’s signed ranks",
        "a permutation of signs",
        "the 20 % trimmed mean",
        "Fieller’s interval",
    ]
    assert {"of", "n", "w", "p"} == row["normality"][0].keys()
    (pair,) = exported["comparison"]
    assert (pair["verdict"], row["p_difference"]) == ("SLOWER", pair["p_difference"])


def test_it_judges_what_the_verdict_rests_on(site: Site, people: People) -> None:
    """Sixteen repeats, decided at the first look, after eight of them."""
    experiment = under_way(site, people, blocks=8, planned=16, looks=2)
    before = [one.robustness for one in compute_companions(compare_experiment(experiment))]
    experiment.jobs.filter(repeat__gt=8).delete()
    for repeat in range(9, 17):
        block(experiment, repeat, {site.bare: 1.0, site.container: 0.5})
    after = compute_companions(compare_experiment(experiment))
    assert [one.robustness for one in after] == before
    assert after[0].pair.interim_analysis
    assert after[0].pair.interim_analysis.later_size == "16 blocks"


def test_it_needs_no_scipy_stats(ten: Experiment, as_owner: Client) -> None:
    """Which would cost each web process 80 MB."""
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if _heavy(name)}
    try:
        assert as_owner.get(reverse("robustness", args=[ten.pk])).status_code == 200
        assert not [name for name in sys.modules if _heavy(name)]
    finally:
        sys.modules.update(kept)


def _heavy(name: str) -> bool:
    return name == "scipy.stats" or name.startswith("scipy.stats.")
