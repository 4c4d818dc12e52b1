"""What a comparison shows beside its verdicts: steps, losses, accuracies, scaling, bars."""

from __future__ import annotations

import html
import json
import math
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from dashboard.comparisons import step_views
from experiments.comparisons import compare_experiment
from experiments.comparisons.scales import compute_scalings
from experiments.comparisons.series import BINARY, read_series
from experiments.models import Environment, Experiment, Run, Series, Snapshot, User, Workload
from experiments.statistics.steps import read_array
from runners.workloads.parameter_sweeps import Variant
from tests.dashboard.conftest import People, Site, read_report
from tests.factories import (
    NOON,
    JobFactory,
    LaunchedFactory,
    MeasurementFactory,
    PublishedTableFactory,
    RunFactory,
    SeriesFactory,
    WorkloadFactory,
    link_to,
)

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}
TRAINING_TIMES = """gpus,environment,mean_s,standard_error_s,runs
1,baremetal,3710,10,3
1,uDocker,3730,10,3
2,baremetal,2390,30,3
2,uDocker,2360,16,3
4,baremetal,1860,40,3
4,uDocker,1880,10,3
"""
LOSSES = [2.0, 1.0, 0.5, 0.25]


def trained(
    site: Site,
    people: People,
    *,
    blocks: int = 3,
    scales: tuple[str, ...] = ("1x1", "1x2"),
    losses: Any = lambda environment, repeat: LOSSES,
) -> Experiment:
    """An experiment of which each run has recorded its steps, losses and accuracies."""
    workload = WorkloadFactory(name="cnn", kind="cnn", parameters={"target_accuracy": 0.6})
    made: Experiment = LaunchedFactory(
        owner=people.owner,
        cluster=site.cluster,
        partition=site.partition,
        baseline=site.bare,
        environments=[site.bare, site.container],
        workloads=[workload],
        scales=list(scales),
        repeats=blocks,
    )
    snapshot = Snapshot.objects.keep(
        {"inside": {"cpu": "EPYC", "packages": {"tensorflow-cpu": "2.21.0"}}}
    )
    number = 0
    for scale in scales:
        gpus = int(scale[0]) * int(scale[2:])
        for repeat in range(1, blocks + 1):
            number += 1
            job = JobFactory(
                experiment=made, workload=workload, scale=scale, repeat=repeat, block=number
            )
            for environment, cost in ((site.bare, 1.0), (site.container, 1.1)):
                step = 0.02 * cost * (1 + repeat / 1000) / gpus**0.8
                run = RunFactory(
                    job=job,
                    environment=environment,
                    snapshot=snapshot,
                    spec={"workload": {"parameters": {"burn_in": 1, "seed": 7}}},
                    ended_at=NOON + timedelta(seconds=13 + repeat),
                    values={"step_time": step},
                )
                accuracy = 0.6 + repeat / 100 + (cost - 1) / 50
                MeasurementFactory(run=run, metric="accuracy", value=accuracy, unit="1")
                for metric, unit, values in (
                    ("step_time", "s", [9.0, step, step * 1.01, step * 2]),
                    ("loss", "1", losses(environment, repeat)),
                    ("accuracy", "1", [0.4, accuracy]),
                    ("accuracy_step", "steps", [2.0, 4.0]),
                    ("accuracy_time", "s", [0.5, 1.0]),
                ):
                    SeriesFactory(run=run, metric=metric, unit=unit, values=values)
    return made


def figures(page: str) -> dict[str, Any]:
    """The figures of a page by their ids."""
    found = re.findall(r'<script id="([^"]+)" type="application/json">(.*?)</script>', page)
    return {name: json.loads(text) for name, text in found}


def fragment(client: Client, experiment: Experiment, **asked: str) -> str:
    address = reverse("comparison_steps", args=[experiment.pk])
    return client.get(address, asked, headers=HTMX).content.decode()


def test_the_steps_are_fetched_when_somebody_looks(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people)
    page = read_report(as_owner, made)
    assert not [name for name in figures(page) if name.startswith(("tails", "losses"))]
    links = re.findall(r'hx-get="([^"]+)" hx-trigger="intersect once"', page)
    assert len(links) == 2
    address = links[1].replace("&amp;", "&")
    assert f'href="{links[1]}"' in page, "it is a page without JavaScript too"
    short = as_owner.get(address, headers=HTMX).content.decode()
    assert "<html" not in short
    assert {name.split("-")[0] for name in figures(short)} == {"tails", "losses", "accuracy"}
    assert "<html" in as_owner.get(address).content.decode()


