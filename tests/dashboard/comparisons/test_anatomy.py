"""The panel Anatomy: the phases of a run by environment, and what each costs over the baseline."""

from __future__ import annotations

import pytest
from bs4 import BeautifulSoup
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from dashboard.comparisons.anatomy import prepare_panels
from experiments.comparisons import compare_experiment
from experiments.comparisons.anatomy import Anatomy, Body, collect_anatomies
from experiments.models import Experiment, Run
from tests.dashboard.conftest import People, Site, read_report
from tests.factories import JobFactory, LaunchedFactory, RunFactory, SeriesFactory

pytestmark = pytest.mark.django_db

PHASES = {"container start": 0.02, "import": 0.5, "steady state": 60.0, "end": 0.1}


def launched(site: Site, people: People, *, blocks: int = 3) -> Experiment:
    """In the container Python starts 160 ms later, import takes twice as long."""
    made: Experiment = LaunchedFactory(
        owner=people.owner,
        cluster=site.cluster,
        partition=site.partition,
        baseline=site.bare,
        workloads=[site.workload],
        environments=[site.bare, site.container],
        repeats=blocks,
    )
    for repeat in range(1, blocks + 1):
        job = JobFactory(experiment=made, repeat=repeat)
        for environment in (site.container, site.bare):
            phases = dict(PHASES)
            if environment == site.container:
                phases |= {"container start": 0.18, "import": 1.0 + 10 * (repeat == 1)}
                phases["burn-in"] = 0.0
            RunFactory(
                job=job, environment=environment, phases=phases, values={"step_time": 0.01 + repeat}
            )
    return made


@pytest.fixture
def experiment(site: Site, people: People) -> Experiment:
    return launched(site, people)


def test_phases_are_medians_over_runs_and_the_baseline_is_first(experiment: Experiment) -> None:
    (found,) = collect_anatomies(compare_experiment(experiment))
    assert found.title == "blas small · 1x1"
    bare, container = found.bodies
    assert (bare.environment, container.environment) == ("bare metal", "Apptainer")
    assert (bare.runs, bare.phases) == (3, PHASES)
    assert (container.runs, container.phases["import"]) == (3, 1.0), "one slow import moves nothing"
    assert container.total == pytest.approx(61.28)


def test_the_page_shows_bars_and_differences(experiment: Experiment, as_owner: Client) -> None:
    page = read_report(as_owner, experiment)
    panel = BeautifulSoup(page, "html.parser").select_one("#anatomy")
    assert panel is not None
    heads = [one.get_text(" ", strip=True) for one in panel.select(".table thead th")]
    assert heads == [
        *("Environment", "Runs", "Container start", "Import", "Steady state", "End", "Whole run")
    ]
    bare, container = (
        [cell.get_text(" ", strip=True) for cell in row.select("td")]
        for row in panel.select(".table tbody tr")
    )
    assert bare == ["3", "20.0 ms", "0.500 s", "60.0 s", "100 ms", "60.6 s"]
    assert container == [
        *("3", "180 ms +160 ms", "1.00 s +0.500 s", "60.0 s ±0", "100 ms ±0"),
        "61.3 s +0.660 s",
    ]
    assert panel.select(".bars") == [], "the printed figure stands first"
    assert len(panel.select("figure.printed img")) == 2


def test_bars_share_one_length_and_leave_the_steady_state_out() -> None:
    bodies = [
        Body("bare", 2, {"start": 1.0, "steady state": 99.0}, 100.0),
        Body("box", 2, {"container start": 3.0, "start": 1.0, "steady state": 99.0}, 103.0),
    ]
    (panel,) = prepare_panels([Anatomy("w", "1x1", bodies)])
    assert [name for name, _ in panel.phases] == ["container start", "start", "steady state"]
    assert [sum(part.width for part in row.bar) for row in panel.rows] == [25.0, 100.0]
    assert panel.rows[0].cells[0].seconds == "–"
    assert panel.rows[1].cells[0].difference == "", "the baseline has no such phase"
    assert panel.rows[1].cells[-1].difference == "+3.00 s"


@pytest.mark.parametrize("phases", [{"steady state": 5.0}, {"import": 0.0}, {"odd": 1.0}])
def test_any_phases_can_be_shown(phases: dict[str, float]) -> None:
    (panel,) = prepare_panels(
        [Anatomy("w", "1x1", [Body("bare", 1, phases, sum(phases.values()))])]
    )
    assert len(panel.rows[0].cells) == len(panel.phases) + 1


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (12.345678, "±0"),
        (12.345678000000002, "±0"),
        (12.345612, "−6.60e−05 s"),
        (12.345712, "+3.40e−05 s"),
        (12.4, "+0.0543 s"),
    ],
)
def test_a_difference_of_any_size_can_be_shown(seconds: float, shown: str) -> None:
    bodies = [
        Body(name, 1, {"steady state": length}, length)
        for name, length in (("bare", 12.345678), ("container", seconds))
    ]
    (panel,) = prepare_panels([Anatomy("w", "1x1", bodies)])
    assert {cell.difference for cell in panel.rows[1].cells} == {shown}


def test_runs_that_do_not_count_and_runs_without_phases_are_left_out(
    experiment: Experiment, as_owner: Client
) -> None:
    first = experiment.runs.filter(environment__name="Apptainer").order_by("repeat").first()
    assert first is not None
    Run.objects.filter(pk=first.pk).update(state="excluded")
    (found,) = collect_anatomies(compare_experiment(experiment))
    assert [body.runs for body in found.bodies] == [3, 2]
    experiment.runs.update(phases={})
    assert collect_anatomies(compare_experiment(experiment)) == []
    page = read_report(as_owner, experiment)
    assert "Phases" not in page


def test_nothing_is_shown_before_the_planned_look(experiment: Experiment) -> None:
    RunFactory(job=JobFactory(experiment=experiment, repeat=4, state="planned"), state="planned")
    assert collect_anatomies(compare_experiment(experiment)) == []


def test_many_runs_take_one_query(site: Site, people: People) -> None:
    made = launched(site, people, blocks=12)
    found = compare_experiment(made)
    assert list(found.stage.judgements)
    with CaptureQueriesContext(connection) as captured:
        collect_anatomies(found)
    assert len(captured) == 1


@pytest.mark.parametrize(("series", "folded"), [(1, 0), (4, 0), (5, 3), (12, 10)])
def test_a_run_of_many_series_shows_the_compared_ones_and_folds_the_others(
    results: Experiment, as_owner: Client, series: int, folded: int
) -> None:
    run = results.runs.order_by("pk").last()
    assert run is not None
    run.series.all().delete()
    for number in range(series):
        name = f"part_{number}_time" if number else "step_time"
        SeriesFactory(run=run, metric=name)
    page = as_owner.get(reverse("run", args=[run.uid])).content.decode()
    more = BeautifulSoup(page, "html.parser").select("details.panel.more")
    assert [one.summary.get_text() for one in more if one.summary] == (
        [f"{folded} more series"] if folded else []
    )
    shown = page.partition(" more series</h2>")[0]
    assert "step time" in shown
