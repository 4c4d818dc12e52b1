"""A request with a key is done once, however often it comes."""

from __future__ import annotations

import threading
from typing import Any
from unittest import mock

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connections
from django.test import Client
from django.test.client import encode_multipart
from django.utils import timezone
from ninja import Schema

from dashboard.api import experiment_actions
from dashboard.api.idempotency import make_response
from experiments.definitions.described_experiments import write_file
from experiments.models import AnsweredRequest, Experiment, Job
from experiments.models.answered_request import KEPT
from tests.dashboard.api.requests_by_token import log_in
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db


def launch(client: Client, experiment: Experiment, key: str, status: int = 200) -> str:
    headers = log_in(experiment.owner, "experiments") | {"Idempotency-Key": key}
    answer = client.post(f"/api/v1/experiments/{experiment.pk}/launch", headers=headers)
    assert answer.status_code == status, answer.content
    return answer.get("Idempotent-Replayed", "")


def test_the_second_time_it_is_answered_and_not_done(client: Client) -> None:
    experiment = ExperimentFactory()
    assert launch(client, experiment, "a") == ""
    jobs = Job.objects.count()
    assert launch(client, experiment, "a") == "true"
    assert Job.objects.count() == jobs
    launch(client, experiment, "b", 409)  # another request: it was launched


def test_a_key_is_for_one_request(client: Client) -> None:
    first = ExperimentFactory()
    launch(client, first, "a")
    launch(client, ExperimentFactory(owner=first.owner), "a", 422)


def test_a_form_is_the_same_request_whatever_stands_between_its_parts(client: Client) -> None:
    """curl and browsers part the fields of a form by another random text each time."""
    draft = ExperimentFactory()
    text = write_file(draft, draft.owner, "yaml")
    headers = log_in(draft.owner, "experiments") | {"Idempotency-Key": "a"}

    def send(boundary: str, text: str) -> Any:
        files = {"definition": SimpleUploadedFile("study.yaml", text.encode())}
        kind = f"multipart/form-data; boundary={boundary}"
        body = encode_multipart(boundary, files)
        return client.post("/api/v1/experiments", body, content_type=kind, headers=headers)

    first, second, other = send("one", text), send("two", text), send("one", f"{text}\n")
    assert (first.status_code, second.status_code, other.status_code) == (201, 201, 422)
    assert first.json() == second.json()
    assert second["Idempotent-Replayed"] == "true"
    assert Experiment.objects.count() == 2


def test_keys_of_two_people_have_nothing_to_do_with_each_other(client: Client) -> None:
    launch(client, ExperimentFactory(), "a")
    assert launch(client, ExperimentFactory(), "a") == ""


@pytest.mark.parametrize("key", ["", "x" * 201, "\t", "é"])
def test_a_key_that_is_none_is_refused(client: Client, key: str) -> None:
    launch(client, ExperimentFactory(), key, 422)


def test_after_a_day_a_key_is_forgotten(client: Client) -> None:
    experiment = ExperimentFactory()
    launch(client, experiment, "a")
    AnsweredRequest.objects.update(answered_at=timezone.now() - KEPT * 1.01)
    launch(client, experiment, "a", 409)


def test_what_was_refused_may_come_again(client: Client) -> None:
    experiment = ExperimentFactory()
    experiment.environments.clear()
    launch(client, experiment, "a", 409)
    assert not AnsweredRequest.objects.exists()


def test_a_crash_after_the_work_leaves_neither_it_nor_an_answer(client: Client) -> None:
    experiment = ExperimentFactory()
    client.raise_request_exception = False
    with mock.patch.object(experiment_actions, "read_experiment", side_effect=MemoryError):
        launch(client, experiment, "a", 500)
    experiment.refresh_from_db()
    assert experiment.is_draft
    assert launch(client, experiment, "a") == ""


@pytest.mark.django_db(transaction=True)
def test_of_two_clients_that_launch_the_same_draft_one_does(client: Client) -> None:
    experiment = ExperimentFactory()
    headers = [log_in(experiment.owner, "experiments") for _ in range(8)]
    statuses: list[int] = []

    def send(number: int) -> None:
        path = f"/api/v1/experiments/{experiment.pk}/launch"
        key = {"Idempotency-Key": str(number)}
        statuses.append(Client().post(path, headers=headers[number] | key).status_code)
        connections.close_all()

    threads = [threading.Thread(target=send, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200, *[409] * 7]
    assert Job.objects.filter(experiment=experiment).count() == experiment.repeats


def test_routes_may_return_what_those_of_the_library_may() -> None:
    class Row(Schema):
        id: int

    answers = [make_response(result) for result in (Row(id=1), (201, Row(id=1)), (204, None))]
    assert [answer.status_code for answer in answers] == [200, 201, 204]
    assert [answer.content for answer in answers] == [b'{"id": 1}', b'{"id": 1}', b""]
