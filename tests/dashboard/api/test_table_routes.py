"""Published tables by the API: read, judged by the form of the page, kept and compared."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from experiments.models import PublishedTable
from experiments.presets.known_tables import KNOWN_TABLES
from tests.dashboard.api.requests_by_token import get, log_in
from tests.factories import TABLE, ImageFactory, PublishedTableFactory, UserFactory

pytestmark = pytest.mark.django_db
ODD = "gpus,environment,mean_s,standard_error_s,runs,note\n" + "".join(
    f"{line},x\n" for line in TABLE.splitlines()[1:]
)


def send(
    client: Client, method: str, path: str, body: Any, status: int, headers: dict[str, str]
) -> Any:
    call = getattr(client, method)
    text = json.dumps(body, ensure_ascii=False)
    answer = call(f"/api/v1/{path}", text, content_type="application/json", headers=headers)
    assert answer.status_code == status, answer.content
    return answer.json() if answer.content else None


def test_a_table_is_checked_kept_compared_changed_and_deleted(client: Client) -> None:
    owner = UserFactory()
    headers = log_in(owner, "experiments")
    told = send(client, "post", "tables/check", {"text": TABLE}, 200, headers)
    assert (told["valid"], told["environments"]) == (True, ["bare metal", "Apptainer"])
    assert told["columns"]["mean_s"] == "mean"
    assert not PublishedTable.objects.exists()
    made = send(client, "post", "tables", {"text": TABLE, "margin": 0.07}, 201, headers)
    assert (made["margin"], made["baseline"], made["owner"]) == (0.07, "bare metal", str(owner))
    path = f"tables/{made['id']}"
    rows = get(client, f"{path}/comparison", headers)["comparison"]
    assert [row["environment"] for row in rows] == ["Apptainer", "Apptainer"]
    for ending in ("comparison.csv", "comparison.tex", "comparison.parquet", "table.csv"):
        answer: Any = client.get(f"/api/v1/{path}/{ending}", headers=headers)
        assert answer.status_code == 200, ending
        assert b"".join(answer.streaming_content if answer.streaming else [answer.content])
    changed = send(client, "patch", path, {"baseline": "Apptainer", "n": 9}, 200, headers)
    assert (changed["baseline"], changed["reading"]["n"], changed["text"]) == (
        "Apptainer",
        9,
        TABLE,
    )
    assert [row["id"] for row in get(client, "tables", headers)["items"]] == [made["id"]]
    send(client, "delete", path, None, 204, headers)
    get(client, path, headers, 404)


def test_each_known_table_can_be_sent_as_it_is_listed(client: Client) -> None:
    headers = log_in(UserFactory(), "experiments")
    listed = get(client, "known-tables", headers)["items"]
    assert [row["key"] for row in listed] == list(KNOWN_TABLES)
    for row in listed:
        made = send(client, "post", "tables", row["table"], 201, headers)
        assert made["baseline"] == row["table"]["baseline"]
        assert get(client, f"tables/{made['id']}/comparison", headers)["comparison"]


def test_what_is_not_sent_stays(client: Client) -> None:
    headers = log_in(UserFactory(), "experiments")
    roles = {"note": "ignore"}
    body = {"text": ODD, "roles": roles, "visibility": "members", "source": "a paper"}
    made = send(client, "post", "tables", body, 201, headers)
    assert made["reading"]["roles"] == roles
    for change in ({}, {"question": "Another?"}):
        kept = send(client, "patch", f"tables/{made['id']}", change, 200, headers)
        assert kept == made | change


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"text": ""}, "text"),
        ({"text": "one"}, ""),
        ({"text": TABLE, "baseline": "nothing"}, "baseline"),
        ({"text": TABLE, "roles": {"note": "ignore"}}, "roles.note"),
        ({"text": TABLE, "roles": {"runs": "nothing"}}, "roles.runs"),
        ({"text": TABLE, "roles": {"x" * 5000: "mean"}}, f"roles.{'x' * 50}"),
        ({"text": TABLE, "margin": 0}, "margin"),
        ({"text": TABLE, "margin": 1e-9}, "margin"),
        ({"text": TABLE, "groups": [1]}, "groups"),
        ({"text": TABLE, "visibility": "groups"}, "visibility"),
        ({"text": TABLE, "question": "x" * 301}, "question"),
        ({"text": "é" * 1_000_001}, "text"),
        ({"text": "x" * 2_000_001}, "text"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_kept(client: Client, body: Any, field: str) -> None:
    headers = log_in(UserFactory(), "experiments")
    problems = send(client, "post", "tables", body, 422, headers)["problems"]
    assert field in [row["field"] for row in problems], problems
    assert not PublishedTable.objects.exists()


def test_tables_of_others_are_read_and_not_changed(client: Client) -> None:
    row = PublishedTableFactory(visibility="members")
    headers = log_in(UserFactory(), "experiments")
    get(client, f"tables/{row.pk}", headers)
    send(client, "patch", f"tables/{row.pk}", {}, 403, headers)
    send(client, "delete", f"tables/{row.pk}", None, 403, headers)
    PublishedTable.objects.update(visibility="private")
    get(client, f"tables/{row.pk}", headers, 404)
    assert get(client, "tables", headers)["items"] == []


def test_a_table_that_is_readable_no_more_says_so(client: Client) -> None:
    row = PublishedTableFactory(text="nothing")
    headers = log_in(row.owner)
    get(client, f"tables/{row.pk}/comparison", headers, 409)
    get(client, f"tables/{row.pk}/comparison.csv", headers, 409)
    get(client, f"tables/{row.pk}", headers)


class TestSummaries:
    """Several tables and experiments together, as on the page Studies."""

    def test_studies_are_put_together(self, client: Client) -> None:
        first, second = (PublishedTableFactory(visibility="members") for _ in range(2))
        headers = log_in(UserFactory())
        query = f"compare/studies.json?table={first.pk}&table={second.pk}&label=container"
        told = get(client, query, headers)
        assert [row["key"] for row in told["studies"]] == [f"t{first.pk}", f"t{second.pk}"]
        for ending in ("csv", "tex"):
            query_of_one = f"table={first.pk}&environment=t{first.pk}=Apptainer"
            path = f"/api/v1/compare/studies.{ending}?{query_of_one}"
            answer: Any = client.get(path, headers=headers)
            assert answer.status_code == 200
            assert b"".join(answer.streaming_content if answer.streaming else [answer.content])
        PublishedTable.objects.filter(pk=second.pk).update(visibility="private")
        assert second.question not in str(get(client, query, headers))

    @pytest.mark.parametrize(
        "query",
        [
            "environment=t1=Apptainer",
            "table=1&configuration=t1",
            "table=0",
            "&".join(f"table={number}" for number in range(1, 52)),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, client: Client, query: str) -> None:
        get(client, f"compare/studies.json?{query}", log_in(UserFactory()), 422)


def test_a_bill_of_materials_is_that_of_the_page(client: Client) -> None:
    image = ImageFactory(facts={"packages": {"python": {"numpy": "2.4"}}})
    headers = log_in(image.owner)
    for kind in ("spdx", "cdx"):
        told = get(client, f"images/{image.pk}/software.{kind}.json", headers)
        assert "numpy" in json.dumps(told)
