"""The list of runs: columns of one's choice, sorted and filtered by any of them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from dashboard import lists
from dashboard.execution import run_order
from dashboard.execution.run_cells import choose_decimals, write
from dashboard.execution.run_columns import OWN, Column, list_columns
from dashboard.execution.run_conditions import make_condition
from experiments.models import Experiment, Run, SavedView, Snapshot, Workload
from tests.dashboard.conftest import People, Site, measured
from tests.factories import JobFactory, MeasurementFactory, RunFactory

pytestmark = pytest.mark.django_db

STEP_TIME = Column("metric.step_time", "Step time", "metric", unit="s")


@pytest.fixture
def runs(site: Site, people: People) -> list[Run]:
    """Five runs: three with step times 0.3, 0.1, 0.2 s, two without; parameters and facts."""
    experiment = measured(site, people.owner, blocks=0, question="What?")
    made = []
    for number, value in enumerate((0.3, None, 0.1, None, 0.2)):
        job = JobFactory(experiment=experiment, workload=site.workload, repeat=number + 1)
        run = RunFactory(
            job=job,
            node=f"node{number}",
            values={} if value is None else {"step_time": value},
            state="failed" if value is None else "succeeded",
            reason="out of memory" if value is None else "",
            spec={"workload": {"parameters": {"steps": number * 5, "threads": "x"}}},
            snapshot=Snapshot.objects.keep({"inside": {"kernel": f"6.{number % 2}"}}),
        )
        made.append(run)
    return made


def shown(client: Client, query: dict[str, Any]) -> list[str]:
    """Return the nodes of the runs shown, in their order."""
    page = client.get("/runs/", {"column": ["node"], **query})
    assert page.status_code == 200
    soup = BeautifulSoup(page.content, "html.parser")
    return [row.text[-1] for row in soup.select(".runs tbody td:not(.empty)")]


def notes(client: Client, query: dict[str, Any]) -> list[str]:
    soup = BeautifulSoup(client.get("/runs/", query).content, "html.parser")
    return [note.text for note in soup.select(".note.warning")]


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("metric.step_time", "24013"),
        ("-metric.step_time", "04231"),
        ("parameter.steps", "01234"),
        ("-parameter.steps", "43210"),
        ("fact.kernel", "02413"),
        ("-fact.kernel", "31420"),
        ("-node", "43210"),
        ("took", "01234"),
        ("metric.container_start", "01234"),
    ],
)
def test_runs_are_sorted_by_any_column_and_those_without_a_value_come_last(
    sort: str, order: str, as_owner: Client, runs: list[Run]
) -> None:
    found = "".join(shown(as_owner, {"sort": sort}))
    if sort == "metric.step_time":
        order = "24013"
    assert found == order


@pytest.mark.parametrize("text", ["what", "What?", "uid", "nothing of it"])
def test_a_search_looks_at_questions_and_at_the_beginning_of_identifiers(
    text: str, as_owner: Client, runs: list[Run], people: People, site: Site
) -> None:
    measured(site, people.owner, blocks=2, question="Another")
    text = runs[2].uid[:12].upper() if text == "uid" else text
    expected = {"what": "01234", "What?": "01234", "nothing of it": ""}.get(text, "2")
    assert "".join(shown(as_owner, {"q": text, "sort": "node"})) == expected


def test_of_an_experiment_every_run_is_on_one_page_of_its_list(
    as_owner: Client, people: People, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages are cut by keys, and their rows read afterwards, in the same order."""
    experiment = measured(site, people.owner, blocks=5)
    monkeypatch.setitem(lists.make_listing.__kwdefaults__, "per_page", 3)
    for sort in ("place", "-place", "environment", "-node", "state"):
        seen = []
        for page in range(1, 5):
            answer = as_owner.get(
                experiment.get_absolute_url(), {"tab": "runs", "sort": sort, "page": page}
            )
            seen += [run.uid for run in answer.context["listing"].page]
        assert len(seen) == 10
        assert set(seen) == set(experiment.runs.values_list("uid", flat=True)), sort


