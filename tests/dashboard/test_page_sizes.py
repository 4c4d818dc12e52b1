"""What pages send and ask where there is much to show."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from benchmarks.site_pages import make_experiment_of_curves
from dashboard.comparisons import forest_figure
from experiments.comparisons import keep_comparison
from experiments.comparisons.kept_rows import KeptRows
from experiments.models import Experiment, Job
from tests.dashboard.conftest import People, Site, measured
from tests.dashboard.test_query_counts import count_queries
from tests.factories import ClusterFactory, ImageFactory, JobFactory

pytestmark = pytest.mark.django_db

MOST_BYTES = 500_000
MOST_STATEMENTS = 15


def test_curves_of_20_runs_with_five_series_of_1000_steps_are_no_500_kb(people: People) -> None:
    pk = make_experiment_of_curves(people.owner)
    client = people.client("owner")
    address = reverse("comparison_steps", args=[pk])
    page = client.get(address).content
    sources = re.findall(r'data-source="([^"]+)"', page.decode())
    assert page.count(b"data-chart=") == 5
    assert len(sources) == 4, "the chart of the tail is small"
    assert len(page) < MOST_BYTES // 5
    for source in sources:
        chart = client.get(html.unescape(source))
        assert len(chart.content) < MOST_BYTES // 3
        assert len(chart.json()["data"]) == 4, "the runs and the median of each environment"
    assert count_queries(client, address) <= MOST_STATEMENTS


def test_a_page_of_a_kept_comparison_makes_no_rows_that_it_does_not_show(
    site: Site, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = measured(site, people.owner, blocks=6, scales=["1x1", "1x2"])
    assert keep_comparison(experiment.pk) == "kept"
    made: list[Any] = []
    make = KeptRows._make
    monkeypatch.setattr(KeptRows, "_make", lambda self, row: made.append(row) or make(self, row))
    address = reverse("comparison", args=[experiment.pk])
    samples = experiment.runs.count()

    def count_rows(query: str) -> int:
        made.clear()
        assert people.client("owner").get(address + query).status_code == 200
        return len(made)

    assert count_rows("?section=verdicts") < samples
    assert count_rows("?section=runs&configuration=all") >= samples


def test_blocks_are_listed_only_of_a_pair_that_is_alone_in_its_figure(
    site: Site, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    list_ratios: Callable[..., Any] = forest_figure.list_block_ratios

    def note(group: Any, pair: Any) -> Any:
        listed.append(pair.environment)
        return list_ratios(group, pair)

    monkeypatch.setattr(forest_figure, "list_block_ratios", note)

    def show(experiment: Experiment) -> int:
        listed.clear()
        people.client("owner").get(reverse("comparison", args=[experiment.pk]))
        return len(listed)

    assert show(measured(site, people.owner, scales=["1x1", "1x2"])) == 0
    assert show(measured(site, people.owner)) >= 1


def test_an_image_asks_as_often_for_many_clusters(as_owner: Client, people: People) -> None:
    image = ImageFactory(owner=people.owner)
    address = reverse("image", args=[image.pk])
    ClusterFactory(owner=people.owner)
    few = count_queries(as_owner, address)
    for _ in range(4):
        ClusterFactory(owner=people.owner)
    assert count_queries(as_owner, address) == few


def test_the_list_of_clusters_counts_what_is_under_way_there(
    as_owner: Client, site: Site, people: People
) -> None:
    experiment = measured(site, people.owner, blocks=2)
    for number, state in enumerate(("running", "queued", "planned", "planned"), start=3):
        JobFactory(experiment=experiment, repeat=number, state=Job.State(state))
    rows = as_owner.get(reverse("clusters")).context["listing"].page.object_list
    (row,) = (row for row in rows if row.name == "lab")
    assert (row.live_jobs, row.waiting_jobs) == (2, 2)
