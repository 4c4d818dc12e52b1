"""The list of experiments by metrics, parameters and facts of their runs."""

from __future__ import annotations

import csv
import io
import math
from contextlib import suppress
from statistics import median
from typing import Any

import pyarrow.parquet as pq
import pytest
from bs4 import BeautifulSoup
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.execution.experiment_value_cells import join_values
from dashboard.execution.experiment_values import read_values, sort_keys
from dashboard.execution.run_columns import Column
from experiments.execution.stored_values import list_changed
from experiments.models import Experiment, Job, Measurement, Run, SavedView, Snapshot, Workload
from tests.dashboard.conftest import People, Site, fetch, measured
from tests.factories import JobFactory, LaunchedFactory, RunFactory, WorkloadFactory

pytestmark = pytest.mark.django_db

STEP_TIME = Column("metric.step_time", "Step time", "metric", unit="s")
STEPS = Column("parameter.steps", "Steps", "parameter")
KERNEL = Column("fact.kernel", "Kernel")


def add_run(
    experiment: Experiment,
    value: float | None = None,
    *,
    unit: str = "s",
    state: str = "succeeded",
    scale: str = "1x1",
    workload: Workload | None = None,
    kernel: str = "",
    **parameters: Any,
) -> Run:
    workload = workload or experiment.workloads.get()
    repeat = experiment.runs.count() + 1
    job = JobFactory(experiment=experiment, workload=workload, scale=scale, repeat=repeat)
    facts = {"inside": {"kernel": kernel}} if kernel else {}
    run: Run = RunFactory(
        job=job,
        state=state,
        spec={"workload": {"parameters": parameters}},
        snapshot=Snapshot.objects.keep(facts),
    )
    if value is not None:
        Measurement.objects.create(run=run, metric="step_time", value=value, unit=unit)
    return run


@pytest.fixture
def four(site: Site, people: People) -> list[Experiment]:
    """Experiments a to d: medians of 0.2 and 0.1 s, runs that do not count, and no run."""
    made = [measured(site, people.owner, blocks=0, question=f"{name}?") for name in "abcd"]
    for number, value in enumerate((0.1, 0.2, 0.4)):
        add_run(made[0], value, steps=number, kernel="6.1")
    add_run(made[1], 0.1, steps=-1, kernel="5.9", text="<b>")
    add_run(made[2], 0.001, state="excluded", steps=-5, kernel="1.0")
    add_run(made[2], 0.001, state="failed", steps=-5, kernel="1.0")
    return made


def shown(client: Client, query: dict[str, Any]) -> dict[str, list[str]]:
    """Return the cells of each experiment by its question's letter, in the order of the page."""
    page = client.get("/experiments/", query)
    assert page.status_code == 200
    rows = BeautifulSoup(page.content, "html.parser").select("tbody tr")
    return {
        link.text[0]: [cell.text.strip() for cell in row.select("td")]
        for row in rows
        if (link := row.select_one("th > a"))
    }


def notes(client: Client, query: dict[str, Any]) -> list[str]:
    soup = BeautifulSoup(client.get("/experiments/", query).content, "html.parser")
    return [note.text for note in soup.select(".note.warning")]


