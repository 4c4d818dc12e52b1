"""MLflow's REST API, to read alone: filters, rights and refusals."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from dashboard.api import limits
from dashboard.api.mlflow_filters import (
    ATTRIBUTES,
    TAGS,
    read_experiment_filter,
    read_filter,
    read_order,
)
from dashboard.api.problems import Problem
from dashboard.api.tokens import TokenAuth
from dashboard.execution.run_filters import apply_conditions
from dashboard.execution.run_order import RunsInOrder
from experiments.models import Experiment, Measurement, Role, Run, Series
from tests.dashboard.api.requests_by_token import log_in
from tests.factories import LaunchedFactory, UserFactory

pytestmark = pytest.mark.django_db
ROOT = "/api/v1/mlflow/api/2.0/mlflow"


class Reader:
    """A person who asks as MLflow's clients do."""

    def __init__(self, user: Any) -> None:
        self.headers, self.client = log_in(user), Client()

    def get(self, name: str, status: int = 200, **values: Any) -> Any:
        answer = self.client.get(f"{ROOT}/{name}", values, headers=self.headers)
        return self._read(answer, status)

    def post(self, name: str, status: int = 200, **values: Any) -> Any:
        answer = self.client.post(
            f"{ROOT}/{name}", values, content_type="application/json", headers=self.headers
        )
        return self._read(answer, status)

    def _read(self, answer: Any, status: int) -> Any:
        assert answer.status_code == status, answer.content
        return answer.json()

    def find(self, experiment: Experiment, **values: Any) -> list[str]:
        """Return the ids of the runs that a search finds, read two at a time."""
        found: list[str] = []
        token = ""
        while True:
            more = {"page_token": token} if token else {}
            part = self.post(
                "runs/search", experiment_ids=[str(experiment.pk)], max_results=2, **values, **more
            )
            found += [run["info"]["run_id"] for run in part["runs"]]
            token = part.get("next_page_token", "")
            if not token:
                return found


@pytest.fixture
def reader(results: Experiment) -> Reader:
    return Reader(results.owner)


def test_searches_narrow_as_mlflow_does(results: Experiment, reader: Reader) -> None:
    runs = list(results.runs.order_by("pk"))
    for number, run in enumerate(runs):
        Run.objects.filter(pk=run.pk).update(
            spec={"workload": {"parameters": {"batch": 16 * (number % 2), "mode": "a b"}}},
            began_at=run.began_at + timedelta(minutes=number),
        )
        Measurement.objects.create(run=run, metric="energy (J)", unit="J", value=number)
    Measurement.objects.filter(run=runs[0], metric="energy (J)").delete()
    Run.objects.filter(pk=runs[1].pk).update(state=Run.State.FAILED)
    uids = [run.uid for run in runs]
    third = int((runs[2].began_at + timedelta(minutes=2)).timestamp() * 1000)

    def find(text: str, *order: str) -> list[str]:
        return sorted(reader.find(results, filter=text, order_by=list(order)), key=uids.index)

    assert find("") == uids
    assert find("metrics.`energy (J)` >= 3") == uids[3:]
    assert find("metrics.`energy (J)` != 3") == [*uids[1:3], *uids[4:]]
    assert find("metrics.`energy (J)` > 1 and metric.step_time > 0") == uids[2:]
    assert find("params.batch = '16'") == uids[1::2]
    assert find("params.batch != '16' AND params.mode ILIKE '%A B%'") == uids[::2]
    assert find("params.nothing != '16'") == []
    assert find("attributes.status = 'FAILED'") == uids[1:2]
    assert find("status IN ('FINISHED', 'FAILED')") == uids
    assert find("status != 'FINISHED'") == uids[1:2]
    assert find(f"run_id IN ('{uids[4]}', '{uids[0]}')") == [uids[0], uids[4]]
    assert find(f"attributes.start_time >= {third}") == uids[2:]
    name = runs[0].environment.name
    own = [run.uid for run in runs if run.environment.name == name]
    assert find(f"tags.environment = '{name}'") == own
    assert find(f'tags."repeat" = "{runs[0].repeat}"') == [
        run.uid for run in runs if run.repeat == runs[0].repeat
    ]


def test_searches_are_sorted_and_paged(results: Experiment, reader: Reader) -> None:
    runs = list(results.runs.order_by("measurements__value", "pk"))
    uids = [run.uid for run in runs]
    assert reader.find(results, order_by=["metrics.step_time"]) == uids
    assert reader.find(results, order_by=["metrics.step_time DESC"])[0] == uids[-1]
    newest = reader.find(results)
    assert sorted(newest) == sorted(uids)
    limit = runs[4].measurements.get().value
    assert set(
        reader.find(
            results, filter=f"metrics.step_time > {limit!r}", order_by=["metrics.step_time"]
        )
    ) == {run.uid for run in runs if run.measurements.get().value > limit}