@pytest.mark.parametrize("values", [[], [0.1], [0.1, -1.5, 1e-310, 1e308, 2 / 3]])
def test_what_postgresql_sends_is_what_was_stored(values: list[float], run: Run) -> None:
    Series.objects.filter(run=run).update(values=values)
    (sent,) = Series.objects.filter(run=run).values_list(BINARY, flat=True)
    assert list(map(repr, read_array(sent).tolist())) == list(map(repr, values))


def test_a_page_shows_the_picture_of_its_own_configuration_first(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people)
    scales = [group.configuration["scale"] for group in compare_experiment(made).groups]
    assert len(scales) == 2
    for number, scale in enumerate(scales, start=1):
        page = fragment(as_owner, made, scale=scale)
        pictures = set(re.findall(r'src="([^"]+steps\.svg\?configuration=[^&]+)&', page))
        assert pictures == {f"/experiments/{made.pk}/figures/steps.svg?configuration={number}"}
        assert page.index("<picture") < page.index("data-chart")


def test_the_number_of_a_picture_is_that_of_the_comparison(
    site: Site, people: People, as_owner: Client
) -> None:
    """Also where PostgreSQL sorts names of variants and capitals otherwise."""
    made = trained(site, people, scales=("1x1",))
    swept = {"batch_size": 64}
    own, other = (
        {"name": name, "swept": swept, "sweep_order": f"{name} {Variant(swept, {}).order}"}
        for name in ("cnn9", "cnn10")
    )
    Workload.objects.filter(name="cnn").update(**own)
    for columns in (other, {"name": "B"}, {"name": "_a"}):
        made.workloads.add(WorkloadFactory(kind="cnn", **columns))
    names = [group.configuration["workload"] for group in compare_experiment(made).groups]
    assert names == ["B", "_a", "cnn9", "cnn10"]
    page = fragment(as_owner, made, workload="cnn9", scale="1x1")
    assert "/figures/steps.svg?configuration=3&" in page