def test_cells_have_the_median_and_the_distinct_values_of_the_runs_that_count(
    as_owner: Client, four: list[Experiment], site: Site
) -> None:
    columns = ["metric.step_time", "parameter.steps", "fact.kernel"]
    cells = shown(as_owner, {"column": columns, "sort": "question"})
    assert cells == {
        "a": ["200.0 ms", "0, 1, 2", "6.1"],
        "b": ["100.0 ms", "-1", "5.9"],
        "c": ["–", "–", "–"],
        "d": ["–", "–", "–"],
    }
    page = as_owner.get("/experiments/", {"column": columns}).content.decode()
    assert 'title="median of 3 runs"' in page
    for number in range(3, 7):
        add_run(four[0], 0.8, scale="2x1", steps=number)
    cells = shown(as_owner, {"column": columns, "sort": "question"})
    assert cells["a"][:2] == ["200.0 ms to 800.0 ms", "0, 1, 2 and 4 more"]
    page = as_owner.get("/experiments/", {"column": columns}).content.decode()
    assert "the median of all 7 runs is 800.0 ms" in page
    add_run(four[0], 0.8, unit="ms")
    page = as_owner.get("/experiments/", {"column": columns, "q": "a?"}).content.decode()
    assert "in several units: ms and s" in page


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("metric.step_time", "bacd"),
        ("-metric.step_time", "abdc"),
        ("parameter.steps", "bacd"),
        ("-parameter.steps", "abdc"),
        ("fact.kernel", "bacd"),
        ("-fact.kernel", "abdc"),
        ("fact.package numpy", "abcd"),
        ("metric.container_start", "abcd"),
    ],
)
def test_experiments_are_sorted_and_those_without_a_value_come_last(
    sort: str, order: str, as_owner: Client, four: list[Experiment]
) -> None:
    assert "".join(shown(as_owner, {"sort": sort})) == order


@pytest.mark.parametrize(
    ("where", "found"),
    [
        (["metric.step_time<0.2"], "ab"),
        (["metric.step_time>=200 ms"], "a"),
        (["metric.step_time<0.01"], ""),
        (["metric.step_time="], ""),
        (["metric.step_time!="], "ab"),
        (["parameter.steps>=1"], "a"),
        (["parameter.steps>=1", "metric.step_time<0.2"], ""),
        (["parameter.steps=0", "metric.step_time<0.2"], "a"),
        (["fact.kernel=6.1"], "a"),
        (["fact.kernel~5"], "b"),
    ],
)
def test_a_filter_keeps_experiments_with_a_run_that_fulfils_all_of_them(
    where: list[str], found: str, as_owner: Client, four: list[Experiment]
) -> None:
    query = {"where": where, "sort": "question"}
    assert "".join(shown(as_owner, query)) == found
    page = as_owner.get("/experiments/", query)
    soup = BeautifulSoup(page.content, "html.parser")
    chips = soup.select(".chips a")
    assert len(chips) == len(where)
    assert as_owner.get("/experiments/" + str(chips[0]["href"])).status_code == 200
    assert "No experiment yet" not in page.content.decode()


def test_nan_and_infinity_are_no_values(as_owner: Client, four: list[Experiment]) -> None:
    for value in (math.nan, math.inf, -math.inf):
        add_run(four[3], value)
        add_run(four[1], value)
    query = {"column": "metric.step_time", "sort": "-metric.step_time"}
    cells = shown(as_owner, query)
    assert "".join(cells) == "abdc"
    assert cells["d"] == ["–"]
    assert cells["b"] == ["100.0 ms"]
    found = shown(as_owner, {"where": "metric.step_time>0.3"})
    assert "".join(found) == "a"
    items = as_owner.get("/api/v1/experiments", query)
    assert b"NaN" not in items.content


class _Undone(Exception):
    """What ends an example, so that its rows are taken back."""


NUMBERS = st.floats(allow_nan=True, allow_infinity=True)


@given(
    st.lists(
        st.tuples(
            NUMBERS,
            st.sampled_from(["succeeded", "excluded", "failed"]),
            st.sampled_from(["1x1", "2x1"]),
            st.integers(-3, 3),
        ),
        max_size=8,
    )
)
@settings(max_examples=40, deadline=None)
def test_values_are_what_python_computes_from_the_rows(
    rows: list[tuple[float, str, str, int]],
) -> None:
    with suppress(_Undone), transaction.atomic():
        experiment: Any = LaunchedFactory()
        experiment.workloads.add(WorkloadFactory())
        workload = experiment.workloads.first()
        for value, state, scale, steps in rows:
            add_run(experiment, value, state=state, scale=scale, workload=workload, steps=steps)
        values = read_values([experiment.pk], [STEP_TIME, STEPS], list_changed())[experiment.pk]
        counted = [row for row in rows if row[1] == "succeeded"]
        steps_shown = sorted({row[3] for row in counted})
        others = values.others.get(STEPS.key)
        assert (others.count if others else 0) == len(steps_shown)
        assert list(others.shown if others else ()) == steps_shown[:3]
        finite = [row for row in counted if math.isfinite(row[0])]
        summary: Any = values.metrics.get(STEP_TIME.key)
        assert (summary.count if summary else 0) == len(finite)
        if summary and summary.median is not None:
            by_scale = [
                median(row[0] for row in finite if row[2] == scale)
                for scale in {row[2] for row in finite}
            ]
            assert summary.median == pytest.approx(median(row[0] for row in finite))
            assert summary.low == pytest.approx(min(by_scale))
            assert summary.high == pytest.approx(max(by_scale))
            assert summary.low <= summary.median <= summary.high
        elif summary:
            assert max(abs(row[0]) for row in finite) > 1e307
        raise _Undone


