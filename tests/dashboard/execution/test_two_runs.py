"""Any two runs stand side by side: differences on top, then numbers and curves."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from dashboard.comparisons import figure_views
from experiments.models import Cluster, Experiment, Run, Snapshot
from tests.dashboard.conftest import People, Site, measured
from tests.factories import (
    NOON,
    ExperimentFactory,
    JobFactory,
    LaunchedFactory,
    RunFactory,
    SeriesFactory,
    WorkloadFactory,
    link_to,
)

pytestmark = pytest.mark.django_db
FACTS = {"Python": "3.11.2", "package numpy": "2.4.6", "CPU": "Xeon"}


def refuse_to_draw(*_: Any) -> bytes:
    raise AssertionError("nothing is drawn for HEAD")


@pytest.fixture
def pair(results: Experiment) -> tuple[Run, Run]:
    """A run on bare metal and one in a container, of one block, with another Python each."""
    left, right = results.runs.filter(repeat=1).order_by("position")
    for row, version in ((left, "3.11.2"), (right, "3.12.0")):
        content = {"inside": {"python": {"version": version}, "cpuinfo": f"a\n{version}\nz"}}
        snapshot = Snapshot.objects.keep(content)
        Snapshot.objects.filter(pk=snapshot.pk).update(facts=FACTS | {"Python": version})
        row.snapshot = snapshot
        row.command = f"python {row.job.directory}/{row.folder}/run.py"
        row.spec = {
            "environment": {"label": "it", "variables": [["OMP_NUM_THREADS", version]]},
            "workload": {"kind": "blas", "parameters": {"size": 4096}},
        }
        row.save()
    return left, right


def address_of(left: Run, right: Run, query: str = "") -> str:
    return reverse("two_runs", args=[left.uid, right.uid]) + query


def show(client: Client, left: Run, right: Run, query: str = "") -> BeautifulSoup:
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
            }
    return {}


def fetch_part(client: Client, address: str, target: str) -> str:
    """Return what takes the place of an element of the page."""
    answer = client.get(address, headers={"HX-Request": "true", "HX-Target": target})
    part = answer.content.decode().strip()
    assert part.startswith(f'<div id="{target}">')
    return part


def figures(page: BeautifulSoup) -> list[Any]:
    return [json.loads(str(part.string)) for part in page.select('script[type*="json"][id^=curve]')]


def test_differences_come_first_and_what_is_shared_is_folded(
    pair: tuple[Run, Run], as_owner: Client
) -> None:
    page = show(as_owner, *pair)
    differing, same = rows(page, "What differs"), rows(page, "What is the same")
    assert differing["Python"] == ["3.11.2", "3.12.0"]
    assert differing["Environment"] == ["bare metal", "Apptainer"]
    assert differing["Variables"] == ["OMP_NUM_THREADS=3.11.2", "OMP_NUM_THREADS=3.12.0"]
    assert same["package numpy"] == ["2.4.6"]
    assert same["Parameter size"] == ["4096"]
    # Their directories differ always, and say nothing.
    assert same["Command"] == ["python {the run's directory}/run.py"]
    assert not differing.keys() & same.keys()
    assert f"{len(differing)} of {len(differing) + len(same)} known facts differ." in page.text
    assert page.select_one("details table caption").text == "What is the same"  # type: ignore[union-attr]


def test_every_fact_of_the_snapshots_is_shown_when_asked(
    pair: tuple[Run, Run], as_owner: Client
) -> None:
    page = show(as_owner, *pair, "?facts=all&find=inside.cpuinfo")
    # Of texts of many lines, only those that the other side lacks.
    ((name, values),) = rows(page, "What differs").items()
    assert name == "inside.cpuinfo"
    assert values == ["of 3: 3.11.2", "of 3: 3.12.0"]
    assert "1 of 1 facts with these words differs." in page.text
    nothing = show(as_owner, *pair, "?find=nowhere")
    assert "No fact holds these words." in nothing.text
    part = fetch_part(as_owner, address_of(*pair, "?find=numpy"), "facts-found")
    assert "numpy" in part
    assert "<form" not in part  # what is typed meanwhile would be lost with it


def test_thousands_of_facts_make_no_long_page(pair: tuple[Run, Run], as_owner: Client) -> None:
    sizes, counts = [], []
    for many in (5, 5_000):
        for side, row in enumerate(pair):
            packages = {f"p{i}": f"1.{i % 2 * side}" for i in range(many)}
            row.snapshot = Snapshot.objects.keep({"inside": {"packages": packages}})
            row.save(update_fields=["snapshot"])
        with CaptureQueriesContext(connection) as queries:
            answer = as_owner.get(address_of(*pair, "?facts=all"))
        counts.append(len(queries))
        sizes.append(len(answer.content))
        page = BeautifulSoup(answer.content, "html.parser")
    assert counts[0] == counts[1]
    assert sizes[1] < 200_000
    shown = rows(page, "What differs"), rows(page, "What else differs")
    assert [len(table) for table in shown] == [20, 280]
    counted = re.search(r"(\d+) of (\d+) known facts differ\.\s", page.text)
    assert counted
    assert 5_000 <= int(counted[1]) < int(counted[2])
    assert f"And {int(counted[1]) - 300} more." in page.text
    found = show(as_owner, *pair, "?facts=all&find=inside.packages.p4999")
    assert rows(found, "What differs") == {"inside.packages.p4999": ["1.0", "1.1"]}


def test_numbers_stand_beside_each_other_with_what_the_right_one_is_more(
    pair: tuple[Run, Run], as_owner: Client
) -> None:
    page = show(as_owner, *pair)
    ((name, values),) = rows(page, "What was measured").items()
    assert "step_time" in name
    assert values == ["20.02 ms", "22.02 ms", "+10.0 %"]
    verdicts = rows(page, "The runs")["Verdict about its environment"]
    assert verdicts[0] == "the baseline"
    assert verdicts[1].startswith("NOT ATTRIBUTABLE"), "their Python differs"
    swapped = show(as_owner, pair[1], pair[0])
    assert next(iter(rows(swapped, "What was measured").values()))[2] == "−9.1 %"


def test_curves_share_their_axes_and_lack_what_is_no_number(
    pair: tuple[Run, Run], as_owner: Client
) -> None:
    SeriesFactory(run=pair[0], metric="step_time", values=[3.0, 0.02, float("nan"), 0.021] * 500)
    SeriesFactory(run=pair[1], metric="step_time", values=[0.022] * 10)
    SeriesFactory(run=pair[1], metric="loss", unit="1", values=[2.0, 1.0])
    page = show(as_owner, *pair)
    step_time, loss = figures(page)
    assert [trace["meta"]["environment"] for trace in step_time["data"]] == [0, 1]
    assert None in step_time["data"][0]["y"]
    assert max(filter(None, step_time["data"][0]["y"])) == 3.0
    assert all(len(trace["x"]) <= 500 for trace in step_time["data"])
    assert "500 values not a number" in page.text
    assert [trace["name"] for trace in loss["data"]] == [f"Apptainer, run {pair[1].uid[:8]}"]
    assert "the other has none" in page.text


def test_the_picture_of_both_runs_comes_first_and_its_files_are_where_all_are(
    pair: tuple[Run, Run], as_owner: Client
) -> None:
    for row in pair:
        SeriesFactory(run=row, metric="step_time", values=[0.3, 0.02, 0.021])
        SeriesFactory(run=row, metric="loss", unit="1", values=[2.0, 1.0])
    page = show(as_owner, *pair)
    series = page.select_one("#series")
    assert series
    address = reverse("two_runs_series_svg", args=[pair[0].uid, pair[1].uid])
    assert {str(image["src"]).partition("?")[0] for image in series.select("img")} == {address}
    assert [fold.summary.text for fold in series.select("details:has([data-chart])")] == [
        "Interactive chart: step time",
        "Interactive chart: loss",
    ]
    links = [str(link["href"]) for link in series.select(".figure-export a")]
    assert {link.partition("?")[0].rpartition(".")[2] for link in links} == {"svg", "png", "pdf"}
    chosen = show(as_owner, *pair, "?series=loss")
    assert all("series=loss&" in str(image["src"]) for image in chosen.select("#series img"))


def test_the_figure_of_two_runs_is_a_file_and_nothing_is_drawn_for_head(
    pair: tuple[Run, Run], as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = reverse("two_runs_series_svg", args=[pair[0].uid, pair[1].uid])
    assert as_owner.get(address).status_code == 404, "neither has recorded anything"
    SeriesFactory(run=pair[0], metric="step_time", values=[0.3, 0.02, 0.021])
    with monkeypatch.context() as patched:
        patched.setattr(figure_views, "draw_in_turn", refuse_to_draw)
        assert as_owner.head(address).status_code == 200
    file = as_owner.get(address)
    assert file.content.startswith(b"<?xml")
    assert b"Inside the runs: bare metal" in file.content
    assert f"tare-runs-{pair[0].uid}-{pair[1].uid}" in file["Content-Disposition"]
    assert as_owner.get(address + "?series=nothing").status_code == 200
    assert as_owner.get(address + "?page=2").status_code == 404


def test_series_without_any_number_have_no_picture(pair: tuple[Run, Run], as_owner: Client) -> None:
    SeriesFactory(run=pair[0], metric="loss", unit="1", values=[float("nan")] * 3)
    series = show(as_owner, *pair).select_one("#series")
    assert series
    assert not series.select("img")
    assert series.select("[data-chart]")


def test_of_hundreds_of_series_a_few_are_drawn_and_each_can_be_chosen(
    pair: tuple[Run, Run], as_owner: Client
) -> None:
    for side, row in enumerate(pair):
        for number in range(300):
            values = [1.0, float("nan"), float("inf"), 2.0 + side]
            SeriesFactory(run=row, metric=f"layer_{number:03}", unit="1", values=values)
    SeriesFactory(run=pair[1], metric="step_time", values=[0.02] * 5)
    with CaptureQueriesContext(connection) as queries:
        page = show(as_owner, *pair)
    assert len(figures(page)) == 6
    assert not [query for query in queries if "layer_006" in query["sql"]]
    options = [str(option["value"]) for option in page.select("#series-of option")]
    assert len(options) == 302
    assert page.select_one("#series-of option").text == "The first 6 of 301"  # type: ignore[union-attr]
    assert not page.select("#series #series-of")  # it keeps the focus
    chosen = show(as_owner, *pair, "?series=layer_299&find=numpy")
    (figure,) = figures(chosen)
    assert [trace["y"] for trace in figure["data"]] == [[1.0, None, None, end] for end in (2, 3)]
    assert chosen.select_one("#series-of option[selected]")["value"] == "layer_299"  # type: ignore[index]
    hidden = chosen.select("#facts noscript input[type=hidden]")
    assert [(field["name"], field["value"]) for field in hidden] == [("series", "layer_299")]
    assert len(figures(show(as_owner, *pair, "?series=<b>\ufffd"))) == 6
    part = fetch_part(as_owner, address_of(*pair, "?series=layer_299"), "series")
    assert len(figures(BeautifulSoup(part, "html.parser"))) == 1


def test_searching_the_differences_draws_nothing(pair: tuple[Run, Run], as_owner: Client) -> None:
    SeriesFactory(run=pair[0], values=[1.0, 2.0])
    with CaptureQueriesContext(connection) as queries:
        fetch_part(as_owner, address_of(*pair, "?find=numpy"), "facts-found")
    tables = ("experiments_series", "experiments_measurement", "experiments_keptcomparison")
    assert not [query["sql"] for query in queries if any(name in query["sql"] for name in tables)]


def test_accuracies_without_as_many_times_are_drawn_by_their_number(
    pair: tuple[Run, Run], as_owner: Client
) -> None:
    # A program of a user's own may report any series under these names.
    for row, count in zip(pair, (2, 600), strict=True):
        SeriesFactory(run=row, metric="accuracy", unit="1", values=[0.5] * 600)
        SeriesFactory(run=row, metric="accuracy_time", values=[float(n) for n in range(count)])
    (accuracy,) = figures(show(as_owner, *pair))
    assert accuracy["layout"]["xaxis"]["title"]["text"] == "step"
    assert [trace["x"][0] for trace in accuracy["data"]] == [1, 1]


def test_runs_without_numbers_and_runs_that_run_have_their_page(
    pair: tuple[Run, Run], as_owner: Client
) -> None:
    running = RunFactory(
        job=JobFactory(experiment=pair[0].experiment, repeat=9),
        state=Run.State.RUNNING,
        exit_code=None,
        ended_at=None,
    )
    page = show(as_owner, pair[1], running)
    assert "At least one of them has not ended" in page.text
    assert next(iter(rows(page, "What was measured").values()))[1:] == ["–", "–"]
    assert rows(page, "The runs")["Verdict about its environment"][0] == "none yet"
    assert "Neither run has a number." in show(as_owner, running, running).text
    assert "Both sides are the same run." in show(as_owner, running, running).text


def test_runs_of_two_experiments_with_other_metrics(
    pair: tuple[Run, Run], site: Site, people: People, as_owner: Client
) -> None:
    other = LaunchedFactory(
        owner=people.owner,
        cluster=site.cluster,
        baseline=site.bare,
        environments=[site.bare, site.container],
        workloads=[WorkloadFactory(name="startup", kind="startup")],
        imported_at=None,
    )
    run = RunFactory(job=JobFactory(experiment=other), values={"import_time": 3.0})
    page = show(as_owner, pair[0], run)
    measured_rows = rows(page, "What was measured")
    assert [values[2] for values in measured_rows.values()] == ["–", "–"]
    assert "Different metrics are compared of these runs" in page.text


def test_a_run_counts_only_in_a_verdict_that_rests_on_it(
    site: Site, people: People, as_owner: Client
) -> None:
    made = measured(site, people.owner, blocks=8, repeats=20, looks=4)
    judged, later = (
        rows(show(as_owner, *made.runs.filter(repeat=repeat).order_by("position")), "The runs")
        for repeat in (5, 6)
    )
    title = "Verdict about its environment"
    assert not [text for text in judged[title] if "does not count" in text]
    assert [text for text in later[title] if "does not count" in text] == later[title]
    made.runs.filter(repeat=2, environment=site.container).update(state=Run.State.FAILED)
    alone = show(as_owner, *made.runs.filter(repeat=2).order_by("position"))
    assert "this run does not count in it" in rows(alone, "The runs")[title][0]


def test_imported_runs_have_no_block(as_owner: Client, people: People, site: Site) -> None:
    made = ExperimentFactory(
        owner=people.owner,
        design="independent",
        imported_at=NOON,
        imported_from="logs",
        import_hash="0" * 64,
        cluster=site.cluster,
    )
    left, right = (
        RunFactory(job=JobFactory(experiment=made, submitted_at=None, script=""), began_at=None)
        for _ in range(2)
    )
    page = show(as_owner, left, right)
    assert rows(page, "What is the same")["Block"] == ["–"]


def test_who_may_not_read_one_of_them_sees_neither(
    pair: tuple[Run, Run], site: Site, people: People
) -> None:
    hidden = measured(site, people.other, blocks=1, visibility="private").runs.all()[0]
    for addresses in ((pair[0], hidden), (hidden, pair[0])):
        assert people.client("owner").get(address_of(*addresses)).status_code == 404
        assert people.client("other").get(address_of(*addresses)).status_code == 200
        answer = Client().get(address_of(*addresses))
        assert answer["Location"].startswith("/login/")
    chooser = reverse("two_runs_choose", args=[pair[0].uid])
    assert hidden.uid not in people.client("owner").get(chooser + "?q=Apptainer").content.decode()
    assert (
        people.client("owner").get(reverse("two_runs_choose", args=[hidden.uid])).status_code == 404
    )


def test_a_link_to_one_experiment_opens_its_runs_alone_and_hides_names(
    pair: tuple[Run, Run], site: Site, people: People, client: Client
) -> None:
    Cluster.objects.filter(pk=site.cluster.pk).update(name="forhlr-secret")
    Run.objects.filter(pk__in=[row.pk for row in pair]).update(node="node-secret7")
    other = measured(site, people.owner, blocks=1, visibility="members").runs.all()[0]
    client.get(link_to(pair[0].experiment, hides_names=True))
    page = show(client, *pair, "?facts=all")
    assert "secret" not in str(page)
    assert "OMP_NUM_THREADS" not in page.text
    assert rows(page, "What differs")["Python"] == ["3.11.2", "3.12.0"]
    assert client.get(address_of(pair[0], other))["Location"].startswith("/login/")


def test_a_second_run_is_chosen_from_its_block_first(
    pair: tuple[Run, Run], as_owner: Client
) -> None:
    page = BeautifulSoup(as_owner.get(pair[0].get_absolute_url()).content, "html.parser")
    (link,) = page.select(f'a[href="{reverse("two_runs_choose", args=[pair[0].uid])}"]')
    chooser = BeautifulSoup(as_owner.get(str(link["href"])).content, "html.parser")
    links = [str(a["href"]) for a in chooser.select("tbody th a")]
    assert links[0] == address_of(*pair)
    assert len(links) == pair[0].experiment.runs.count() - 1
    kept = as_owner.get(f"{link['href']}?keep=right&q={pair[1].uid[:8]}").content.decode()
    assert f'href="{address_of(pair[1], pair[0])}"' in kept
    empty = as_owner.get(f"{link['href']}?q=nothing+at+all").content.decode()
    assert "No run that you may see fits." in empty


def test_exactly_two_selected_runs_stand_side_by_side(
    pair: tuple[Run, Run], as_owner: Client
) -> None:
    picked = [row.uid for row in pair]
    answer = as_owner.post("/runs/selected/", {"action": "compare", "pick": picked})
    assert answer["Location"] == address_of(*pair)
    three = [*picked, pair[0].experiment.runs.exclude(uid__in=picked)[0].uid]
    answer = as_owner.post("/runs/selected/", {"action": "compare", "pick": three})
    assert answer["Location"] == reverse("comparison", args=[pair[0].experiment_id])


def test_it_takes_as_many_statements_for_many_runs(
    pair: tuple[Run, Run], site: Site, people: People, as_owner: Client
) -> None:
    counts = []
    for blocks in (2, 12):
        made = measured(site, people.owner, blocks=blocks, repeats=blocks)
        left, right = made.runs.order_by("pk")[:2]
        for address in (
            address_of(left, right),
            reverse("two_runs_choose", args=[left.uid]),
        ):
            as_owner.get(address)
            with CaptureQueriesContext(connection) as queries:
                as_owner.get(address)
            counts.append(len(queries))
    assert counts[:2] == counts[2:]
    assert max(counts) <= 30
