"""At 100,000 runs lists read the rows that they show, by indexes in their own order."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from experiments.models import Environment, Experiment, Role, Run
from tests.dashboard.conftest import People, Site, measured
from tests.factories import (
    ClusterFactory,
    ContainerFactory,
    ExperimentFactory,
    JobFactory,
    LaunchedFactory,
    RunFactory,
    UserFactory,
)
from tests.many_runs import add_runs, refresh_statistics

pytestmark = pytest.mark.django_db

EXPERIMENTS, RUNS_EACH = 50, 2000
TABLE = Run._meta.db_table
GZIP = {"accept-encoding": "gzip"}
ORDERS = ("", "?sort=began", "?sort=node", "?sort=-node", "?state=failed", "?page=20")


@pytest.fixture
def many(site: Site, people: People) -> Client:
    """The owner of a fifth of 100,000 runs; the others are private, and somebody else's."""
    for number in range(EXPERIMENTS):
        mine = number % 5 == 0
        experiment = LaunchedFactory(
            owner=people.owner if mine else people.other,
            visibility="private",
            cluster=site.cluster,
            partition=site.partition,
            baseline=site.bare,
            workloads=[site.workload],
            environments=[site.bare, site.container],
        )
        add_runs(experiment, RUNS_EACH)
    refresh_statistics()
    return people.client("owner")


def statements(client: Client, address: str) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(address).status_code == 200
    return [query["sql"] for query in captured if query["sql"].startswith("SELECT")]


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


def plan_of(sql: str) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}")
        (row,) = cursor.fetchone()
    return list(nodes((row if isinstance(row, list) else json.loads(row))[0]["Plan"]))


def runs_read(plan: list[dict[str, Any]]) -> float:
    """Return how many runs a statement looked at."""
    return sum(
        node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
        for node in plan
        if node.get("Relation Name") == TABLE
    )


def test_lists_of_runs_and_the_overview_read_few_of_many(
    many: Client, site: Site, people: People
) -> None:
    for query in ORDERS:
        (page,) = (
            sql
            for sql in statements(many, f"/runs/{query}")
            if "ORDER BY" in sql and f'FROM "{TABLE}"' in sql and "LIMIT" in sql
        )
        plan = plan_of(page)
        kinds = {node["Node Type"] for node in plan if node.get("Relation Name") == TABLE}
        assert kinds == {"Index Scan"}, query
        # What is sorted is little: the few runs in a state, of the experiments that are readable.
        sorts = [node for node in plan if "Sort" in node["Node Type"]]
        assert not sorts or runs_read(plan) < 1000, query

    alive = measured(site, people.owner, blocks=1)
    RunFactory(job=JobFactory(experiment=alive, repeat=9), state=Run.State.RUNNING)
    asked = statements(many, "/")
    progress, *_ = (sql for sql in asked if "GROUP BY" in sql and f'FROM "{TABLE}"' in sql)
    assert runs_read(plan_of(progress)) < 10
    # The last three experiments are compared by their own runs, and counted for the keys of their
    # comparisons; no statement reads all there are.
    plans = [plan_of(sql) for sql in asked if f'"{TABLE}"' in sql]
    assert max(map(runs_read, plans)) <= 3 * RUNS_EACH * 1.1


@pytest.mark.parametrize("model", admin.site._registry, ids=lambda model: model._meta.label_lower)
def test_an_administration_list_asks_as_often_for_many_rows(
    model: type[Any], site: Site, people: People
) -> None:
    client = people.client("admin")
    address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")

    def more() -> None:
        measured(site, UserFactory(role=Role.RESEARCHER), blocks=1)
        ContainerFactory(cluster=ClusterFactory())
        ExperimentFactory()

    def count() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(address).status_code == 200
        return len(captured)

    more()
    count()  # what is asked once a process
    few = count()
    for _ in range(4):
        more()
    assert count() == few


def test_pages_are_sent_compressed(results: Experiment, people: People) -> None:
    client = people.client("owner")
    for name in ("comparison", "comparison_json", "runs_csv", "runs_json"):
        address = reverse(name, args=[results.pk])
        plain, packed = (
            client.get(address),
            client.get(address, headers={"accept-encoding": "gzip"}),
        )
        assert packed["Content-Encoding"] == "gzip", name
        assert "Accept-Encoding" in packed["Vary"]
        text, sent = body(plain), body(packed)
        assert len(sent) < len(text) / 2, name
        if "json" in name or "csv" in name:
            assert gzip.decompress(sent) == text


def test_the_length_of_an_answer_varies(people: People) -> None:
    """So that it tells nothing of what is in it, letter by letter."""
    client = people.client("owner")
    packed = {len(client.get("/", headers=GZIP).content) for _ in range(8)}
    assert len(packed) > 1


def body(answer: Any) -> bytes:
    return b"".join(answer.streaming_content) if answer.streaming else answer.content


def test_environments_in_the_administration_are_told_with_their_images(
    site: Site, people: People
) -> None:
    page = people.client("admin").get("/admin/experiments/environment/").content.decode()
    row = Environment.objects.get(pk=site.container.pk)
    assert str(row.staged_image) in page