def test_files_and_the_api_have_the_same_values_in_the_same_order(
    as_owner: Client, four: list[Experiment]
) -> None:
    query: dict[str, Any] = {
        "column": ["metric.step_time", "parameter.steps", "owner"],
        "sort": "-metric.step_time",
        "where": "metric.step_time<1",
    }
    text = fetch(as_owner, "/experiments.csv", data=query).decode()
    lines = list(csv.reader(io.StringIO(text)))
    heads = ["metric.step_time", "metric.step_time unit", "parameter.steps", "owner"]
    assert lines[0] == ["experiment", "question", *heads]
    assert [line[2:] for line in lines[1:]] == [
        ["0.2", "s", "0, 1, 2", "owner"],
        ["0.1", "s", "-1", "owner"],
    ]
    table = pq.read_table(io.BytesIO(fetch(as_owner, "/experiments.parquet", data=query)))
    assert table.column("metric.step_time").to_pylist() == [0.2, 0.1]
    assert table.column("metric.step_time unit").to_pylist() == ["s", "s"]
    found = as_owner.get("/api/v1/experiments", {**query, "limit": 1}).json()
    assert [row["columns"]["metric.step_time"] for row in found["items"]] == [0.2]
    following = as_owner.get(found["next"]).json()
    assert [row["id"] for row in following["items"]] == [four[1].pk]
    assert following["next"] is None
    assert as_owner.head("/experiments.csv", query).status_code == 200
    assert as_owner.head("/experiments/", query).status_code == 200


def test_the_api_goes_on_after_an_experiment_that_the_filter_no_longer_finds(
    as_owner: Client, four: list[Experiment]
) -> None:
    query: dict[str, Any] = {"sort": "-metric.step_time", "limit": 1}
    found = as_owner.get("/api/v1/experiments", query).json()
    Experiment.objects.filter(pk=four[0].pk).update(question="gone?")
    assert as_owner.get(found["next"] + "&q=b").json()["items"][0]["id"] == four[1].pk
    Job.objects.filter(experiment=four[0]).delete()
    four[0].delete()
    assert as_owner.get(found["next"]).status_code == 422


@pytest.mark.parametrize(
    "query",
    [
        {"column": "metric.nothing"},
        {"sort": "metric.nothing"},
        {"sort": "-fact."},
        {"where": "metric.nothing>1"},
        {"where": "node=node1"},
        {"where": "metric.step_time~1"},
        {"where": "metric.step_time<nan"},
        {"column": "metric.\u2028\U0001f680%s{}"},
        {"sort": "metric.step_time'; --"},
    ],
)
def test_what_is_no_column_is_said_and_its_files_are_refused(
    query: dict[str, str], as_owner: Client, four: list[Experiment]
) -> None:
    assert len(notes(as_owner, query)) == 1
    fetch(as_owner, "/experiments.csv", 400, data=query)
    fetch(as_owner, "/experiments.parquet", 400, data=query)
    assert as_owner.get("/api/v1/experiments", query).status_code == 422
    posted = {
        "query": "&".join(f"{a}={b}" for a, b in query.items()),
        "all": "",
        "action": "export",
    }
    assert as_owner.post("/experiments/selected/", posted).status_code == 400


