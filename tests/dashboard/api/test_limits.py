"""How many requests are answered each minute: by token, by person, and of wrong tokens."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

import pytest
from django.core.cache import caches
from django.test import Client
from pytest_django import Settings

from dashboard.api import limits
from dashboard.api.api import api
from experiments.models import ApiToken
from tests.dashboard.api.requests_by_token import log_in
from tests.factories import ExperimentFactory, UserFactory

pytestmark = pytest.mark.django_db

HEAVY = {
    *(
        ("POST", end)
        for end in ("launch", "check", "reproduce", "extend", "continue", "clone", "stop")
    ),
    *(("POST", "experiments"), ("POST", "studies"), ("PUT", "definition")),
    *(
        ("POST", end)
        for end in (
            "images",
            "recipes",
            "builds",
            "match",
            "tree",
            "stage",
            "verify",
            "remove",
            "inspect",
        )
    ),
    *(("POST", end) for end in ("data-sets", "copies", "against-itself")),
    *(
        ("POST", end)
        for end in ("try", "test", "connection", "host-key", "fetch", "confirm", "cluster-drafts")
    ),
    *(("POST", end) for end in ("launch", "check", "reproduce", "prepare", "extend", "continue")),
    *(("POST", end) for end in ("clone", "stop", "import", "bundles", "results", "jobs.tar.gz")),
    *(("POST", end) for end in ("recur", "use", "selected", "inspect", "deposit", "fetch")),
    *(("POST", "experiments"), ("PUT", "definition"), ("POST", "tables")),
    *(("GET", f"comparison.{ending}") for ending in ("csv", "tex", "parquet")),
    *(("GET", f"studies.{ending}") for ending in ("json", "csv", "tex")),
    *(("GET", end) for end in ("bundle.zip", "reproduction", "table.csv", "citation.bib")),
    *(("GET", end) for end in ("CITATION.cff", "provenance.jsonld", "{place}.jsonld")),
    ("GET", "checklist.md"),
    ("POST", "code"),
    *(("POST", f"{rows}/{{pk}}/read") for rows in ("clusters", "data-copies")),
    *(("GET", f"software.{kind}.json") for kind in ("spdx", "cdx")),
}
"""Methods and last parts of addresses, or whole ones, that launch or compute."""


def use_up(key: str, requests: int) -> None:
    """Have as many requests counted, in this minute and in the next one."""
    minute = int(time.time() // limits.WINDOW_SECONDS)
    for window in (minute, minute + 1):
        caches["limits"].set(f"{key}:{window}", requests)


def test_a_token_has_so_many_requests_a_minute_and_is_told_when_to_go_on(client: Client) -> None:
    user = UserFactory()
    headers = log_in(user)
    token = ApiToken.objects.get()
    use_up(f"requests:token:{token.pk}", limits.REQUESTS - 1)
    assert client.get("/api/v1/me", headers=headers).status_code == 200
    answer: Any = client.get("/api/v1/me", headers=headers)
    assert answer.status_code == 429
    assert answer["Content-Type"] == "application/problem+json"
    assert 1 <= int(answer["Retry-After"]) <= 60
    assert f"{answer['Retry-After']} s" in answer.json()["detail"]
    assert client.get("/api/v1/me", headers=log_in(user)).status_code == 200, "another token"


def test_launches_are_counted_by_person_whatever_the_token(client: Client) -> None:
    draft = ExperimentFactory()
    use_up(f"launches:person:{draft.owner.pk}", limits.LAUNCHES)
    path = f"/api/v1/experiments/{draft.pk}/launch"
    for _ in range(2):
        answer = client.post(path, headers=log_in(draft.owner, "experiments"))
        assert answer.status_code == 429
    draft.refresh_from_db()
    assert draft.is_draft
    assert client.get("/api/v1/me", headers=log_in(draft.owner)).status_code == 200


def test_another_process_counts_on(client: Client) -> None:
    key = "requests:token:17"
    assert limits.count_request(key) == 1
    program = (
        "import django; django.setup(); from dashboard.api.limits import count_request as count; "
        f"print(max(count({key!r}), count({key!r})))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "dashboard.settings"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(result.stdout) in (2, 3)  # 2: a new minute had begun


def test_requests_are_answered_while_valkey_is_away(client: Client, settings: Settings) -> None:
    settings.CACHES = {
        **settings.CACHES,
        "limits": {**settings.CACHES["limits"], "LOCATION": "unix:///nowhere/socket?db=0"},
    }
    headers = log_in(UserFactory())
    before = time.monotonic()
    for _ in range(20):
        assert client.get("/api/v1/me", headers=headers).status_code == 200
    assert time.monotonic() - before < 5
    assert client.get("/api/v1/me", headers={"authorization": "Bearer tare_x"}).status_code == 401


def test_wrong_tokens_of_one_address_are_slowed_down_and_right_ones_are_not(client: Client) -> None:
    use_up("wrong:192.0.2.7", limits.WRONG_TOKENS)
    wrong, right = {"authorization": f"Bearer tare_{'x' * 43}"}, log_in(UserFactory())
    there: dict[str, Any] = {"REMOTE_ADDR": "192.0.2.7"}
    answer = client.get("/api/v1/me", headers=wrong, **there)
    assert (answer.status_code, "Retry-After" in answer) == (429, True)
    assert client.get("/api/v1/me", headers=right, **there).status_code == 200
    assert client.get("/api/v1/me", headers=wrong, REMOTE_ADDR="192.0.2.8").status_code == 401


def test_what_is_no_token_at_all_is_not_looked_up(
    client: Client, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(0):
        client.get("/api/v1/me", headers={"authorization": f"Bearer tare_{'x' * 42}é"})


def test_what_launches_or_computes_has_the_lower_limit() -> None:
    others = []
    for bound in api._get_bound_routers():
        for path, view in bound.path_operations.items():
            for operation in view.operations:
                ends = {path, path.rsplit("/", 1)[-1]}
                is_heavy = any((operation.methods[0], end) in HEAVY for end in ends)
                if is_heavy != (operation.throttle_objects == limits.HEAVY):
                    others.append((operation.methods[0], path))
                assert operation.throttle_objects[:1] == limits.USUAL, path
    assert not others, sorted(others)