@pytest.mark.parametrize(
    ("where", "nodes"),
    [
        (["metric.step_time>=0.2"], "04"),
        (["metric.step_time>=200 ms", "metric.step_time<0.3"], "4"),
        (["metric.step_time="], "13"),
        (["metric.step_time!="], "024"),
        (["parameter.steps>=10"], "234"),
        (["parameter.steps=10"], "2"),
        (["parameter.steps!=10"], "0134"),
        (["parameter.threads>=10"], ""),
        (["parameter.threads~X"], "01234"),
        (["parameter.seed="], "01234"),
        (["fact.kernel=6.1"], "13"),
        (["fact.kernel!=6.1"], "024"),
        (["fact.package numpy="], "01234"),
        (["state=failed"], "13"),
        (["reason="], "024"),
        (["reason~MEMORY"], "13"),
        (["took>=10 s", "began>2020-01-01"], "01234"),
        (["took>1 min"], ""),
        (["repeat<=2"], "01"),
        (["began>=1 d"], ""),
    ],
)
def test_runs_are_filtered_by_any_column(
    where: list[str], nodes: str, as_owner: Client, runs: list[Run]
) -> None:
    assert sorted(shown(as_owner, {"where": where})) == list(nodes)
    assert notes(as_owner, {"where": where}) == []


@pytest.mark.parametrize("descending", ["", "-"])
def test_pages_of_a_sorted_list_hold_each_run_once(
    descending: str, as_owner: Client, site: Site, people: People
) -> None:
    experiment = measured(site, people.owner, blocks=0)
    job = JobFactory(experiment=experiment, workload=site.workload)
    for number in range(220):
        run = RunFactory(job=job, repeat=number, position=number)
        if number % 2:  # 110 of 220, most of them equal
            MeasurementFactory(run=run, value=number // 20)
    found: list[str] = []
    for page in (1, 2, 3):
        answer = as_owner.get("/runs/", {"sort": f"{descending}metric.step_time", "page": page})
        soup = BeautifulSoup(answer.content, "html.parser")
        found += [str(box["value"]) for box in soup.select("tbody [name=pick]")]
    assert sorted(found) == sorted(experiment.runs.values_list("uid", flat=True))
    with_value = set(experiment.runs.filter(measurements__isnull=False).values_list("uid"))
    assert {(uid,) for uid in found[:110]} == with_value


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"column": ["node", "metric.no_such"]}, "There is no column “metric.no_such”"),
        ({"sort": "-password"}, "There is no column “-password” to sort by"),
        ({"where": "metric.no_such>1"}, "there is no column “metric.no_such”"),
        ({"where": "nonsense"}, "does not begin with a column"),
        ({"where": "metric.step_time>fast"}, "compared with a number of s"),
        ({"where": "metric.step_time>nan"}, "compared with a number"),
        ({"where": "metric.step_time>" + "9" * 299}, ""),
        ({"where": "metric.step_time>" + "9" * 5000}, "at most 300 characters"),
        ({"where": "state~fail"}, ""),
        ({"where": "state<failed"}, "State is compared by"),
        ({"where": "state=lost"}, "there is no state “lost”"),
        ({"where": "took>soon"}, "a duration"),
        ({"where": "began>soon"}, "a time in UTC"),
        ({"where": "repeat=1.5"}, "a whole number"),
        ({"where": "parameter.steps>x"}, "compared with a number"),
        ({"state": "no such"}, "there is no state “no such”"),
        ({"cluster": "7" * 30}, "there is no such"),
        ({"column": [f"fact.package {n}" for n in range(60)]}, "at most 40 columns"),
        ({"where": [f"node~{n}" for n in range(30)]}, "at most 20 filters"),
    ],
)
def test_what_makes_no_sense_is_said_and_the_rest_works(
    query: dict[str, Any], words: str, as_owner: Client, runs: list[Run]
) -> None:
    said = " ".join(notes(as_owner, query))
    assert words in said if words else (said == "" or "state" in str(query))
    page = as_owner.get("/runs/", query)
    assert page.status_code == 200


def test_chosen_columns_stand_in_the_order_of_the_address_with_one_unit(
    as_owner: Client, runs: list[Run]
) -> None:
    query = {"column": ["metric.step_time", "parameter.steps", "state"], "sort": "-node"}
    soup = BeautifulSoup(as_owner.get("/runs/", query).content, "html.parser")
    heads = [" ".join(head.text.split()) for head in soup.select(".runs thead th")]
    assert heads == ["Run", "Step time ms", "Steps steps", "State"] or heads[1] == "Step time ms"
    cells = [[cell.text for cell in row.select("td")] for row in soup.select(".runs tbody tr")]
    assert [row[0] for row in cells] == ["200.0", "–", "100.0", "–", "300.0"]
    assert [row[1] for row in cells] == ["20", "15", "10", "5", "0"]


