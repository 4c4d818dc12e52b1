"""Files of lists whose address is not understood: refused, in the sentences of the page."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse

from experiments.comparisons import keep_comparison
from experiments.models import Experiment
from tests.dashboard.api.requests_by_token import log_in
from tests.dashboard.conftest import People, Site, fetch, measured

pytestmark = pytest.mark.django_db

EXPERIMENTS, RUNS = "experiments", "runs"
QUERIES = (
    (EXPERIMENTS, "study=99999999", "study=99999999"),
    (EXPERIMENTS, "cluster=99999999&mine=me", "cluster=99999999"),
    (EXPERIMENTS, "q=" + "x" * 301, "q=xxx"),
    (EXPERIMENTS, "state=odd", "state=odd"),
    (EXPERIMENTS, "archived=odd", "archived=odd"),
    (EXPERIMENTS, "sort=-password", "no column “-password” to sort by"),
    (EXPERIMENTS, "column=password&column=owner", "no column “password”"),
    (RUNS, "where=metric.gone>5", "metric.gone"),
    (RUNS, "where=repeat", "repeat"),
    (RUNS, "cluster=99999999", "cluster=99999999"),
    (RUNS, "state=odd", "state=odd"),
    (RUNS, "archived=odd", "archived=odd"),
    (RUNS, "sort=password", "no column “password” to sort by"),
    (RUNS, "column=password", "no column “password”"),
    (RUNS, "&".join(f"where=repeat!={n}" for n in range(100, 130)), "at most 20 filters"),
)
PAGE = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.fixture
def row(site: Site, people: People) -> Experiment:
    return measured(site, people.owner, blocks=1)


def read_warnings(content: bytes) -> list[str]:
    notes = BeautifulSoup(content, "html.parser").select("main .note.warning")
    return [note.text.strip() for note in notes]


@pytest.mark.parametrize(("name", "query", "part"), QUERIES)
def test_a_file_says_what_its_page_says_and_is_not_sent(
    name: str, query: str, part: str, row: Experiment, as_owner: Client
) -> None:
    shown = read_warnings(as_owner.get(f"/{name}/?{query}").content)
    assert any(part in sentence for sentence in shown)
    for ending in ("csv", "parquet"):
        address = f"/{name}.{ending}?{query}"
        page = as_owner.get(address, headers={"Accept": PAGE})
        assert page.status_code == 400
        assert read_warnings(page.content) == shown
        text = as_owner.get(address)
        assert text.status_code == 400
        assert text["Content-Type"] == "text/plain; charset=utf-8"
        assert text.content.decode().splitlines()[1:] == shown
        for kind in ("application/json", "application/problem+json"):
            problem = as_owner.get(address, headers={"Accept": kind})
            assert (problem.status_code, problem["Content-Type"]) == (
                400,
                "application/problem+json",
            )
            assert [each["message"] for each in problem.json()["problems"]] == shown
    fields = {"action": "export", "all": "yes", "query": query}
    posted = as_owner.post(f"/{name}/selected/", fields, headers={"Accept": PAGE})
    assert posted.status_code == 400
    assert read_warnings(posted.content) == shown


@pytest.mark.parametrize("query", ["q=nothing+has+this", "state=failed", "archived=only", ""])
@pytest.mark.parametrize("name", [EXPERIMENTS, RUNS])
def test_what_is_understood_is_sent_even_if_nothing_is_in_it(
    name: str, query: str, row: Experiment, as_owner: Client
) -> None:
    if (name, query) == (EXPERIMENTS, "state=failed"):
        query = "state=draft"
    fetch(as_owner, f"/{name}.parquet?{query}")
    lines = fetch(as_owner, f"/{name}.csv?{query}").splitlines()
    assert (len(lines) == 1) == bool(query)


@pytest.mark.parametrize(
    ("name", "query", "status"),
    [
        (EXPERIMENTS, "study=99999999", 200),  # the filter has shown what was selected
        (EXPERIMENTS, "column=password", 400),
        (EXPERIMENTS, "sort=password", 400),
        (RUNS, "where=metric.gone>5", 200),
        (RUNS, "column=password", 400),
        (RUNS, "sort=password", 400),
    ],
)
def test_selected_rows_are_sent_whatever_became_of_the_filter(
    name: str, query: str, status: int, row: Experiment, as_owner: Client
) -> None:
    picked = row.pk if name == EXPERIMENTS else row.runs.all()[0].uid
    fields: dict[str, Any] = {"action": "export", "pick": [picked], "query": query}
    assert as_owner.post(f"/{name}/selected/", fields).status_code == status


@pytest.mark.parametrize(
    ("query", "part"),
    [
        ("of=gone", "No container is called “gone” here, but:"),
        ("environment-e{}=gone", "Experiment 1 compares no environment “gone”"),
        ("only-e{}=gone", "Experiment 1 has no configuration “gone”."),
    ],
)
def test_files_of_several_experiments_have_no_others_than_were_chosen(
    query: str, part: str, results: Experiment, as_owner: Client
) -> None:
    keep_comparison(results.pk)
    address = f"e={results.pk}&{query.format(results.pk)}"
    shown = read_warnings(as_owner.get(f"{reverse('studies')}?{address}").content)
    assert len(shown) == 1
    assert part in shown[0]
    for name in ("csv", "json", "tex", "forest_svg"):
        answer = as_owner.get(f"{reverse(f'studies_{name}')}?{address}")
        assert answer.status_code == 400
        assert part in answer.content.decode()


def test_the_api_refuses_a_metric_that_no_run_has(
    client: Client, results: Experiment, people: People
) -> None:
    headers = log_in(people.owner)
    for ending in ("csv", "parquet", "arrow"):
        address = f"/api/v1/export/runs.{ending}?metrics=step_time,gone"
        answer = client.get(address, headers=headers)
        assert answer.status_code == 422
        problem = json.loads(answer.content)
        assert problem["detail"] == "No run has a metric “gone”."
    empty = client.get("/api/v1/export/runs.csv?metrics=step_time&state=failed", headers=headers)
    assert empty.status_code == 200
