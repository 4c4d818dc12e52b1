"""Filters of experiments: what is told from stored values is what the runs themselves tell."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboard.execution.experiment_filters import find_experiments, select_fitting_runs
from dashboard.execution.run_columns import Column
from dashboard.execution.run_conditions import Condition, list_operators, make_condition
from experiments.execution.stored_values import list_changed, store_changed_values
from experiments.models import Experiment
from tests.dashboard.conftest import People, Site, measured
from tests.experiments.execution.test_stored_values import (
    RUN_CONTENTS,
    make_runs,
    taken_back,
)
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db

COLUMNS = [
    Column("metric.m", "M", "metric", unit="s", other_units=("ms",)),
    Column("metric.'%s", "Odd", "metric", unit="s"),
    Column("parameter.p", "P", "parameter"),
    Column("parameter.'%s", "Odd", "parameter"),
    Column("fact.f", "F"),
    Column("fact.'%s", "Odd"),
]
NUMBERS = ["0", "1", "1000 ms", "-1", "1e308", "0.5"]
TEXTS = ["7", "7.0", "yes", "no", "%s", "'; --", "a", "É", "x" * 300, "Infinity", "1e2"]


@st.composite
def draw_condition(draw: st.DrawFn, contents: list[Any]) -> Condition | None:
    column = draw(st.sampled_from(COLUMNS))
    operator = draw(st.sampled_from(list_operators(column)))
    known: list[str] = []
    for runs in contents:
        for _, _, measured_values, parameters, facts in runs:
            known += [repr(value) for _, value, _ in measured_values]
            known += [str(value)[:300] for value in (*parameters.values(), *facts.values())]
    value = draw(st.sampled_from([*known, *NUMBERS, *TEXTS, ""]))
    try:
        return make_condition(column, operator, value)
    except ValueError:
        return None


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=120,
    deadline=None,
)
@given(
    contents=st.lists(st.lists(RUN_CONTENTS, max_size=5), min_size=1, max_size=3),
    data=st.data(),
)
@taken_back
def test_experiments_found_are_those_of_the_runs_that_fulfil_all(
    contents: list[Any], data: st.DataObject
) -> None:
    for place, own in enumerate(contents):
        if place == 2:
            store_changed_values()  # the last one is not stored yet
        make_runs(JobFactory(), own)
    if len(contents) < 3:
        store_changed_values()
    for _ in range(6):
        drawn = [data.draw(draw_condition(contents)) for _ in range(data.draw(st.integers(1, 3)))]
        if conditions := [condition for condition in drawn if condition]:
            fitting = select_fitting_runs(conditions).values_list("experiment", flat=True)
            assert find_experiments(conditions, list_changed()) == set(fitting), [
                condition.text for condition in conditions
            ]


@pytest.fixture
def stored(site: Site, people: People) -> list[Experiment]:
    made = []
    for number in range(3):
        experiment = measured(site, people.owner, blocks=0, question=f"{number}?")
        job = JobFactory(experiment=experiment, workload=site.workload)
        run = ("succeeded", "1x1", [("step_time", 1.0 + number, "s")])
        make_runs(job, [(*run, {"steps": number}, {"kernel": "6.1"})] * 2)
        made.append(experiment)
    store_changed_values()
    return made


@pytest.mark.parametrize(
    ("where", "found"),
    [
        (["metric.step_time>1.5"], 2),
        (["metric.step_time=1"], 1),
        (["parameter.steps>=1", "metric.step_time>1.5", "fact.kernel~6"], 2),
        (["fact.kernel!=6.1"], 0),
        (["fact.kernel="], 0),
    ],
)
def test_no_run_is_read_where_stored_values_tell(
    where: list[str], found: int, as_owner: Client, stored: list[Experiment]
) -> None:
    with CaptureQueriesContext(connection) as captured:
        page = as_owner.get("/experiments/", {"where": where, "column": "question"})
    assert len(page.context["rows"]) == found
    statements = [row["sql"] for row in captured if '"experiments_run"' in row["sql"]]
    assert not [text for text in statements if "measurement" in text or "snapshot" in text]


def test_a_change_is_seen_at_once(as_owner: Client, stored: list[Experiment]) -> None:
    """By order, cells and filters, though nobody has stored it."""
    query = {"sort": "metric.step_time", "column": "metric.step_time"}
    before = as_owner.get("/experiments/", query).context["rows"]
    assert [row.pk for row, _ in before] == [row.pk for row in stored]
    stored[0].runs.first().measurements.update(value=9.0)
    stored[0].runs.last().measurements.update(value=9.0)
    after = as_owner.get("/experiments/", query).context["rows"]
    assert [row.pk for row, _ in after] == [stored[1].pk, stored[2].pk, stored[0].pk]
    found = as_owner.get("/experiments/", {"where": "metric.step_time>8"}).context["rows"]
    assert [row.pk for row, _ in found] == [stored[0].pk]
    stored[0].runs.update(state="excluded")
    assert not as_owner.get("/experiments/", {"where": "metric.step_time>8"}).context["rows"]