def test_each_filter_is_a_chip_that_can_be_removed(as_owner: Client, runs: list[Run]) -> None:
    query = {"where": ["state=failed", "metric.step_time>=0.2"], "environment": "bare"}
    soup = BeautifulSoup(as_owner.get("/runs/", query).content, "html.parser")
    chips = [" ".join(chip.text.split()) for chip in soup.select(".chips li")]
    assert chips == ["Environment contains bare ×", "State = failed ×", "Step time ≥ 200.0 ms ×"]
    first, second, third = (str(link["href"]) for link in soup.select(".chips a"))
    assert first.count("where=") == 2
    assert "environment" not in first
    assert "state" not in second
    assert "step_time" in second
    assert "step_time" not in third


def test_what_is_typed_into_the_forms_becomes_the_address(
    as_owner: Client, runs: list[Run]
) -> None:
    typed = {"add_column": "node", "add_operator": "=", "add_value": " node3 ", "sort": "node"}
    answer = as_owner.get("/runs/", {**typed, "page": "2", "where": "state=failed"})
    address = "/runs/?where=state%3Dfailed&where=node%3Dnode3&sort=node"
    assert answer["Location"] == address
    answer = as_owner.get("/runs/", {"column": "node", "add_fact": "package numpy"})
    assert answer["Location"] == "/runs/?column=node&column=fact.package+numpy"
    assert notes(as_owner, {"column": ["node", "fact.package numpy"]}) == []


def test_nobody_learns_from_a_filter_or_an_order_what_they_may_not_view(
    people: People, runs: list[Run]
) -> None:
    Experiment.objects.update(visibility="private")
    client = people.client("other")
    for query in ({}, {"where": "metric.step_time>0"}, {"sort": "metric.step_time"}):
        assert "No run yet" in client.get("/runs/", query).content.decode() or (
            shown(client, query) == []
        )
    offered = client.get("/runs/").context["list"].offered
    assert offered.get("metric.step_time") is None


def test_a_list_asks_as_often_for_many_columns_as_for_few(
    as_owner: Client, runs: list[Run]
) -> None:
    def count(columns: list[str]) -> int:
        with CaptureQueriesContext(connection) as captured:
            as_owner.get("/runs/", {"column": columns, "sort": "metric.step_time"})
        return len(captured)

    few = count(["metric.step_time"])
    many = count(["metric.step_time", "metric.import_time", "parameter.steps", *OWN])
    assert many == few