def test_a_history_is_read_in_parts(results: Experiment, reader: Reader) -> None:
    run = results.runs.earliest("pk")
    Series.objects.create(
        run=run, metric="loss", unit="1", values=[3.0, float("nan"), 1.0], steps=[10, 20, 30]
    )
    one = reader.get("metrics/get-history", run_id=run.uid, metric_key="loss", max_results=2)
    two = reader.get(
        "metrics/get-history",
        run_id=run.uid,
        metric_key="loss",
        max_results=2,
        page_token=one["next_page_token"],
    )
    shown = [(row["step"], row["value"]) for row in one["metrics"] + two["metrics"]]
    assert shown == [(10, 3.0), (20, "NaN"), (30, 1.0)]
    assert "next_page_token" not in two


def test_experiments_by_number_and_by_name(results: Experiment, reader: Reader) -> None:
    again = LaunchedFactory(question=results.question, owner=results.owner)
    refused = reader.get("experiments/get-by-name", 400, experiment_name=results.question)
    assert str(again.pk) in refused["message"]
    Experiment.objects.filter(pk=again.pk).update(question="Another", archived_at=timezone.now())
    shown = reader.get("experiments/get-by-name", experiment_name=results.question)["experiment"]
    assert shown["experiment_id"] == str(results.pk)
    assert reader.get("experiments/get", experiment_id=results.pk)["experiment"] == shown

    def search(**values: Any) -> list[str]:
        rows = reader.post("experiments/search", **values)["experiments"]
        return [row["experiment_id"] for row in rows]

    assert search() == [str(results.pk)]
    assert search(view_type="ALL") == [str(again.pk), str(results.pk)]
    assert search(view_type="DELETED_ONLY") == [str(again.pk)]
    assert search(filter="name ILIKE '%COST%'") == [str(results.pk)]
    assert search(filter="name = 'Another'", view_type="ALL") == [str(again.pk)]
    part = reader.post("experiments/search", view_type="ALL", max_results=1)
    rest = reader.post("experiments/search", view_type="ALL", page_token=part["next_page_token"])
    assert [row["experiment_id"] for row in rest["experiments"]] == [str(results.pk)]


def test_what_may_not_be_viewed_is_not_there(results: Experiment) -> None:
    Experiment.objects.update(visibility="private")
    other, run = Reader(UserFactory(role=Role.RESEARCHER)), results.runs.earliest("pk")
    assert other.post("experiments/search") == {"experiments": []}
    assert other.find(results) == []
    code = "RESOURCE_DOES_NOT_EXIST"
    assert other.get("experiments/get", 404, experiment_id=results.pk)["error_code"] == code
    for name in ("runs/get", "metrics/get-history"):
        asked = {"run_id": run.uid} | ({"metric_key": "step_time"} if "metric" in name else {})
        assert other.get(name, 404, **asked)["error_code"] == code
    name = results.question
    assert other.get("experiments/get-by-name", 404, experiment_name=name)["error_code"] == code
    # Where a hidden run would stand in a list is not told either.
    token = Reader(results.owner).post(
        "runs/search", experiment_ids=[str(results.pk)], max_results=1
    )["next_page_token"]
    asked = {"experiment_ids": [str(results.pk)], "page_token": token}
    assert "no longer there" in other.post("runs/search", 400, **asked)["message"]


@pytest.mark.parametrize("name", ["runs/create", "runs/log-metric", "experiments/delete"])
def test_what_writes_is_refused_with_a_sentence(reader: Reader, name: str) -> None:
    refused = reader.post(name, 403, run_id="x")
    assert refused["error_code"] == "PERMISSION_DENIED"
    assert "change nothing" in refused["message"]


@pytest.mark.parametrize(
    "values",
    [
        {"filter": "metrics.x > "},
        {"filter": "metrics.x > 'a'"},
        {"filter": "metrics.x > 1 OR metrics.y > 2"},
        {"filter": "params.x LIKE 'a%'"},
        {"filter": "params.x ILIKE 'a%'"},
        {"filter": "tags.nothing = 'a'"},
        {"filter": "attributes.run_name = 'a'"},
        {"filter": "status = 'ENDED'"},
        {"filter": "nothing.x = 'a'"},
        {"filter": "params.x = a"},
        {"filter": "tags.state = 'nonsense'"},
        {"filter": " AND ".join(["metrics.x > 1"] * 21)},
        {"filter": {}},
        {"order_by": ["metrics.x", "metrics.y"]},
        {"order_by": ["nothing.x"]},
        {"order_by": "metrics.x"},
        {"max_results": 0},
        {"max_results": "many"},
        {"run_view_type": "SOME"},
        {"experiment_ids": 12},
        {"experiment": ["1"]},
    ],
)
def test_what_cannot_be_had_is_refused_in_mlflows_form(
    reader: Reader, values: dict[str, Any]
) -> None:
    refused = reader.post("runs/search", 400, **{"experiment_ids": ["1"], **values})
    assert refused["error_code"] == "INVALID_PARAMETER_VALUE"
    assert refused["message"].endswith(".")


