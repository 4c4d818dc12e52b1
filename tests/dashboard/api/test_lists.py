"""Lists of the API in any order: each row once, in the order of the page, from any row on."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from django.db.models import F
from django.test import Client

from experiments.models import Experiment, Measurement, Run, Snapshot, User
from tests.dashboard.api.requests_by_token import get, log_in
from tests.factories import ExperimentFactory, LaunchedFactory, UserFactory, block
from tests.many_runs import add_runs

pytestmark = pytest.mark.django_db

SORTS = ("", "node", "-node", "began", "-began", "state", "took", "-took", "exit_code", "cluster")
OTHERS = ("metric.step_time", "-metric.step_time", "-parameter.steps", "fact.kernel")


@pytest.fixture
def study() -> Experiment:
    """Thirty runs, of which some have no metric, and many the same one."""
    experiment: Experiment = LaunchedFactory()
    add_runs(experiment, 30)
    keys = experiment.runs.order_by("pk").values_list("pk", flat=True)
    for number, key in enumerate(keys):
        if number % 3:
            Measurement.objects.create(
                run_id=key, metric="step_time", unit="s", value=0.1 * (number % 4)
            )
    Run.objects.filter(pk__in=list(keys[:7])).update(began_at=None, exit_code=None)
    Run.objects.filter(pk__in=list(keys[7:12])).update(ended_at=F("began_at"))
    return experiment


def read_all(client: Client, user: User, address: str) -> list[dict[str, Any]]:
    """Return all items of a list, read a few at a time."""
    headers, items = log_in(user), []
    while address:
        part = get(client, address.removeprefix("/api/v1/"), headers)
        items += part["items"]
        address = part["next"]
    return items


@pytest.mark.parametrize("sort", SORTS + OTHERS)
def test_a_list_in_parts_is_the_list_in_its_order(
    client: Client, study: Experiment, sort: str
) -> None:
    whole = read_all(client, study.owner, f"runs?limit=1000&sort={sort}&fields=id")
    parts = read_all(client, study.owner, f"runs?limit=4&sort={sort}&fields=id")
    assert len({row["id"] for row in parts}) == 30
    assert parts == whole
    client.force_login(study.owner)
    page = client.get(f"/runs/?sort={sort}")
    if sort:
        listed = [row.fields["uid"] for row in page.context["listing"].page.object_list]
        assert [row["id"] for row in whole] == listed


def test_a_limit_of_the_metric_begins_in_its_index(client: Client, study: Experiment) -> None:
    address = "runs?limit=3&sort=-metric.step_time&where=metric.step_time>=0.2&metrics=step_time"
    values = [row["metrics"]["step_time"] for row in read_all(client, study.owner, address)]
    assert values == sorted(values, reverse=True)
    assert min(values) >= 0.2
    assert len(values) == study.runs.filter(measurements__value__gte=0.2).count()


@pytest.mark.parametrize(
    "query",
    [
        "runs?sort=nonsense",
        "runs?where=nonsense",
        "runs?where=metric.step_time>many",
        "runs?state=nonsense",
        "runs?cluster=999999",
        "runs?archived=maybe",
        "runs?metircs=step_time",
        "runs?metrics=" + ",".join(f"m{number}" for number in range(21)),
        "runs?cursor=WzFd",
        "runs?cursor=" + base64.urlsafe_b64encode(b"[" * 2400).decode(),
        "runs?sort=node&cursor=OTk5OTk5",
        "runs?column=nonsense",
        "experiments?column=nonsense",
        "experiments?sort=nonsense",
        "experiments?state=nonsense",
        "experiments?cluster=999999",
        "experiments?fields=nonsense",
        "experiments?limit=0",
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(
    client: Client, study: Experiment, query: str
) -> None:
    answer = get(client, query, log_in(study.owner), 422)
    assert answer["problems"][0]["message"]


def test_a_name_that_is_nearly_right_is_named(client: Client) -> None:
    answer = get(client, "runs?metircs=step_time", log_in(UserFactory()), 422)
    assert "Did you mean “metrics”?" in answer["problems"][0]["message"]


@pytest.mark.parametrize(
    ("query", "near"),
    [
        ("runs?column=metric.step_tmie", "metric.step_time"),
        ("runs?column=enviroment", "environment"),
        ("experiments?column=workload", "workloads"),
    ],
)
def test_a_column_that_is_nearly_right_is_named(
    client: Client, study: Experiment, query: str, near: str
) -> None:
    (problem,) = get(client, query, log_in(study.owner), 422)["problems"]
    assert (problem["field"], f"“{near}”?" in problem["message"]) == ("query.column", True)


def test_runs_have_the_columns_of_the_page(client: Client, study: Experiment) -> None:
    parameters = {"workload": {"parameters": {"steps": 200, "mode": ["a"]}}}
    facts = Snapshot.objects.keep({"inside": {"kernel": "6.1", "packages": {"numpy": "2.4"}}})
    Run.objects.update(spec=parameters, snapshot=facts)
    keys = ("took", "began", "metric.step_time", "parameter.steps", "fact.kernel", "owner")
    keys += ("fact.package numpy",)
    query = "&".join(f"column={key}" for key in keys)
    for path in ("runs", f"experiments/{study.pk}/runs"):
        items = get(client, f"{path}?{query}&limit=1000", log_in(study.owner))["items"]
        assert len(items) == 30
        for item in items:
            columns = item["columns"]
            assert list(columns) == list(keys)
            assert columns["began"] == item["began_at"]
            assert columns["metric.step_time"] == item["metrics"].get("step_time")
            assert (columns["parameter.steps"], columns["fact.kernel"]) == (200, "6.1")
            assert columns["fact.package numpy"] == "2.4"
            assert columns["owner"] == study.owner.username
            assert columns["took"] is None or columns["took"] >= 0
    (item,) = get(client, "runs?limit=1&fields=columns&column=node", log_in(study.owner))["items"]
    assert item.keys() == {"id", "columns"}
    (item,) = get(client, "runs?limit=1", log_in(study.owner))["items"]
    assert not item.get("columns")


def test_columns_of_metrics_have_units_beside_other_metrics(
    client: Client, study: Experiment
) -> None:
    Measurement.objects.filter(metric="step_time").update(unit="ms")
    for run in study.runs.all():
        Measurement.objects.create(run=run, metric="import_time", unit="s", value=2.0)
    query = "runs?metrics=import_time&column=metric.step_time&sort=-metric.step_time&limit=1"
    (item,) = get(client, query, log_in(study.owner))["items"]
    assert item["units"] == {"import_time": "s", "step_time": "ms"}
    assert item["columns"]["metric.step_time"] == pytest.approx(0.3)


def test_experiments_have_the_columns_of_the_page(client: Client, study: Experiment) -> None:
    query = "experiments?column=workloads&column=runs&column=changed&column=baseline"
    (item,) = get(client, query, log_in(study.owner))["items"]
    assert item["columns"] == {
        "workloads": str(study.workloads.get()),
        "runs": "30/30",
        "changed": None,
        "baseline": study.baseline.name,
    }


@pytest.mark.parametrize("sort", ["", "launched", "-launched", "owner", "-changed", "repeats"])
def test_experiments_in_parts(client: Client, sort: str) -> None:
    owner = UserFactory()
    for number in range(5):
        ExperimentFactory(owner=owner, repeats=2 + number % 2)
    block(LaunchedFactory(owner=owner), 1, {})
    address = f"experiments?sort={sort}&fields=id&limit="
    whole, parts = (read_all(client, owner, f"{address}{limit}") for limit in (1000, 2))
    assert len(parts) == 6
    assert parts == whole


def test_a_cursor_of_others_shows_nothing(client: Client, study: Experiment) -> None:
    """Where a hidden run would stand in the list is not told either."""
    part = get(client, "runs?limit=1&sort=node", log_in(study.owner))
    Experiment.objects.update(visibility="private")
    address = part["next"].removeprefix("/api/v1/")
    get(client, address, log_in(UserFactory()), 422)