def test_only_long_lists_are_counted_now_and_then(
    as_owner: Client, runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    def count() -> int:
        found: int = as_owner.get("/runs/").context["listing"].page.paginator.count
        return found

    assert count() == 5
    runs[0].delete()
    assert count() == 4
    monkeypatch.setattr(run_order, "LONG", 3)
    assert count() == 4
    runs[1].delete()
    assert count() == 4
    cache.clear()
    assert count() == 3
    cache.clear()


def test_a_limit_of_the_metric_that_sorts_says_where_its_index_begins(
    as_owner: Client, runs: list[Run]
) -> None:
    query = {"sort": "-metric.step_time", "where": "metric.step_time>0.1"}
    with CaptureQueriesContext(connection) as captured:
        assert shown(as_owner, query) == ["0", "4"]
    (keys,) = (row["sql"] for row in captured if "sorted_by" in row["sql"])
    assert keys.count("experiments_measurement") == 1


def test_of_a_metric_in_several_units_each_cell_says_its_own(
    as_owner: Client, runs: list[Run]
) -> None:
    MeasurementFactory(run=runs[1], metric="step_time", value=7, unit="furlongs")
    query = {"column": "metric.step_time", "sort": "node"}
    soup = BeautifulSoup(as_owner.get("/runs/", query).content, "html.parser")
    cells = [cell.text for cell in soup.select(".runs tbody td")]
    assert cells == ["300.0 ms", "7.000 furlongs", "100.0 ms", "–", "200.0 ms"]


def test_a_file_has_the_runs_and_the_columns_of_the_list_with_all_digits(
    as_owner: Client, runs: list[Run]
) -> None:
    Run.objects.filter(pk=runs[0].pk).update(node="=1+1")
    MeasurementFactory(run=runs[1], value=0.12345678901234)
    query = {
        "column": ["node", "metric.step_time", "took", "state"],
        "where": "metric.step_time>0.12",
        "sort": "metric.step_time",
    }
    answer = as_owner.get("/runs.csv", query)
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert lines == [
        "run,node,metric.step_time (s),took (s),state",
        f"{runs[1].uid},node1,0.12345678901234,10.0,failed",
        f"{runs[4].uid},node4,0.2,10.0,succeeded",
        f"{runs[0].uid},'=1+1,0.3,10.0,succeeded",
    ]
    page = as_owner.get("/runs/", query).content.decode()
    assert "/runs.csv?" in page


@given(st.text(max_size=40), st.sampled_from(["=", "!=", "~", "<", "<=", ">", ">="]))
def test_a_value_is_refused_in_words_or_understood(value: str, operator: str) -> None:
    for column in (*OWN.values(), STEP_TIME, Column("parameter.steps", "Steps", "parameter")):
        with suppress(ValueError):
            assert make_condition(column, operator, value).text


@given(st.lists(st.floats(-1e15, 1e15), min_size=1, max_size=9))
def test_a_number_that_is_not_zero_never_reads_as_zero(values: list[float]) -> None:
    decimals = choose_decimals(values)
    for value in values:
        text = write(value, decimals).replace(",", "").replace("−", "-")
        assert (float(text) == 0) == (value == 0)
        assert float(text) == pytest.approx(value, rel=1e-3, abs=0.51 * 10**-decimals)


def test_a_view_keeps_filters_columns_and_order_for_one_person(
    people: People, runs: list[Run]
) -> None:
    client = people.client("owner")
    state = "where=state%3Dfailed&column=node&sort=-node"
    answer = client.post("/views/save/", {"name": " Failed  ones ", "query": f"{state}&page=3&x=1"})
    view = SavedView.objects.get()
    assert (view.name, view.query) == ("Failed ones", state)
    assert answer["Location"] == f"/runs/?{state}"
    soup = BeautifulSoup(client.get(answer["Location"]).content, "html.parser")
    assert [link.text for link in soup.select(".tabs [aria-current]")] == ["Failed ones"]
    client.post("/views/save/", {"name": "Failed ones", "query": ""})
    assert SavedView.objects.get().query == ""
    other = people.client("other")
    assert "Failed ones" not in other.get("/runs/").content.decode()
    assert other.post(f"/views/{view.pk}/delete/").status_code == 404
    client.post(f"/views/{view.pk}/delete/")
    assert not SavedView.objects.exists()


@pytest.mark.parametrize("posted", [{"name": " "}, {"name": "a", "query": "q=" + "x" * 5000}, {}])
def test_what_is_no_view_is_not_saved(posted: dict[str, str], as_owner: Client) -> None:
    answer = as_owner.post("/views/save/", posted, follow=True)
    assert "Not saved" in answer.content.decode()
    assert not SavedView.objects.exists()


def test_a_person_has_a_limited_number_of_views(people: People) -> None:
    client = people.client("owner")
    for number in range(SavedView.MOST + 2):
        client.post("/views/save/", {"name": f"view {number}", "query": "q=1"})
    assert SavedView.objects.count() == SavedView.MOST
    client.post("/views/save/", {"name": "view 0", "query": "q=2"})
    assert SavedView.objects.get(name="view 0").query == "q=2"


@pytest.mark.parametrize("sort", ["fact.kernel", "-fact.kernel", "metric.step_time", "node"])
def test_a_filter_that_nothing_can_fulfil_gives_an_empty_list_in_any_order(
    sort: str, as_owner: Client, runs: list[Run]
) -> None:
    query = {"where": "repeat=-1", "sort": sort, "column": "node"}
    assert shown(as_owner, query) == []
    answer = as_owner.get("/runs.csv", query)
    assert b"".join(answer.streaming_content) == b"run,node\r\n"


def test_columns_on_offer_read_each_workload_once_and_no_long_texts_of_it(
    site: Site, people: People
) -> None:
    site.workload.kind = "command"
    site.workload.parameters = {
        "argv": ["python3", "a long argument"],
        "files": {"train.py": "f" * 64},
        "metrics": [{"name": "latency", "unit": "ms", "better": "lower"}],
    }
    site.workload.save()
    for _ in range(3):
        measured(site, people.owner, blocks=0)
    with CaptureQueriesContext(connection) as captured:
        columns = list_columns(people.owner)
    assert columns.get("metric.latency")
    (statement,) = (row["sql"] for row in captured if "parameters" in row["sql"])
    with connection.cursor() as cursor:
        cursor.execute(statement)
        ((_, parameters),) = cursor.fetchall()
    assert "latency" in str(parameters)
    assert "train.py" not in str(parameters)
    assert "a long argument" not in str(parameters)


@pytest.fixture
def latencies(site: Site, people: People) -> list[Run]:
    """Three runs of two programs: 0.2 and 0.3 s of the first one, 250 ms of the second."""
    made = []
    for number, (value, unit) in enumerate(((0.2, "s"), (0.3, "s"), (250, "ms"))):
        metrics = [{"name": "latency", "unit": unit, "better": "lower"}]
        workload, _ = Workload.objects.get_or_create(
            name=f"program {unit}",
            defaults={
                "kind": "command",
                "parameters": {"metrics": metrics},
                "owner": people.owner,
            },
        )
        job = JobFactory(
            experiment=measured(replace(site, workload=workload), people.owner, blocks=0),
            workload=workload,
        )
        run = RunFactory(job=job, node=f"node{number}")
        MeasurementFactory(run=run, metric="latency", value=value, unit=unit)
        made.append(run)
    return made


@pytest.mark.parametrize(
    ("where", "nodes"),
    [
        ("metric.latency>=0.2", "012"),
        ("metric.latency>0.25", "1"),
        ("metric.latency>=250 ms", "12"),
        ("metric.latency=250 ms", "2"),
        ("metric.latency!=0.25 s", "01"),
        ("metric.latency<1", "012"),
    ],
)
@pytest.mark.parametrize("sort", ["node", "metric.latency"])
def test_a_filter_compares_values_of_several_units_by_their_size(
    sort: str, where: str, nodes: str, as_owner: Client, latencies: list[Run]
) -> None:
    query = {"where": where, "sort": sort}
    assert sorted(shown(as_owner, query)) == list(nodes)
    assert notes(as_owner, query) == []


def test_a_filter_leaves_out_values_that_have_nothing_to_do_with_its_unit(
    as_owner: Client, latencies: list[Run]
) -> None:
    latencies[0].measurements.update(unit="hops")
    for sort in ("node", "metric.latency"):
        assert shown(as_owner, {"where": "metric.latency>0.1", "sort": sort})[0] != "0"


def test_a_file_has_the_unit_of_each_value_where_they_differ(
    as_owner: Client, latencies: list[Run]
) -> None:
    query = {"column": ["metric.latency", "node"], "sort": "node"}
    answer = as_owner.get("/runs.csv", query)
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert lines == [
        "run,metric.latency,metric.latency unit,node",
        f"{latencies[0].uid},0.2,s,node0",
        f"{latencies[1].uid},0.3,s,node1",
        f"{latencies[2].uid},250.0,ms,node2",
    ]
    # The unit is that of the rows, whatever another program of the reader's declares.
    answer = as_owner.get("/runs.csv", {**query, "where": "workload=program ms"})
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert lines == ["run,metric.latency (ms),node", f"{latencies[2].uid},250.0,node2"]


@pytest.mark.parametrize("query", ["q=%00", "where=node%3D%00", "q=" + "ä" * 1500])
def test_a_view_that_could_not_be_opened_is_not_saved(query: str, as_owner: Client) -> None:
    answer = as_owner.post("/views/save/", {"name": "odd", "query": query}, follow=True)
    assert answer.status_code == 200
    assert "Not saved" in answer.content.decode()
    assert not SavedView.objects.exists()


def test_filters_stay_where_a_view_is_not_saved(as_owner: Client) -> None:
    answer = as_owner.post("/views/save/", {"name": " ", "query": "sort=-node"})
    assert answer["Location"] == "/runs/?sort=-node"


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("began>7 d", "Began in the last 7 d ×"),
        ("began>=-2 h", "Began in the last 2 h ×"),
        ("ended<30 min", "Ended more than 30 min ago ×"),
        ("ended<=30 min", "Ended more than 30 min ago ×"),
        ("began>2020-01-01", "Began > 2020-01-01 00:00 UTC ×"),
    ],
)
def test_the_chip_of_a_time_reads_as_a_sentence(
    where: str, text: str, as_owner: Client, runs: list[Run]
) -> None:
    soup = BeautifulSoup(as_owner.get("/runs/", {"where": where}).content, "html.parser")
    (chip,) = soup.select(".chips li")
    assert " ".join(chip.text.split()) == text


def test_every_view_can_be_deleted_without_being_opened(
    as_owner: Client, people: People, runs: list[Run]
) -> None:
    views = [
        SavedView.objects.create(owner=people.owner, page="runs", name=name, query=query)
        for name, query in (("cannot be opened", "q=%00"), ("<b>usual</b>", "sort=node"))
    ]
    assert as_owner.get(views[0].get_absolute_url()).status_code == 400
    soup = BeautifulSoup(as_owner.get("/runs/").content, "html.parser")
    for view in views:
        button = soup.select_one(f'form[action="/views/{view.pk}/delete/"] button')
        assert button
        assert button["aria-label"] == f"Delete the view {view.name}"
        as_owner.post(f"/views/{view.pk}/delete/")
    assert not SavedView.objects.exists()
