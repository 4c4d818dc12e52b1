"""Pages of a kept comparison say what those of a computed one say, and hide what these hide."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from experiments.comparisons import keep_comparison, kept
from experiments.execution import excluded_runs
from experiments.models import Experiment, KeptComparison
from tests.dashboard.conftest import People, Site, measured
from tests.factories import UserFactory, link_to

pytestmark = pytest.mark.django_db

PAGES = (
    ("comparison", ""),
    ("comparison", "?section=all"),
    ("comparison", "?section=verdicts&configuration=2"),
    ("comparison_csv", ""),
    ("comparison_json", ""),
    ("comparison_tex", ""),
    ("robustness", ""),
    ("experiment", ""),
)
DIFFERS = re.compile(b"csrf|nonce|data-seen")


@pytest.fixture
def never_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(experiment: Experiment) -> Any:
        raise AssertionError("It is kept.")

    monkeypatch.setattr(kept, "compare_experiment", refuse)


@pytest.fixture
def several(site: Site, people: People) -> Experiment:
    experiment = measured(site, people.owner, scales=["1x1", "1x2"])
    run = experiment.runs.latest("pk")
    assert excluded_runs.exclude(run, UserFactory(username="zoe.quimby"), "the fan of zoe.quimby")
    return experiment


def read(client: Client, experiment: Experiment, name: str, query: str) -> bytes:
    answer = client.get(reverse(name, args=[experiment.pk]) + query)
    assert answer.status_code == 200
    parts = answer.streaming_content if getattr(answer, "streaming", False) else [answer.content]
    return b"".join(parts)  # type: ignore[arg-type]


def test_they_are_the_same(
    several: Experiment, as_owner: Client, request: pytest.FixtureRequest
) -> None:
    before = [read(as_owner, several, *page) for page in PAGES]
    keep_comparison(several.pk)
    request.getfixturevalue("never_computed")
    for page, wanted in zip(PAGES, before, strict=True):
        assert mask(read(as_owner, several, *page)) == mask(wanted), page


def mask(content: bytes) -> list[bytes]:
    """Return the lines without those that differ in each answer: keys of forms, and the time."""
    return [line for line in content.splitlines() if not DIFFERS.search(line)]


def test_a_link_that_hides_names_hides_those_that_are_kept(
    several: Experiment, client: Client, as_owner: Client
) -> None:
    keep_comparison(several.pk)
    assert "zoe.quimby" in read(as_owner, several, "comparison", "?section=all").decode()
    client.get(link_to(several, hides_names=True))
    for name, query in PAGES[:-1]:
        text = read(client, several, name, query).decode()
        assert not re.search("zoe|quimby", text.casefold()), (name, query)


def test_the_overview_shows_what_is_kept(
    several: Experiment, as_owner: Client, request: pytest.FixtureRequest
) -> None:
    keep_comparison(several.pk)
    request.getfixturevalue("never_computed")
    page = as_owner.get("/").content.decode()
    assert several.question in page
    assert "EXCLUDED AFTER A VERDICT" in page


def test_the_overview_asks_as_often_for_three_as_for_one(
    site: Site, people: People, as_owner: Client
) -> None:
    as_owner.get("/")  # the first visit is noted by more statements
    counts = []
    for count in (1, 2):
        for _ in range(count):
            keep_comparison(measured(site, people.owner).pk)
        with CaptureQueriesContext(connection) as queries:
            as_owner.get("/")
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 15


@pytest.mark.parametrize("damage", [b"", b"\0" * 500, b"<script>"])
def test_a_damaged_one_is_no_error(damage: bytes, several: Experiment, as_owner: Client) -> None:
    keep_comparison(several.pk)
    wanted = [mask(read(as_owner, several, *page)) for page in PAGES]
    KeptComparison.objects.update(content=damage)
    assert [mask(read(as_owner, several, *page)) for page in PAGES] == wanted
