"""Every panel of the comparison page has its template, is shown, and is exported."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.template.loader import get_template
from django.test import Client, RequestFactory
from django.urls import reverse

from dashboard.comparisons.panels import PANELS, Panel, compute_panels, list_panels
from experiments.comparisons import Comparison, ExperimentComparison, compare_experiment
from experiments.comparisons.published_tables import TableComparison, compare_published
from experiments.comparisons.step_summaries import add_step_summary
from experiments.models import Experiment, Run
from tests.dashboard.conftest import People, show_all_sections
from tests.dashboard.published_tables import TABLE_3
from tests.factories import (
    LaunchedFactory,
    MeasurementFactory,
    PublishedTableFactory,
    SeriesFactory,
    WorkloadFactory,
    block,
)
from tests.starts import started

pytestmark = pytest.mark.django_db
FOLDER = settings.BASE_DIR / "templates" / "comparisons" / "panels"


@pytest.fixture
def experiment(people: People, as_owner: Client) -> Experiment:
    """Trainings that have recorded all that a panel can show.

    A person has excluded one of them, and a rule of the plan has rejected another.
    """
    made: Experiment = started(owner=people.owner, visibility="members").experiment
    for run in made.runs.all():
        loss = SeriesFactory.build(run=run, metric="loss", unit="1", values=[2.3, 1.0, 0.5])
        add_step_summary(loss).save()
        MeasurementFactory(run=run, metric="accuracy", value=0.6 + run.repeat / 100, unit="1")
        MeasurementFactory(run=run, metric="step_time_sd", value=1e-4 * run.repeat)
        Run.objects.filter(pk=run.pk).update(phases={"import": 0.5, "steady state": 60.0})
    last = made.runs.latest("pk")
    as_owner.post(reverse("run_exclude", args=[last.uid]), {"why": "the node was hot"})
    first = LaunchedFactory(owner=people.owner, visibility="members")
    Experiment.objects.filter(pk=made.pk).update(
        reject_swap=True, reproduces=first, reproduction={}
    )
    rejected = made.runs.exclude(pk=last.pk).latest("pk")
    message = "By the plan's rules: 19 pages went to swap or came from it."
    Run.objects.filter(pk=rejected.pk).update(
        state=Run.State.FAILED, reason="rejected", message=message
    )
    return Experiment.objects.get(pk=made.pk)


@pytest.fixture
def comparisons(experiment: Experiment, people: People) -> list[Comparison]:
    table = PublishedTableFactory(owner=people.owner, text=TABLE_3, baseline="baremetal")
    two_workloads = LaunchedFactory(
        owner=people.owner,
        visibility="members",
        workloads=[WorkloadFactory(parameters={"matrix_size": size}) for size in (64, 128)],
    )
    for place, workload in enumerate(two_workloads.workloads.all()):
        time = {two_workloads.baseline: 1.0 + place}
        block(two_workloads, 1, time, workload=workload, block=place)
    return [
        compare_experiment(experiment),
        compare_experiment(two_workloads),
        compare_published(table),
    ]


def address_of(comparison: Comparison, suffix: str = "") -> str:
    if isinstance(comparison, TableComparison):
        return reverse(f"table{suffix}", args=[comparison.row.pk])
    assert isinstance(comparison, ExperimentComparison)
    return reverse(f"comparison{suffix}", args=[comparison.experiment.pk])


def open_request() -> Any:
    """Return a request for a page, without anything in its address."""
    request: Any = RequestFactory().get("/")
    request.user = AnonymousUser()
    return request


def test_names_are_unique_and_every_panel_has_its_template_and_every_template_its_panel() -> None:
    names = [panel.name for panel in PANELS]
    assert len(set(names)) == len(names)
    assert {path.stem for path in FOLDER.glob("*.html")} == set(names)
    for panel in PANELS:
        get_template(panel.template)


def test_each_panel_is_shown_under_its_heading_in_the_order_of_the_list(
    comparisons: list[Comparison], as_owner: Client
) -> None:
    shown: set[str] = set()
    for comparison in comparisons:
        panels = [panel for panel, _ in compute_panels(comparison, open_request())]
        page = BeautifulSoup(
            as_owner.get(show_all_sections(address_of(comparison))).content, "html.parser"
        )
        headings = [
            heading.get_text(strip=True) if heading else section.get("aria-label")
            for section in page.select(".panel")
            for heading in [section.find("h2") or section.select_one(":scope > .more > summary")]
        ]
        places = [headings.index(panel.heading) for panel in panels if panel.heading]
        assert places == sorted(places)
        shown |= {panel.name for panel in panels}
    assert shown == {panel.name for panel in PANELS}


def test_the_rows_of_every_panel_stand_in_the_files(
    comparisons: list[Comparison], as_owner: Client
) -> None:
    for comparison in comparisons:
        document = json.loads(as_owner.get(address_of(comparison, "_json")).content)
        answer: Any = as_owner.get(address_of(comparison, "_csv"))
        table = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))
        in_csv = 0
        for panel in list_panels(comparison):
            for key, rows in panel.export(comparison).items():
                assert len(document[key]) == len(rows), key
                in_csv += len(rows) * panel.in_csv
        assert len(table) == in_csv > 0


def test_the_lines_of_every_panel_stand_in_the_latex_file_in_its_place(
    comparisons: list[Comparison], as_owner: Client
) -> None:
    for comparison in comparisons:
        text = as_owner.get(address_of(comparison, "_tex")).content.decode()
        parts = ["\n".join(panel.latex(comparison)) for panel in list_panels(comparison)]
        places = [text.index(part) for part in parts if part]
        assert len(places) == 2  # the table, the methods
        assert places == sorted(places)


def test_no_two_panels_export_under_one_key(comparisons: list[Comparison]) -> None:
    for comparison in comparisons:
        keys = [key for panel in list_panels(comparison) for key in panel.export(comparison)]
        assert len(set(keys)) == len(keys)


def test_a_panel_that_computes_nothing_is_refused(comparisons: list[Comparison]) -> None:
    with pytest.raises(NotImplementedError):
        Panel[Comparison]().compute(comparisons[0], open_request())
