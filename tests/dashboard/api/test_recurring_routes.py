"""Recurring experiments by the API: begun, changed, launched, stopped, and their tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from experiments.models import AnsweredRequest, Experiment, LaunchReason, RecurringExperiment
from tests.dashboard.api.requests_by_token import get, log_in
from tests.factories import (
    ExperimentFactory,
    LaunchedFactory,
    RecurringExperimentFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db


def send(
    client: Client,
    row: Any,
    path: str,
    body: Any = None,
    status: int = 200,
    *,
    method: str = "post",
    **headers: str,
) -> Any:
    sent = {} if body is None else {"data": json.dumps(body), "content_type": "application/json"}
    headers |= log_in(row.owner, "experiments")
    answer = getattr(client, method)(f"/api/v1/{path}", headers=headers, **sent)
    assert answer.status_code == status, answer.content
    return answer.json() if answer.content else None


@pytest.fixture
def row() -> RecurringExperiment:
    made: RecurringExperiment = RecurringExperimentFactory()
    return made


def test_an_experiment_recurs_by_a_rule(client: Client) -> None:
    source: Experiment = LaunchedFactory()
    rule = {"every_days": 30, "ends_on": "2027-03-01", "most_recurrences": 3}
    made = send(client, source, f"experiments/{source.pk}/recur", rule, 201)
    assert (made["experiment"], made["recurrences"], made["is_over"]) == (source.pk, 1, False)
    assert {name: made[name] for name in rule} == rule
    row = RecurringExperiment.objects.get()
    assert row.recurrences.get().reason == LaunchReason.FIRST
    headers = log_in(source.owner)
    assert [item["id"] for item in get(client, "recurring", headers)["items"]] == [row.pk]


def test_a_draft_does_not_recur(client: Client) -> None:
    draft = ExperimentFactory()
    path = f"experiments/{draft.pk}/recur"
    assert "launched here" in send(client, draft, path, {}, 403)["detail"]


def test_what_is_not_sent_stays(client: Client, row: RecurringExperiment) -> None:
    path = f"recurring/{row.pk}"
    before = get(client, path, log_in(row.owner))
    for change in ({}, {"on_changes": True}, {"every_days": None}):
        after = send(client, row, path, change, method="patch")
        due = {"due_at": None} if "every_days" in change else {}
        state = {"state": after["state"]}
        before |= change | due | state
        assert after == before


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"every_days": 0}, "every_days"),
        ({"most_recurrences": 1}, "most_recurrences"),
        ({"ends_on": "2020-01-01"}, "ends_on"),
        ({"ends_on": "9999-12-31"}, "ends_on"),
        ({"ends_on": "2026-02-30"}, "ends_on"),
        ({"ends_on": 1900000000}, "ends_on"),
        ({"charted_metrics": ["nothing"]}, "charted_metrics"),
        ({"groups": [1]}, "groups"),
        ({"visibility": "groups"}, "visibility"),
        ({"evry_days": 1}, ""),
    ],
)
def test_what_is_wrong_is_named(
    client: Client, row: RecurringExperiment, change: Any, field: str
) -> None:
    before = RecurringExperiment.objects.values().get()
    problems = send(client, row, f"recurring/{row.pk}", change, 422, method="patch")["problems"]
    assert [problem["field"] for problem in problems] == [field]
    assert RecurringExperiment.objects.values().get() == before


def test_it_is_launched_now_and_stopped(client: Client, row: RecurringExperiment) -> None:
    assert send(client, row, f"recurring/{row.pk}/launch")["requested_at"]
    stopped = send(client, row, f"recurring/{row.pk}/stop")
    assert (stopped["is_over"], stopped["requested_at"]) == (True, None)
    send(client, row, f"recurring/{row.pk}/stop", status=409)
    assert "it is over" in send(client, row, f"recurring/{row.pk}/launch", status=409)["detail"]


def test_limits_begin_with_a_recurrence_that_is_there(
    client: Client, row: RecurringExperiment
) -> None:
    RecurringExperiment.objects.update(last_number=3)
    path = f"recurring/{row.pk}/limits"
    assert send(client, row, path, {"first": 3})["limits_from"] == 3
    assert "from 1 to 3" in send(client, row, path, {"first": 4}, 422)["detail"]


def test_a_token_is_sent_once_and_opens_the_trigger(
    client: Client, row: RecurringExperiment
) -> None:
    path, key = f"recurring/{row.pk}/token", {"Idempotency-Key": "k"}
    made = send(client, row, path, status=201, **key)
    assert send(client, row, path, status=201, **key) == made | {"token": None}
    assert made["token"].encode() not in bytes(AnsweredRequest.objects.get().content)
    headers = {"Authorization": f"Bearer {made['token']}"}
    assert client.post(made["address"], {"commit": "4f2a"}, headers=headers).status_code == 202
    send(client, row, path, status=204, method="delete")
    send(client, row, path, status=409, method="delete")
    assert client.post(made["address"], {"commit": "4f2b"}, headers=headers).status_code == 401


def test_numbers_over_time_are_those_of_the_page(client: Client, row: RecurringExperiment) -> None:
    headers = log_in(row.owner)
    told = get(client, f"recurring/{row.pk}/over-time", headers)
    assert [each["number"] for each in told["recurrences"]] == [1]
    answer: Any = client.get(f"/api/v1/recurring/{row.pk}/over-time.csv", headers=headers)
    assert answer["Content-Type"].startswith("text/csv")


def test_rows_of_others(client: Client, row: RecurringExperiment) -> None:
    RecurringExperiment.objects.update(visibility="members")
    headers = log_in(UserFactory(), "experiments")
    get(client, f"recurring/{row.pk}", headers)
    assert client.post(f"/api/v1/recurring/{row.pk}/stop", headers=headers).status_code == 403
    RecurringExperiment.objects.update(visibility="private")
    get(client, f"recurring/{row.pk}", headers, 404)
    assert client.post(f"/api/v1/recurring/{row.pk}/stop", headers=headers).status_code == 404