def test_names_of_metrics_that_one_may_not_view_are_no_columns(
    people: People, site: Site, four: list[Experiment]
) -> None:
    Experiment.objects.update(visibility="private")
    other = people.client("other")
    assert "There is no column" in notes(other, {"column": "metric.step_time", "q": "a"})[0]
    assert shown(other, {"sort": "fact.kernel"}) == {}
    assert "parameter.steps" not in other.get("/experiments/?q=a").content.decode()


def test_a_fact_and_a_filter_are_added_by_the_forms(
    as_owner: Client, four: list[Experiment]
) -> None:
    query = {"q": "a", "add_column": "metric.step_time", "add_operator": "<", "add_value": " 1 "}
    answer = as_owner.get("/experiments/", query)
    assert answer["Location"] == "/experiments/?q=a&where=metric.step_time%3C1"
    answer = as_owner.get("/experiments/", {"column": "state", "add_fact": "package numpy"})
    assert answer["Location"] == "/experiments/?column=state&column=fact.package+numpy"
    assert as_owner.get(answer["Location"]).status_code == 200


def test_a_view_of_experiments_is_a_tab_of_their_list_alone(people: People) -> None:
    client = people.client("owner")
    state = "state=ended&where=metric.step_time%3C1&column=metric.step_time&sort=-metric.step_time"
    posted = {"name": "Fast", "query": f"{state}&page=3&x=1", "page": "experiments"}
    answer = client.post("/views/save/", posted)
    view = SavedView.objects.get()
    assert (view.page, view.query) == ("experiments", state)
    assert answer["Location"] == f"/experiments/?{state}"
    soup = BeautifulSoup(client.get(answer["Location"]).content, "html.parser")
    assert [link.text for link in soup.select(".tabs [aria-current]")] == ["Fast"]
    assert "Fast" not in client.get("/runs/").content.decode()
    client.post("/views/save/", {"name": "Fast", "query": "state=failed", "page": "odd"})
    assert SavedView.objects.filter(page="runs").count() == 1
    answer = client.post(f"/views/{view.pk}/delete/", follow=True)
    assert answer.redirect_chain[0][0] == "/experiments/"


def test_values_of_many_rows_are_read_with_as_many_statements_as_of_few(
    as_owner: Client, site: Site, people: People, four: list[Experiment]
) -> None:
    columns = ["metric.step_time", "parameter.steps", "fact.kernel", "parameter.threads"]
    query = {"column": columns, "sort": "metric.step_time", "where": "metric.step_time>0"}

    def count() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert as_owner.get("/experiments/", query).status_code == 200
        return len(captured)

    few = count()
    for number in range(5):
        add_run(measured(site, people.owner, blocks=0), 0.1, steps=number)
    assert count() == few <= 15


def test_five_thousand_experiments_with_few_runs(
    as_owner: Client, site: Site, people: People
) -> None:
    like = measured(site, people.owner, blocks=0)
    fields = {
        field.name: getattr(like, field.name)
        for field in Experiment._meta.concrete_fields
        if not field.primary_key
    }
    rows = Experiment.objects.bulk_create(
        Experiment(**fields | {"question": f"{number}?"}) for number in range(5000)
    )
    for number, row in enumerate(rows[::100]):
        add_run(row, 1 + number / 100, workload=site.workload, steps=number)
    keys = [row.pk for row in rows]
    ordered = sort_keys(keys, STEP_TIME, list_changed(), descending=True)
    assert ordered[:50] == keys[::100][::-1]
    assert ordered[50:52] == [keys[-1], keys[-2]]
    page = as_owner.get("/experiments/", {"sort": "-metric.step_time", "page": "101"})
    assert page.status_code == 200
    assert page.context["listing"].page.paginator.count == 5001


def test_values_are_escaped(as_owner: Client, four: list[Experiment]) -> None:
    add_run(four[3], steps="<b>", kernel="<i>", unit="<u>")
    values = read_values([four[3].pk], [STEPS], list_changed())[four[3].pk]
    assert join_values(values.others[STEPS.key]) == "<b>"
    page = as_owner.get("/experiments/", {"column": [STEPS.key, KERNEL.key]}).content.decode()
    assert "<b>" not in page
    assert "<i>" not in page
    assert "&lt;b&gt;" in page