@pytest.mark.parametrize("visitor", [False, True])
def test_a_large_chart_is_fetched_when_it_is_opened(
    visitor: bool, site: Site, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By everybody who may see the page, by the same address, and without names to be hidden."""
    made = trained(site, people, scales=("1x1",))
    name = "Jürgens-Bäcker"
    Environment.objects.filter(pk=site.container.pk).update(name=name)
    User.objects.filter(pk=people.owner.pk).update(last_name=name)
    Workload.objects.filter(name="cnn").update(name=f"cnn of {name}")
    client = Client() if visitor else people.client("owner")
    if visitor:
        client.get(link_to(made, hides_names=True))
    carried = figures(fragment(client, made))
    monkeypatch.setattr(step_views, "MOST_CARRIED", 3)
    page = fragment(client, made)
    assert figures(page) == {}
    sources = [html.unescape(source) for source in re.findall(r'data-source="([^"]+)"', page)]
    answers = [client.get(source) for source in sources]
    assert {answer["Content-Type"] for answer in answers} == {"application/json"}
    assert [answer.json() for answer in answers] == list(carried.values())
    assert (name in answers[0].content.decode()) is not visitor
    assert answers[0].json()["data"][1]["name"] == ("account-1" if visitor else name)
    address = reverse("comparison_steps", args=[made.pk])
    missing = client.get(address, {"chart": "nothing"})
    assert missing.status_code == (302 if visitor else 404), "visitors are asked to log in"


def test_a_loss_that_is_no_number_is_a_gap(site: Site, people: People, as_owner: Client) -> None:
    def losses(environment: Any, repeat: int) -> list[float]:
        return [*LOSSES[:2], math.nan, LOSSES[3]] if repeat == 1 else LOSSES

    page = fragment(as_owner, trained(site, people, scales=("1x1",), losses=losses))
    assert not re.search(r"\b(NaN|Infinity)\b", page)
    (drawn,) = [figure for name, figure in figures(page).items() if "losses" in name]
    assert drawn["data"][0]["y"][:4] == [*LOSSES[:2], None, LOSSES[3]]
    assert drawn["layout"]["yaxis"]["type"] == "log"


def test_the_tail_leaves_out_the_burn_in_and_keeps_the_longest_step(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people, scales=("1x1",))
    (tails,) = [f for name, f in figures(fragment(as_owner, made)).items() if "tails" in name]
    bare, container = tails["data"]
    assert bare["name"] == "bare metal"
    assert len(bare["x"]) == 9
    assert bare["x"][-1] == pytest.approx(1000 * 0.02 * 1.003 * 2)
    assert bare["y"][-1] == pytest.approx(100 / 9)
    assert container["x"][-1] == pytest.approx(1.1 * bare["x"][-1])


def test_three_runs_of_an_environment_are_one_band_with_a_table(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people, scales=("1x1",))
    inside = read_series(made, made.workloads.get(), "1x1")
    bare, container = inside.traces
    assert [trace.band.environment for trace in inside.traces] == ["bare metal", "Apptainer"]
    assert set(bare.band.runs) == set(
        made.runs.filter(environment=site.bare).values_list("uid", flat=True)
    )
    assert container.band.median == pytest.approx([1.1 * value for value in bare.band.median])
    assert {len(band.runs) for band in inside.losses.bands} == {3}
    page = fragment(as_owner, made)
    assert "Step times over the run, 3 runs of bare metal: table" in page
    made.runs.filter(environment=site.bare).last().series.all().delete()
    assert "3 runs of bare metal" not in fragment(as_owner, made)
    two = read_series(made, made.workloads.get(), "1x1")
    assert [trace.band.environment for trace in two.traces] == ["Apptainer"]


def test_the_warm_up_that_was_found_is_left_out_where_it_decides(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people, scales=("1x1",))
    Series.objects.filter(run__experiment=made, metric="step_time").update(warm_up=2)
    Series.objects.filter(run=made.runs.all()[0], metric="step_time").update(warm_up=None)
    for decides, steps in (("fixed", {9}), ("found", {7, 6})):
        Experiment.objects.filter(pk=made.pk).update(warm_up=decides)
        (tails,) = [f for name, f in figures(fragment(as_owner, made)).items() if "tails" in name]
        assert {len(trace["x"]) for trace in tails["data"]} == steps


def test_equal_losses_are_said_to_be_equal_to_the_bit(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people, scales=("1x1",))
    page = fragment(as_owner, made)
    assert "bare metal: bitwise equal to its first run in both other runs." in page
    assert "Apptainer: bitwise equal to bare metal in all 3 runs." in page


def test_the_first_differing_step_is_named(site: Site, people: People, as_owner: Client) -> None:
    def losses(environment: Any, repeat: int) -> list[float]:
        return [*LOSSES[:2], 0.4, 0.25] if (environment, repeat) == (site.container, 2) else LOSSES

    page = fragment(as_owner, trained(site, people, scales=("1x1",), losses=losses))
    assert (
        "Apptainer: differs from bare metal in 1 of 3 runs, first at step 3; the largest relative "
        "difference is 0.2."
    ) in page


def test_imported_logs_say_what_they_hide(site: Site, people: People, as_owner: Client) -> None:
    made = trained(site, people, scales=("1x1",))
    Series.objects.filter(run__experiment=made).update(steps=[10, 20, 30, 40])
    Run.objects.filter(experiment=made).update(spec={})
    page = fragment(as_owner, made)
    assert "The logs have means of several steps, which hide rare slow ones." in page
    assert "The seeds of these runs are not known" in page
    (losses,) = [f for name, f in figures(page).items() if "losses" in name]
    assert losses["data"][0]["x"][:4] == [10, 20, 30, 40]


def test_excluded_runs_have_no_say(site: Site, people: People, as_owner: Client) -> None:
    made = trained(site, people, scales=("1x1",))
    Run.objects.filter(experiment=made, repeat=3).update(state=Run.State.EXCLUDED)
    page = fragment(as_owner, made)
    assert "bitwise equal to bare metal in both runs." in page


def test_series_of_any_name_and_unit_are_drawn(
    site: Site, people: People, as_owner: Client
) -> None:
    """A program of the user's says what its steps are: rates, or times that are not in seconds."""
    made = trained(site, people, scales=("1x1",))
    for metric, unit, steps in (
        ("images_per_second", "images/s", [10, 20, 30]),
        ("step_time", "ms", None),
        ("Loss", "nat", None),
    ):
        Series.objects.filter(run__experiment=made, metric=metric).delete()
        for run in made.runs.all():
            SeriesFactory(run=run, metric=metric, unit=unit, values=[3.0, 2.0, 4.0], steps=steps)
    page = fragment(as_owner, made)
    drawn = {name.split("-")[0]: figure for name, figure in figures(page).items()}
    assert "No run here has recorded its steps." not in page
    assert set(drawn) == {"losses", "accuracy", "other"}
    axes = {
        figure["layout"]["yaxis"]["title"]["text"]: figure["data"][0]["x"][:3]
        for name, figure in figures(page).items()
        if name.startswith("other")
    }
    assert axes == {
        "images per second (images/s)": [10, 20, 30],
        "step time (ms)": [1, 2, 3],
        "Loss (nat)": [1, 2, 3],
    }
    assert "<h3>Images per second, step by step</h3>" in page


def test_of_very_many_series_those_that_are_not_drawn_are_named(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people, blocks=1, scales=("1x1",))
    for run in made.runs.all():
        for number in range(14):
            SeriesFactory(run=run, metric=f"part_{number:02}", unit="s", values=[1.0])
        SeriesFactory(run=run, metric="step_time of instance 1", unit="s", values=[1.0])
    page = fragment(as_owner, made)
    assert len([name for name in figures(page) if name.startswith("other")]) == 12
    assert "Not drawn here, but on each run’s page: part_12, part_13." in page


def test_the_burn_in_that_the_program_reports_is_left_out(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people, scales=("1x1",))
    Series.objects.filter(run__experiment=made, metric="step_time").update(burn_in=3)
    (tails,) = [f for name, f in figures(fragment(as_owner, made)).items() if "tails" in name]
    assert {len(trace["x"]) for trace in tails["data"]} == {3}


def test_without_series_there_is_nothing_to_show_and_it_is_said(
    results: Experiment, as_owner: Client
) -> None:
    assert "No run here has recorded its steps." in fragment(as_owner, results)
    address = reverse("comparison_steps", args=[results.pk])
    assert as_owner.get(address, {"workload": "none"}).status_code == 404
    assert as_owner.get(address, {"scale": "nonsense"}).status_code == 200


@pytest.mark.parametrize("name", ["comparison_steps", "comparison"])
def test_the_number_of_queries_does_not_grow(
    name: str, site: Site, people: People, as_owner: Client
) -> None:
    def queries(experiment: Experiment) -> int:
        address = reverse(name, args=[experiment.pk])
        as_owner.get(address)
        with CaptureQueriesContext(connection) as captured:
            as_owner.get(address)
        return len(captured)

    few = trained(site, people, blocks=2)
    Workload.objects.filter(name="cnn").update(name="cnn small")
    many = trained(site, people, blocks=6, scales=("1x1", "1x2", "2x2"))
    assert queries(few) == queries(many)


def test_scaling_is_labelled_and_its_base_printed(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people)
    page = read_report(as_owner, made)
    assert "Strong scaling · cnn · Time per step" in page
    found = figures(page)
    small = " ".join(note["text"] for note in found["scaling-0"]["layout"]["annotations"])
    assert "bare metal 20.04 ms [" in small
    assert "n = 3, 1\u00a0GPU" in small
    assert "EPYC; tensorflow-cpu 2.21.0" in small
    (scaling,) = compute_scalings(compare_experiment(made))
    points = [t for t in found["efficiency-0"]["data"] if t["mode"] == "markers"]
    assert [t["y"] for t in points] == [[100 * gain.efficiency] for gain in scaling.gains]  # type: ignore[operator]
    assert scaling.gains[0].efficiency == pytest.approx(2**0.8 / 2)


def test_one_scale_is_no_scaling(results: Experiment, as_owner: Client) -> None:
    page = read_report(as_owner, results)
    assert set(figures(page)) == {
        "forest", "bars", "strip-0", "slopes-0", "order-0", "equivalence-0"
    }  # fmt: skip


def test_of_a_table_the_reader_says_whose_batch_it_is(as_owner: Client) -> None:
    """The published training times: no efficiency before somebody says that the work is shared."""
    table = PublishedTableFactory(text=TRAINING_TIMES, baseline="baremetal", visibility="public")
    address = table.get_absolute_url()
    page = as_owner.get(address, {"section": "scaling"}).content.decode()
    found = figures(page)
    assert "does not say which work stayed the same" in page
    assert "efficiency-0" not in found
    assert not [t for t in found["scaling-0"]["data"] if t["name"].endswith("ideal")]
    strong = as_owner.get(address, {"scaling": "strong"}).content.decode()
    assert "Strong scaling" in strong
    efficiency = figures(strong)["efficiency-0"]["data"]
    (bare,) = [t for t in efficiency if t["name"] == "baremetal"]
    assert bare["y"] == [pytest.approx(77.61, abs=0.01), pytest.approx(49.87, abs=0.01)]
    small = figures(strong)["scaling-0"]["layout"]["annotations"]
    assert "machine and framework not stated" in [note["text"] for note in small]
    weak = as_owner.get(address, {"scaling": "weak"}).content.decode()
    assert "Weak scaling" in weak


def test_another_framework_at_another_scale_is_no_base(site: Site, people: People) -> None:
    made = trained(site, people)
    other = Snapshot.objects.keep(
        {"inside": {"cpu": "EPYC", "packages": {"tensorflow-cpu": "1.10"}}}
    )
    Run.objects.filter(experiment=made, scale="1x1", environment=site.bare).update(snapshot=other)
    (scaling,) = compute_scalings(compare_experiment(made))
    bare, container = scaling.gains
    assert (bare.speed_up, bare.flaw) == (None, "another machine or framework than the base")
    assert container.speed_up == pytest.approx(2**0.8)


def rows_of(page: str) -> list[list[str]]:
    """The rows of the accuracy table as texts."""
    table = page.partition("Accuracy, and the time it took")[2].partition("</section>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table.partition("<tbody>")[2], re.DOTALL)
    cells = [re.findall(r"<t[dh].*?</t[dh]>", row, re.DOTALL) for row in rows]
    return [[" ".join(re.sub(r"<[^>]+>", " ", cell).split()) for cell in row] for row in cells]


def test_accuracies_are_compared_in_points_with_the_time_they_took(
    site: Site, people: People, as_owner: Client
) -> None:
    made = trained(site, people, scales=("1x1",))
    reached = made.runs.filter(environment=site.bare)
    for run, seconds in zip(reached[:2], (1.0, 1.2), strict=True):
        MeasurementFactory(run=run, metric="time_to_accuracy", value=seconds)
    page = read_report(as_owner, made)
    bare, container = rows_of(page)
    assert bare == [
        "bare metal",
        "62.0 ± 1.0 % (SD, n = 3)",
        "baseline",
        "",
        "12.0 ± 1.0 s (SD, n = 3)",
        "1.10 ± 0.14 s (SD, n = 2) reached by 2 of 3 runs",
    ]
    assert container[0] == "Apptainer"
    assert container[2].startswith("+0.20")
    assert container[5] == "not reached"


def test_nothing_is_compared_before_its_time(site: Site, people: People, as_owner: Client) -> None:
    """While runs are under way there is neither a difference in points nor an efficiency."""
    made = trained(site, people)
    last = made.runs.order_by("-pk")[0]
    Run.objects.filter(pk=last.pk).update(state=Run.State.RUNNING)
    page = read_report(as_owner, made)
    assert "strip-0" in figures(page)
    assert not figures(page).keys() & {"bars", "scaling-0", "efficiency-0"}
    assert "Accuracy, and the time it took" not in page


def test_one_training_each_is_no_inference(site: Site, people: People, as_owner: Client) -> None:
    made = trained(site, people, blocks=1, scales=("1x1",))
    page = read_report(as_owner, made)
    (_, container) = rows_of(page)
    assert container[2] == "+0.20 no inference: n = 1"
    assert container[3] == "–"


def test_a_run_shows_its_evaluations_against_seconds(
    site: Site, people: People, as_owner: Client
) -> None:
    run = trained(site, people, blocks=1, scales=("1x1",)).runs.all()[0]
    page = as_owner.get(run.get_absolute_url()).content.decode()
    drawn = figures(page)
    assert len(drawn) == 3, "step times, losses, accuracies"
    (accuracy,) = [f for f in drawn.values() if "accuracy" in f["layout"]["yaxis"]["title"]["text"]]
    assert accuracy["data"][0]["x"] == [0.5, 1.0, None]
