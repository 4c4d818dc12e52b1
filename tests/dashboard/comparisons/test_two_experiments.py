"""Any two experiments stand side by side: differences on top, then verdicts and curves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from dashboard.comparisons import figure_views
from dashboard.comparisons.paired_facts import MOST_OPEN
from dashboard.comparisons.two_experiments import make_two_experiments
from dashboard.comparisons.two_experiments_figures import describe_ratios
from experiments.comparisons import keep_comparison
from experiments.models import Cluster, Environment, Experiment, Run, Snapshot
from tests.dashboard.conftest import People, Site, measured
from tests.factories import (
    ClusterFactory,
    ContainerFactory,
    EnvironmentFactory,
    ExperimentFactory,
    JobFactory,
    LaunchedFactory,
    RunFactory,
    SeriesFactory,
    WorkloadFactory,
    block,
    link_to,
)

pytestmark = pytest.mark.django_db


def refuse_to_draw(*_: Any) -> bytes:
    raise AssertionError("nothing is drawn for HEAD")


@pytest.fixture
def two(site: Site, people: People) -> tuple[Experiment, Experiment]:
    """Two experiments, the second one with a wider margin and with another Python in Apptainer."""
    left = measured(site, people.owner, question="Before the upgrade?", scales=["1x1", "1x2"])
    right = measured(site, people.owner, question="After the upgrade?", margin=0.2)
    for row, version in ((left, "3.11.2"), (right, "3.12.0")):
        snapshot = Snapshot.objects.keep({"inside": {"python": {"version": version}}})
        Snapshot.objects.filter(pk=snapshot.pk).update(
            facts={"Python": version, "package numpy": "2.4.6"}
        )
        Run.objects.filter(experiment=row, environment=site.container).update(snapshot=snapshot)
    return left, right


def address_of(left: Experiment, right: Experiment, query: str = "") -> str:
    return reverse("two_experiments", args=[left.pk, right.pk]) + query


def show(client: Client, left: Experiment, right: Experiment, query: str = "") -> BeautifulSoup:
    answer = client.get(address_of(left, right, query))
    assert answer.status_code == 200
    return BeautifulSoup(answer.content, "html.parser")


def rows(page: Any, caption: str) -> dict[str, list[str]]:
    for table in page.select("table"):
        if table.caption and table.caption.text == caption:
            return {
                " ".join(row.th.text.split()): [
                    " ".join(cell.text.split()) for cell in row.select("td")
                ]
                for row in table.select("tbody tr")
                if row.th
            }
    return {}


def test_differences_come_first_and_what_is_shared_is_folded(
    two: tuple[Experiment, Experiment], as_owner: Client
) -> None:
    page = show(as_owner, *two)
    differing, same = rows(page, "What differs"), rows(page, "What is the same")
    assert differing["Margin"] == ["5 %", "20 %"]
    assert differing["Scales"] == ["1x1, 1x2", "1x1"]
    assert differing["Apptainer: Python"] == ["3.11.2", "3.12.0"]
    assert same["Apptainer: package numpy"] == ["2.4.6"]
    assert same["Cluster"] == ["lab"]
    assert any(name.startswith("blas small: ") for name in same)
    assert not differing.keys() & same.keys()
    assert f"{len(differing)} of {len(differing) + len(same)} known facts differ." in page.text
    found = rows(show(as_owner, *two, "?find=numpy"), "What is the same")
    assert list(found) == ["Apptainer: package numpy"]


def test_verdicts_and_numbers_stand_beside_each_other(
    two: tuple[Experiment, Experiment], as_owner: Client
) -> None:
    page = show(as_owner, *two)
    measured_rows = page.select("table.two-results tbody")
    assert [" ".join(part.th.text.split()) for part in measured_rows] == [
        "blas small, 1x1 time per step",
        "blas small, 1x2 time per step",
    ]
    first = rows(
        BeautifulSoup(f"<table><caption>x</caption>{measured_rows[0]}</table>", "html.parser"), "x"
    )
    left, right = first["Apptainer"]
    assert "SLOWER" in left
    assert "EQUIVALENT" in right
    assert first["bare metal"][0].startswith("20.060 ± 0.032 ms")
    second = measured_rows[1].select("tr")[2].select("td")
    assert "SLOWER" in second[0].text
    assert second[1].text.strip() == "–"
    # One scale for all intervals, each with its own margin.
    widths = [float(str(band["width"]).rstrip("%")) for band in measured_rows[0].select(".band")]
    assert widths[0] < widths[1]
    ones = {str(line["x1"]) for line in page.select(".interval .one")}
    assert len(ones) == 1


def test_the_only_environments_that_differ_stand_beside_each_other(
    site: Site, people: People, as_owner: Client
) -> None:
    newer = ContainerFactory(name="Apptainer 1.4", cluster=site.cluster)
    left = measured(site, people.owner)
    right = LaunchedFactory(
        owner=people.owner,
        cluster=site.cluster,
        baseline=site.bare,
        workloads=[site.workload],
        environments=[site.bare, newer],
    )
    for repeat in range(1, 6):
        block(right, repeat, {site.bare: 0.02 + repeat * 1e-5, newer: 0.02 + repeat * 1e-5})
    Environment.objects.filter(pk=newer.pk).update(variables={"OMP_NUM_THREADS": "4"})
    page = show(as_owner, left, right)
    assert "Apptainer / Apptainer 1.4" in rows(page, "What was measured")
    differing = rows(page, "What differs")
    assert differing["Apptainer / Apptainer 1.4: Variables"] == ["none", "OMP_NUM_THREADS=4"]


def test_facts_of_an_environment_that_stands_alone_are_found_and_not_listed(
    site: Site, people: People, as_owner: Client
) -> None:
    left = measured(site, people.owner)
    alone = [ContainerFactory(name=name, cluster=site.cluster) for name in ("Podman", "udocker")]
    left.environments.add(*alone)
    right = measured(site, people.owner)
    page = show(as_owner, left, right)
    facts = rows(page, "What differs") | rows(page, "What is the same")
    assert not [name for name in facts if name.startswith(("Podman: ", "udocker: "))]
    assert "Only one side has Podman and udocker" in " ".join(page.text.split())
    found = show(as_owner, left, right, "?find=podman")
    assert "Podman: Runtime" in rows(found, "What differs")
    assert "Only one side has" not in found.text


def test_nothing_is_told_before_its_time(
    two: tuple[Experiment, Experiment], as_owner: Client, site: Site
) -> None:
    RunFactory(job=JobFactory(experiment=two[1], repeat=6), state=Run.State.RUNNING)
    page = show(as_owner, *two)
    cells = page.select("table.two-results tbody")[0].select("tr")[2].select("td")
    assert " ".join(cells[0].text.split()).startswith("22.069 ± 0.036 ms (SD, n = 5) SLOWER")
    assert " ".join(cells[1].text.split()) == "n = 5; the mean comes with the verdict"
    assert rows(page, "The experiments")["Verdicts"][1].startswith("none yet")


def test_drafts_imports_and_other_metrics_have_their_page(
    two: tuple[Experiment, Experiment], site: Site, people: People, as_owner: Client
) -> None:
    draft = ExperimentFactory(owner=people.owner, cluster=site.cluster)
    assert "none yet" in rows(show(as_owner, draft, two[0]), "The experiments")["Verdicts"][0]
    assert "Both sides are the same experiment." in show(as_owner, draft, draft).text
    workload = WorkloadFactory(name="startup", kind="startup")
    other = LaunchedFactory(
        owner=people.owner,
        cluster=site.cluster,
        baseline=site.bare,
        workloads=[workload],
        environments=[site.bare, site.container],
    )
    for repeat in (1, 2):
        values = {site.bare: 1.0 + repeat / 10, site.container: 2.0 + repeat / 10}
        block(other, repeat, values, metric="import_time", workload=workload)
    page = show(as_owner, two[0], other)
    facts = {row.th.text.strip() for row in page.select("#facts tbody tr")}
    of_workloads = {name for name in facts if name.startswith("blas small / startup")}
    assert of_workloads == {"blas small / startup: kind"}, "parameters of other kinds are no pairs"
    names = [" ".join(part.text.split()) for part in page.select(".two-results .group")]
    assert names[0].startswith("blas small, 1x1")
    assert names[-1].startswith("startup, 1x1")
    assert show(as_owner, two[0], other, f"?curves={len(names)}")


def test_steps_are_drawn_on_equal_axes_when_opened(
    two: tuple[Experiment, Experiment], as_owner: Client
) -> None:
    closed = show(as_owner, *two)
    assert not closed.select("[data-chart]")
    assert closed.select_one('#curves a[href$="?curves=1#curves"]')
    for row, slow in zip(two, (1, 3), strict=True):
        for run in row.runs.filter(scale="1x1"):
            values = [slow * value for value in (0.3, 0.11, 0.1, 0.1, 0.12, 0.1)]
            SeriesFactory(run=run, values=values)
            SeriesFactory(run=run, metric="loss", unit="1", values=[2.0 / slow, float("nan"), 0.5])
    page = show(as_owner, *two, "?curves=1")
    plots = {
        str(part["id"]): json.loads(str(part.string)) for part in page.select("#curves script")
    }
    left, right = (
        next(plot for name, plot in plots.items() if name == f"tails-{side}")
        for side in ("left", "right")
    )
    for name in ("xaxis", "yaxis"):
        assert left["layout"][name].get("range") == right["layout"][name].get("range")
    assert left["layout"]["xaxis"]["range"]
    part = as_owner.get(
        address_of(*two, "?curves=1"), headers={"HX-Request": "true", "HX-Target": "curves"}
    ).content.decode()
    assert part.lstrip().startswith('<section class="panel" id="curves">')
    assert "tails-left" in part
    assert "Nothing was recorded." not in page.text
    without = show(as_owner, *two, "?curves=2").text
    assert "No run of these two experiments has recorded its steps." in without


def test_ratios_and_steps_are_pictures_first_with_their_files(
    two: tuple[Experiment, Experiment], as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for row in two:
        for run in row.runs.filter(scale="1x1"):
            SeriesFactory(run=run, values=[0.3, 0.11, 0.1, 0.1, 0.12, 0.1])
    keys = [row.pk for row in two]
    forest = reverse("two_experiments_forest_svg", args=keys)
    steps = reverse("two_experiments_steps_svg", args=keys)
    page = show(as_owner, *two, "?curves=1")
    addresses = [str(image["src"]).split("?") for image in page.select("figure.printed img")]
    assert {address for address, _ in addresses} == {forest, steps}
    assert all(query.startswith("curves=1&") for address, query in addresses if address == steps)
    assert len(page.select(".figure-export")) == 2
    charts = page.select("#curves [data-chart]")
    assert charts
    for chart in charts:
        fold = chart.find_parent("details")
        assert fold
        assert not fold.has_attr("open")
    with monkeypatch.context() as patched:
        patched.setattr(figure_views, "draw_in_turn", refuse_to_draw)
        for address in (forest, f"{steps}?curves=1"):
            assert as_owner.head(address).status_code == 200
    file = as_owner.get(forest).content.decode()
    assert "left: Before the upgrade?, right: After the upgrade?" in file
    assert b"on equal axes" in as_owner.get(f"{steps}?curves=1").content
    for address in (steps, f"{steps}?curves=2", f"{steps}?curves=x", f"{forest}?theme=pink"):
        assert as_owner.get(address).status_code == 404


def test_two_without_verdicts_have_no_picture_of_ratios(
    two: tuple[Experiment, Experiment], site: Site, people: People, as_owner: Client
) -> None:
    draft = ExperimentFactory(owner=people.owner, cluster=site.cluster)
    assert not show(as_owner, draft, draft).select("figure.printed")
    forest = reverse("two_experiments_forest_svg", args=[draft.pk, draft.pk])
    assert as_owner.get(forest).status_code == 404


def test_each_row_of_the_ratios_says_whose_it_is_and_has_its_own_margin(
    two: tuple[Experiment, Experiment],
) -> None:
    forest = describe_ratios(make_two_experiments(*two))
    assert forest
    assert [row.group for row in forest.rows] == [
        "blas small, 1x1 · left",
        "blas small, 1x1 · right",
        "blas small, 1x2 · left",
    ]
    assert [row.letters[-1] for row in forest.rows] == ["L", "R", "L"]
    notes = dict(forest.notes)
    assert notes["L"] == "left: Before the upgrade?, margin 5 %"
    assert notes["R"] == "right: After the upgrade?, margin 20 %"
    assert not forest.has_band
    assert [round(row.margin[1], 2) for row in forest.rows if row.margin] == [1.05, 1.2, 1.05]
    same = describe_ratios(make_two_experiments(two[0], two[0]))
    assert same
    assert same.has_band
    assert dict(same.notes)["L"] == "left: Before the upgrade?"


def test_the_answer_to_a_search_replaces_no_form_and_draws_nothing(
    two: tuple[Experiment, Experiment], as_owner: Client
) -> None:
    SeriesFactory(run=two[0].runs.filter(scale="1x1")[0], values=[0.3, 0.1])
    part = as_owner.get(
        address_of(*two, "?curves=1&find=numpy"),
        headers={"HX-Request": "true", "HX-Target": "facts-found"},
    ).content.decode()
    assert part.lstrip().startswith('<div id="facts-found">')
    assert "package numpy" in part
    assert "<form" not in part
    assert "data-chart" not in part
    page = show(as_owner, *two, "?curves=1&find=numpy")
    assert page.select_one("#facts noscript input")["value"] == "1"  # type: ignore[index]
    assert page.select_one("#curves noscript input")["value"] == "numpy"  # type: ignore[index]


@pytest.mark.parametrize("odd", ["", "0", "-1", "3", "x", "1.5", "9" * 500, "<b>", "\ufffd"])
def test_an_odd_configuration_is_none(
    odd: str, two: tuple[Experiment, Experiment], as_owner: Client
) -> None:
    page = show(as_owner, *two, f"?curves={odd}")
    assert page.select_one("#curves option")["value"] == ""  # type: ignore[index]


def test_who_may_not_read_one_of_them_sees_neither(
    two: tuple[Experiment, Experiment], site: Site, people: People
) -> None:
    hidden = measured(site, people.other, blocks=1, visibility="private", question="Hidden?")
    for pair in ((two[0], hidden), (hidden, two[0])):
        assert people.client("owner").get(address_of(*pair)).status_code == 404
        assert people.client("other").get(address_of(*pair)).status_code == 200
        assert Client().get(address_of(*pair))["Location"].startswith("/login/")
    chooser = reverse("two_experiments_choose", args=[two[0].pk])
    for query in ("", "?q=Hidden"):
        assert "Hidden?" not in people.client("owner").get(chooser + query).content.decode()


def test_links_to_both_open_the_page_and_hide_names(
    two: tuple[Experiment, Experiment], site: Site, people: People, client: Client
) -> None:
    Cluster.objects.filter(pk=site.cluster.pk).update(name="forhlr-secret")
    Environment.objects.filter(pk=site.container.pk).update(variables={"TOKEN": "x"})
    client.get(link_to(two[0], hides_names=True))
    assert client.get(address_of(*two))["Location"].startswith("/login/")
    client.get(link_to(two[1]))
    page = show(client, *two)
    assert "secret" not in str(page)
    assert "TOKEN" not in page.text
    assert rows(page, "What differs")["Apptainer: Python"] == ["3.11.2", "3.12.0"]


def test_a_second_experiment_is_chosen_from_the_first_ones_page(
    two: tuple[Experiment, Experiment], as_owner: Client
) -> None:
    page = BeautifulSoup(as_owner.get(two[0].get_absolute_url()).content, "html.parser")
    chooser = reverse("two_experiments_choose", args=[two[0].pk])
    assert page.select(f'a[href="{chooser}"]')
    assert f'href="{address_of(*two)}"' in as_owner.get(chooser).content.decode()
    kept = as_owner.get(f"{chooser}?keep=right&q=after").content.decode()
    assert f'href="{address_of(two[1], two[0])}"' in kept
    assert "No other experiment" in as_owner.get(f"{chooser}?q=nothing").content.decode()


def test_exactly_two_selected_experiments_stand_side_by_side(
    two: tuple[Experiment, Experiment], as_owner: Client
) -> None:
    picked = [row.pk for row in two]
    answer = as_owner.post("/experiments/selected/", {"action": "compare", "pick": picked})
    assert answer["Location"] == address_of(*two)


def test_it_takes_as_many_statements_for_many_runs_and_facts(
    site: Site, people: People, as_owner: Client
) -> None:
    counts, sizes = [], []
    for many in (2, 12):
        pair = [
            measured(site, people.owner, blocks=many, repeats=many, scales=["1x1", "1x2"])
            for _ in range(2)
        ]
        for row in pair:
            packages = {f"package p{i}": f"{row.pk}.{i}" for i in range(400 * many)}
            snapshot = Snapshot.objects.keep({"inside": {"hostname": str(row.pk)}})
            Snapshot.objects.filter(pk=snapshot.pk).update(facts=packages)
            Run.objects.filter(experiment=row).update(snapshot=snapshot)
            keep_comparison(row.pk)
        with CaptureQueriesContext(connection) as queries:
            answer = as_owner.get(address_of(pair[0], pair[1]))
        counts.append(len(queries))
        sizes.append(len(answer.content))
    assert counts[0] == counts[1]
    assert counts[1] <= 45
    assert sizes[1] < 200_000


def test_packages_come_last_and_what_is_beyond_the_first_facts_is_folded(
    client: Client, people: People, two: tuple[Experiment, Experiment]
) -> None:
    for row, version in zip(two, ("1.0", "2.0"), strict=True):
        for snapshot in Snapshot.objects.filter(runs__experiment=row).distinct():
            packages = {f"package p{number:02}": version for number in range(60)}
            Snapshot.objects.filter(pk=snapshot.pk).update(facts=snapshot.facts | packages)
    client.force_login(people.owner)

    tables = show(client, *two).select("#facts-found table")
    shown, folded = tables[0], tables[1]
    names = [cell.text for table in (shown, folded) for cell in table.select("tbody th")]
    assert len(shown.select("tbody tr")) == MOST_OPEN
    summary = folded.find_parent("details").summary.text
    assert summary == f"{len(names) - MOST_OPEN} more that differ"
    are_packages = ["package " in name for name in names]
    assert are_packages == sorted(are_packages), "packages come last"
    assert sum(are_packages) == 60

    found = show(client, *two, "?find=package+p").select("#facts-found table")
    assert len(found[0].select("tbody tr")) == 60, "all that was searched for is shown"


def test_the_names_of_the_clusters_stand_once_above_all(
    people: People, site: Site, as_owner: Client
) -> None:
    sides = []
    for name in ("north-1", "south-2"):
        cluster = ClusterFactory(name=name)
        bare = EnvironmentFactory(name=f"bare metal {name}", cluster=cluster)
        box = ContainerFactory(name=f"Apptainer on {name}", cluster=cluster)
        made = LaunchedFactory(
            owner=people.owner, cluster=cluster, baseline=bare, environments=[bare, box]
        )
        for repeat in (1, 2, 3):
            block(made, repeat, {bare: 0.02 + repeat / 1e5, box: 0.021 + repeat / 1e5})
        facts = {f"package package{number}": f"1.{name[-1]}" for number in range(12)}
        snapshot = Snapshot.objects.keep({"inside": {"python": {"version": name}}})
        Snapshot.objects.filter(pk=snapshot.pk).update(facts=facts)
        Run.objects.filter(experiment=made).update(snapshot=snapshot)
        sides.append(made)
    page = show(as_owner, *sides)
    names = [row.text.strip() for row in page.select("#facts-found th[scope=row]")]
    assert "Cluster" in names
    assert [name for name in names if "north" in name or "south" in name] == []
    packages = [name for name in names if name.startswith("Apptainer: package")]
    assert packages == [f"Apptainer: package package{number}" for number in range(12)]
    rows = [row.text.strip() for row in page.select(".two-results tbody tr:not(.group) th")]
    assert rows == ["bare metal", "Apptainer"]
