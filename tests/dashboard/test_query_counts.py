"""The statements that each page sends to PostgreSQL, held to a file and to no number of rows.

`make query-counts` writes the file anew; look at its difference before you commit it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from dashboard.drawings import drawing_process
from experiments.comparisons import keep_comparison
from experiments.health import stuck_requests
from experiments.models import Experiment, Role, User
from tests.dashboard.access.test_roles import GET, RULES, logged_in, mine, person  # noqa: F401

pytestmark = pytest.mark.django_db

FILE = Path(__file__).with_name("query_counts.json")
WRITES = os.environ.get("QUERY_COUNTS") == "write"
OTHER_STATES = (
    (
        "experiments",
        "?sort=-metric.step_time&column=metric.step_time&column=fact.kernel&column=parameter.steps"
        "&where=metric.step_time>0",
    ),
    ("runs", "?sort=-metric.step_time&column=metric.step_time&column=fact.kernel"),
    ("runs", "?where=metric.step_time>0&where=state=succeeded"),
    ("catalogue", "?tab=workloads"),
    ("catalogue", "?tab=environments"),
    ("catalogue", "?tab=datasets"),
    ("compare", "?tab=tables"),
    ("experiment", "?tab=jobs"),
    ("experiment", "?tab=plan"),
    ("experiment", "?tab=events"),
)
"""Pages that ask otherwise in another state of their address."""
NO_PAGES = {"logout", "link", "webhook_secret"}


def count_queries(client: Client, address: str) -> int:
    """Return the statements of a second visit: what is asked once a process is not the page's."""
    for _ in range(2):
        with CaptureQueriesContext(connection) as captured:
            answer = client.get(address)
            if getattr(answer, "streaming", False):
                b"".join(answer.streaming_content)
    return len(captured)


def test_no_page_asks_the_database_more_often_than_it_did(
    mine: Callable[[User], dict[str, list[Any]]],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # On a busy machine the rows of the test would be a minute old, and for Operations stuck.
    monkeypatch.setattr(stuck_requests, "LONGEST_WAIT", timedelta(hours=1))
    # And a figure might not be drawn in time at the first visit, nor be kept for the second.
    monkeypatch.setattr(drawing_process, "_run_program", lambda order: b"drawn")
    user = person(Role.SITE_ADMINISTRATOR)
    own, client = mine(user), logged_in(user)
    for pk in Experiment.objects.values_list("pk", flat=True):
        keep_comparison(pk)  # as a worker has, once the runs have ended
    pages = [(name, "") for name, rule in RULES.items() if rule[0] == GET and name not in NO_PAGES]
    counts = {
        name + state: count_queries(client, reverse(name, args=own[RULES[name][1]]) + state)
        for name, state in (*pages, *OTHER_STATES)
    }
    if WRITES:
        FILE.write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n")
    known = json.loads(FILE.read_text())
    changed = [
        f"{name}: {count} statements, before {known.get(name, 'none')}"
        for name, count in sorted(counts.items())
        if count != known.get(name)
    ]
    gone = sorted(set(known) - set(counts))
    # Fewer are written down too, or they could come back unseen.
    assert changed + gone == [], "make query-counts writes tests/dashboard/query_counts.json anew"


LISTS = (
    "/experiments/",
    "/experiments/?column=workloads&column=environments&column=changed&column=state",
    "/experiments/?sort=-metric.step_time&column=metric.step_time&column=fact.kernel",
    "/experiments.csv",
    "/experiments.csv?column=metric.step_time&column=parameter.steps&sort=fact.kernel",
    "/runs/",
    "/runs/?sort=-metric.step_time&column=metric.step_time&column=fact.kernel&column=owner",
    "/runs/?where=metric.step_time>0&where=state=succeeded",
    "/runs.csv?column=metric.step_time&column=parameter.steps",
    "/compare/",
    "/compare/?tab=tables",
    "/catalogue/",
    "/catalogue/?tab=workloads",
    "/catalogue/?tab=environments",
    "/catalogue/?tab=datasets",
    "/clusters/",
    "/credentials/",
    "/operations/",
    "/audit/",
    "/search/?q=e",
    "/search/results/?q=e",
)
"""Pages whose rows grow with the site; the overview compares a few experiments anew."""


def test_lists_send_as_many_statements_for_many_rows_as_for_few(
    mine: Callable[[User], dict[str, list[Any]]],  # noqa: F811
) -> None:
    user = person(Role.SITE_ADMINISTRATOR)
    client = logged_in(user)
    mine(user)
    mine(person(Role.RESEARCHER))
    few = {address: count_queries(client, address) for address in LISTS}
    for _ in range(4):
        mine(person(Role.RESEARCHER))
    many = {address: count_queries(client, address) for address in LISTS}
    assert many == few
