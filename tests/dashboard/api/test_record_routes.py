"""Publication, parity and files of runs by the API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from experiments.execution import copy_file
from experiments.models import Deposit, DepositToken, Experiment, Run, RunFile
from tests.dashboard.api.requests_by_token import get, log_in
from tests.dashboard.execution.test_run_files import CONTENT, checkpoint, folder
from tests.dashboard.software.test_software import draft
from tests.deposit_service import TOKEN, Service, serve_deposits
from tests.experiments.bundles.studies import end_runs, launch
from tests.factories import LaunchedFactory, UserFactory

__all__ = ["checkpoint", "draft", "folder"]
pytestmark = pytest.mark.django_db
MARIE = {
    "family": "Curie",
    "given": "Marie",
    "orcid": "0000-0002-1825-0097",
    "affiliation": "Sorbonne; Paris",
}


def send(
    client: Client,
    row: Any,
    path: str,
    body: Any = None,
    status: int = 200,
    *,
    method: str = "post",
) -> Any:
    sent = {} if body is None else {"data": json.dumps(body), "content_type": "application/json"}
    headers = log_in(row.owner, "experiments")
    address = f"/api/v1/experiments/{row.pk}/{path}"
    answer = getattr(client, method)(address, headers=headers, **sent)
    assert answer.status_code == status, answer.content
    return answer.json() if answer.content else None


class TestPublication:
    @pytest.fixture
    def service(self, settings: Settings) -> Iterator[Service]:
        with serve_deposits() as running:
            settings.DEPOSIT_ADDRESS = running.address
            yield running

    def test_what_is_not_sent_stays(self, client: Client) -> None:
        row = LaunchedFactory()
        change = {"authors": [MARIE], "licence": "CC-BY-4.0"}
        told = send(client, row, "publication", change, method="patch")
        assert (told["authors"], told["licence"]) == ([MARIE], "CC-BY-4.0")
        told = send(client, row, "publication", {"title": "A title"}, method="patch")
        assert (told["title"], told["authors"], told["licence"]) == (
            "A title",
            [MARIE],
            "CC-BY-4.0",
        )
        told = send(client, row, "publication", {"title": ""}, method="patch")
        assert told["title"] == row.question
        for name in ("citation.bib", "CITATION.cff"):
            answer = client.get(f"/api/v1/experiments/{row.pk}/{name}", headers=log_in(row.owner))
            assert b"Curie" in answer.content, name

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"licence": "mine"}, "licence"),
            ({"authors": [{"family": "A;B"}]}, "authors.0.family"),
            ({"authors": [MARIE, {"family": "Curie, Marie"}]}, "authors.1.family"),
            ({"authors": [{"family": "A", "orcid": "0000-0002-1825-0098"}]}, "authors"),
            ({"authors": [{"given": "A"}]}, "authors.0.family"),
            ({"title": "x" * 5000}, "title"),
        ],
    )
    def test_what_is_wrong_is_named(self, client: Client, change: Any, field: str) -> None:
        row = LaunchedFactory()
        problems = send(client, row, "publication", change, 422, method="patch")["problems"]
        assert [problem["field"] for problem in problems] == [field]

    def test_a_deposit_is_asked_for_stopped_and_forgotten(
        self, client: Client, service: Service
    ) -> None:
        row = launch(repeats=3, owner=UserFactory())
        end_runs(row)
        assert "No authors are stated." in send(client, row, "deposit", {}, 409)["detail"]
        DepositToken.objects.create(owner=row.owner, service=service.address, token=TOKEN)
        change = {"authors": [MARIE], "licence": "CC-BY-4.0"}
        assert send(client, row, "publication", change, method="patch")["missing"] == []
        assert send(client, row, "deposit", {})["deposit"]["state"] == "waiting"
        assert send(client, row, "deposit/stop")["deposit"]["state"] == "failed"
        send(client, row, "deposit/stop", status=409)
        assert send(client, row, "deposit", method="delete")["deposit"] is None
        send(client, row, "deposit", status=409, method="delete")
        assert not Deposit.objects.exists()

    def test_it_is_its_owners(self, client: Client) -> None:
        row = LaunchedFactory(visibility="members")
        get(client, f"experiments/{row.pk}/publication", log_in(UserFactory()), 403)


class TestRunFiles:
    def test_a_file_is_fetched_and_sent(
        self, client: Client, checkpoint: RunFile, folder: Path
    ) -> None:
        run, owner = checkpoint.run, checkpoint.run.experiment.owner
        headers, path = log_in(owner, "experiments"), f"runs/{checkpoint.run.uid}/files"
        (item,) = get(client, path, headers)["items"]
        assert (item["path"], item["size_bytes"]) == ("model.ckpt", len(CONTENT))
        own = f"/api/v1/{path}/{checkpoint.pk}"
        assert client.get(own, headers=headers).status_code == 409
        assert client.post(f"{own}/fetch", headers=headers).status_code == 202
        assert client.post(f"{own}/fetch", headers=headers).status_code == 409
        assert copy_file(checkpoint.pk) == "copied"
        answer: Any = client.get(own, headers=headers)
        assert b"".join(answer.streaming_content) == CONTENT
        Experiment.objects.filter(pk=run.experiment_id).update(visibility="members")
        foreign = log_in(UserFactory(), "experiments")
        get(client, path, foreign)
        assert client.get(own, headers=foreign).status_code == 403
        assert client.post(f"{own}/fetch", headers=foreign).status_code == 403

    def test_records_are_those_of_the_pages(self, client: Client, run: Run) -> None:
        headers = log_in(run.experiment.owner)
        record = get(client, f"runs/{run.uid}/record.json", headers)
        assert run.uid in json.dumps(record)
        answer: Any = client.get(f"/api/v1/runs/{run.uid}/provenance.jsonld", headers=headers)
        content = b"".join(answer.streaming_content if answer.streaming else [answer.content])
        assert run.uid in content.decode()
        get(client, f"runs/{run.uid}/changes.patch", headers, 404)
