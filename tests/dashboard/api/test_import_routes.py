"""Logs, bundles and results of others come in by the API as on the pages."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from experiments.models import Experiment, Job
from tests import tf_cnn_logs as logs
from tests.dashboard.api.requests_by_token import log_in
from tests.dashboard.execution.test_by_hand_pages import carried, pack
from tests.dashboard.imports.test_bundle_pages import bundle
from tests.factories import UserFactory

__all__ = ["bundle", "carried"]
pytestmark = pytest.mark.django_db


def send(
    client: Client, path: str, headers: dict[str, str], status: int, **parts: Any
) -> dict[str, Any]:
    answer = client.post(f"/api/v1/{path}", parts, headers=headers)
    assert answer.status_code == status, answer.content
    content: dict[str, Any] = answer.json()
    return content


def archive(content: bytes | None = None) -> SimpleUploadedFile:
    content = logs.as_zip(logs.runs()).getvalue() if content is None else content
    return SimpleUploadedFile("logs.zip", content)


class TestLogs:
    def test_a_check_says_what_is_there_and_keeps_nothing(self, client: Client) -> None:
        headers = log_in(UserFactory(), "experiments")
        told = send(client, "experiments/import/check", headers, 200, archive=archive())
        assert [row["field"] for row in told["problems"]] == ["question"]
        assert (told["valid"], told["baseline"] in told["places"][0]["names"]) == (False, True)
        assert sum(sum(row["runs"].values()) for row in told["configurations"]) == 6
        assert not Experiment.objects.exists()

    def test_without_an_archive_there_is_nothing_to_check(self, client: Client) -> None:
        headers = log_in(UserFactory(), "experiments")
        told = send(client, "experiments/import/check", headers, 422, question="What?")
        assert [row["field"] for row in told["problems"]] == ["archive"]

    def test_they_become_an_experiment_once(self, client: Client) -> None:
        owner = UserFactory()
        headers = log_in(owner, "experiments") | {"Idempotency-Key": "k"}
        wanted = {"question": "What does Singularity cost?", "margin": "3"}
        content = logs.as_zip(logs.runs()).getvalue()
        made, again = (
            send(client, "experiments/import", headers, 201, archive=archive(content), **wanted)
            for _ in range(2)
        )
        assert made == again
        row = Experiment.objects.get()
        assert (row.owner, row.margin, row.visibility) == (owner, 0.03, "private")
        headers |= {"Idempotency-Key": "l"}
        refused = send(client, "experiments/import", headers, 409, archive=archive(), **wanted)
        assert "imported before" in refused["detail"]

    @pytest.mark.parametrize(
        ("parts", "field"),
        [
            ({}, "archive"),
            ({"archive": b"no archive"}, "archive"),
            ({"archive": None, "question": ""}, "question"),
            ({"archive": None, "baseline": "nothing"}, "baseline"),
            ({"archive": None, "environment": "7"}, "environment"),
            ({"archive": None, "environment": "NaN"}, "environment"),
            ({"archive": None, "margin": "nan"}, "margin"),
            ({"archive": None, "visibility": "everyone"}, "visibility"),
            ({"archive": None, "marign": "2"}, "marign"),
        ],
    )
    def test_what_is_wrong_is_named(
        self, client: Client, parts: dict[str, Any], field: str
    ) -> None:
        sent = {"question": "What?"} | parts
        if "archive" in sent:
            sent["archive"] = archive(sent["archive"])
        headers = log_in(UserFactory(), "experiments")
        problems = send(client, "experiments/import", headers, 422, **sent)["problems"]
        assert [row["field"] for row in problems] == [field]
        assert not Experiment.objects.exists()

    def test_parts_are_sent_as_parts(self, client: Client) -> None:
        headers = log_in(UserFactory(), "experiments")
        answer = client.post(
            "/api/v1/experiments/import", {}, content_type="application/json", headers=headers
        )
        assert answer.status_code == 415

    def test_a_file_larger_than_a_form_comes_with_a_key(self, client: Client) -> None:
        headers = log_in(UserFactory(), "experiments") | {"Idempotency-Key": "k"}
        large = archive(bytes(3_000_000))
        problems = send(client, "experiments/import", headers, 422, archive=large, question="?")
        assert problems["problems"][0]["field"] == "archive"


class TestBundles:
    def test_one_becomes_an_experiment_once(self, client: Client, bundle: bytes) -> None:
        owner = UserFactory()
        headers = log_in(owner, "experiments")
        file = SimpleUploadedFile("study.zip", bundle)
        made = send(client, "bundles", headers, 201, bundle=file)
        row = Experiment.objects.get()
        assert (made["experiment"]["id"], row.owner, row.visibility) == (row.pk, owner, "private")
        file.seek(0)
        assert (
            f"experiment {row.pk}" in send(client, "bundles", headers, 409, bundle=file)["detail"]
        )
        file.seek(0)
        headers = log_in(UserFactory(), "experiments")
        assert "may not view" in send(client, "bundles", headers, 409, bundle=file)["detail"]

    def test_what_is_none_is_refused(self, client: Client) -> None:
        headers = log_in(UserFactory(), "experiments")
        for content in (b"", b"no zip", b"\xff\x00"):
            file = SimpleUploadedFile("study.zip", content)
            problems = send(client, "bundles", headers, 422, bundle=file)["problems"]
            assert [row["field"] for row in problems] == ["bundle"]


class TestByHand:
    def test_jobs_go_out_and_results_come_in(self, client: Client, carried: Experiment) -> None:
        headers = log_in(carried.owner, "experiments")
        path = f"experiments/{carried.pk}"
        answer: Any = client.post(f"/api/v1/{path}/jobs.tar.gz", headers=headers)
        assert b"".join(answer.streaming_content)[:2] == b"\x1f\x8b"
        assert carried.events.filter(what="jobs downloaded", actor=carried.owner).exists()
        (first, _) = carried.jobs.order_by("block")
        files = {f"jobs/{first.uid}-1/started": b"1-2\n", "odd": b""}
        told = send(client, f"{path}/results", headers, 200, archive=pack(**files))
        assert (told["jobs_left"], told["refused_in_all"]) == (2, 1)
        assert told["refused"][0]["job"] == "block 1"
        assert not carried.jobs.exclude(state=Job.State.QUEUED).exists()

    def test_what_is_wrong_is_named(self, client: Client, carried: Experiment) -> None:
        headers, path = log_in(carried.owner, "experiments"), f"experiments/{carried.pk}/results"
        for parts, field in (
            ({}, "archive"),
            ({"archive": pack(odd=b""), "is_final": "no"}, "is_final"),
            ({"archive": pack(odd=b""), "final": "true"}, "final"),
        ):
            problems = send(client, path, headers, 422, **parts)["problems"]
            assert [row["field"] for row in problems] == [field]

    def test_others_and_clusters_with_a_connection(
        self, client: Client, carried: Experiment
    ) -> None:
        Experiment.objects.filter(pk=carried.pk).update(visibility="members")
        path = f"experiments/{carried.pk}/jobs.tar.gz"
        send(client, path, log_in(UserFactory(), "experiments"), 403)
        carried.jobs.update(state=Job.State.CANCELLED)
        send(client, path, log_in(carried.owner, "experiments"), 409)