def test_requests_that_cannot_be_read(reader: Reader) -> None:
    for content in (b"{", b"[]", b"\xff", b'{"filter": NaN}'):
        answer = reader.client.post(
            f"{ROOT}/runs/search", content, content_type="application/json", headers=reader.headers
        )
        assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
    refused = reader.post("runs/search", 422, experiment_ids=[], page_token="nonsense")
    assert refused["error_code"] == "INVALID_PARAMETER_VALUE"
    assert reader.get("traces/x", 405)["error_code"] == "ENDPOINT_NOT_FOUND"
    assert reader.get("runs/search", 405)["error_code"] == "ENDPOINT_NOT_FOUND"
    assert reader.get("experiments/get", 404, experiment_id="9" * 30)
    assert reader.get("runs/get", 404, run_id="x" * 5000)


def test_models_are_none(reader: Reader) -> None:
    assert reader.get("registered-models/search", max_results=100) == {"registered_models": []}
    assert reader.get("model-versions/search") == {"model_versions": []}


def test_the_token_opens_and_is_counted(
    results: Experiment, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"{ROOT}/experiments/search"
    for headers in ({}, {"authorization": "Bearer tare_" + "x" * 43}):
        answer = Client().get(address, headers=headers)
        assert (answer.status_code, answer.json()["error_code"]) == (401, "UNAUTHENTICATED")
    browser = Client()
    browser.force_login(results.owner)
    assert browser.get(address).status_code == 401
    monkeypatch.setattr(limits.EACH_MINUTE, "most", 1)
    assert reader.get("experiments/search")["experiments"]
    refused = reader.client.get(address, headers=reader.headers)
    assert (refused.status_code, refused.json()["error_code"]) == (429, "REQUEST_LIMIT_EXCEEDED")
    assert int(refused["Retry-After"]) > 0


WORDS = """metrics. params. tags. attributes. x `a` 12 end_time state IN ( ) = > AND ILIKE % status
 " ' 'v' '%v%' -1 1e9 9999999999999999999999999 é"""
PIECES = st.sampled_from([*WORDS.split(), " "])


@given(st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=12).map("".join)))
def test_any_filter_is_answered_or_refused(text: str) -> None:
    rows = Run.objects.all()
    with suppress(Problem):
        assert not apply_conditions(rows, read_filter(text)).exists()
    with suppress(Problem):
        assert not Experiment.objects.filter(**read_experiment_filter(text)).exists()
    with suppress(Problem):
        column, is_descending = read_order([text])
        assert not RunsInOrder(rows, (), (), column, descending=is_descending).list_keys_after(
            None, 2
        )


LONG = "9" * 25
KEYS = st.sampled_from(
    ["metrics.x", "params.x", "params.12", f"params.`{LONG}`", f"metrics.`{LONG * 10}`"]
    + [f"tags.{name}" for name in TAGS]
    + list(ATTRIBUTES)
)
SIGNS = st.sampled_from(["=", "!=", "<", ">=", "IN", "NOT IN", "LIKE", "ILIKE"])
NUMBERS = ("1", "-1e300", "1e999", LONG, "'1'", f"'{LONG}'")
TEXTS = ("''", "'%a%'", "'%%'", "'failed'", "'FINISHED'", "('RUNNING', 'x')", "()", "'7 d'")
VALUES = st.sampled_from([*NUMBERS, *TEXTS])


@given(KEYS, SIGNS, VALUES)
def test_filters_that_can_be_read_are_answered_or_refused(key: str, sign: str, value: str) -> None:
    with suppress(Problem):
        assert not apply_conditions(
            Run.objects.all(), read_filter(f"{key} {sign} {value}")
        ).exists()


def test_a_search_in_pieces_is_refused_where_it_would_seem_empty(reader: Reader) -> None:
    """It would find nothing, and look as if there were no runs."""
    headers = reader.headers | {"transfer-encoding": "chunked"}
    answer = reader.client.post(
        f"{ROOT}/runs/search",
        content_type="application/json",
        headers=headers,
        CONTENT_LENGTH="",
    )
    assert answer.status_code == 411
    assert "Content-Length" in answer.json()["message"]


def test_names_that_no_database_holds_are_refused(reader: Reader) -> None:
    for name, values in (
        ("experiments/get-by-name", {"experiment_name": "a\0b"}),
        ("metrics/get-history", {"run_id": "a\0b", "metric_key": "loss"}),
    ):
        answer = reader.client.get(f"{ROOT}/{name}", values, headers=reader.headers)
        assert answer.status_code == 400, answer.content


def test_while_the_database_is_away_a_client_is_told_to_come_again(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(TokenAuth, "authenticate", fail)
    answer = reader.client.get(f"{ROOT}/experiments/search", headers=reader.headers)
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert answer.json()["error_code"] == "TEMPORARILY_UNAVAILABLE"
