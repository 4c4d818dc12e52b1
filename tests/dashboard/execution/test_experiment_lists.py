"""The list of experiments: columns of one's choice, and the same as a file."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dashboard.execution.experiment_columns import COLUMNS
from experiments.comparisons import keep_comparison
from experiments.models import Event, Experiment, KeptComparison
from tests.dashboard.conftest import People, Site, measured
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def three(site: Site, people: People) -> list[Experiment]:
    """Two that have ended, the first changed last, and a draft without a change."""
    made = [measured(site, people.owner, blocks=1, question=f"{name}?") for name in "ab"]
    now = timezone.now()
    for experiment, days in zip(made, (1, 2), strict=True):
        Event.objects.filter(experiment=experiment).delete()
        event = Event.objects.create(experiment=experiment, what="launched")
        Event.objects.filter(pk=event.pk).update(at=now - timedelta(days=days))
    draft = ExperimentFactory(question="=draft?", cluster=site.cluster, owner=people.owner)
    return [*made, draft]


def test_the_columns_are_those_of_the_address_in_its_order(
    as_owner: Client, three: list[Experiment]
) -> None:
    query = {"column": ["owner", "margin", "environments", "runs"], "sort": "question"}
    soup = BeautifulSoup(as_owner.get("/experiments/", query).content, "html.parser")
    heads = [head.text.strip() for head in soup.select("main thead th")]
    assert heads == ["Question", "Owner", "Margin", "Environments", "Runs"]
    rows = [[cell.text.strip() for cell in row.select("td")] for row in soup.select("tbody tr")]
    assert rows[1] == ["owner", "5\N{NO-BREAK SPACE}%", "Apptainer, bare metal", "2/2"]
    assert rows[0][3] == "–"


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        ({"margin_faster": 0.02}, "2 % faster to 5 % slower"),
        ({"goal": "not slower"}, "5 %, not slower"),
    ],
)
def test_a_margin_that_is_not_the_same_both_ways_is_shown_whole(
    plan: dict[str, Any], text: str, as_owner: Client, three: list[Experiment]
) -> None:
    Experiment.objects.filter(pk=three[2].pk).update(**plan)
    page = as_owner.get("/experiments/", {"column": "margin", "sort": "question"}).content.decode()
    soup = BeautifulSoup(page, "html.parser")
    shown = soup.select_one("tbody tr td").text.strip().replace("\N{NO-BREAK SPACE}", " ")
    assert shown == text


@pytest.mark.parametrize(("sort", "order"), [("changed", "ba="), ("-changed", "ab=")])
def test_experiments_are_sorted_by_their_last_change(
    sort: str, order: str, as_owner: Client, three: list[Experiment]
) -> None:
    rows = as_owner.get("/experiments/", {"sort": sort, "column": "changed"}).context["rows"]
    assert "".join(row.question[0] for row, _ in rows) == order


def test_an_unknown_column_is_said_and_filters_keep_the_columns(
    as_owner: Client, three: list[Experiment]
) -> None:
    query = {"column": ["password", "owner"], "q": "a?", "sort": "owner"}
    soup = BeautifulSoup(as_owner.get("/experiments/", query).content, "html.parser")
    (note,) = soup.select(".note.warning")
    assert "There is no column “password”" in note.text
    kept = soup.select("form.filters input[type=hidden][name=column]")
    assert [field["value"] for field in kept] == ["password", "owner"]
    assert soup.select_one(".chooser input[name=q][value='a?']")


def test_all_columns_ask_as_often_for_many_rows_as_for_few(
    as_owner: Client, site: Site, people: People, three: list[Experiment]
) -> None:
    def count() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert as_owner.get("/experiments/", {"column": list(COLUMNS)}).status_code == 200
        return len(captured)

    few = count()
    for _ in range(5):
        measured(site, people.owner, blocks=1)
    assert count() == few


def test_the_file_has_the_list_as_it_is_shown(as_owner: Client, three: list[Experiment]) -> None:
    query = {"column": ["state", "cluster"], "sort": "question", "q": "?"}
    answer = as_owner.get("/experiments.csv", query)
    lines = b"".join(answer.streaming_content).decode().splitlines()
    a, b, draft = (experiment.pk for experiment in three)
    assert lines == [
        "experiment,question,state,cluster",
        f"{draft},'=draft?,draft,lab",
        f"{a},a?,finished,lab",
        f"{b},b?,finished,lab",
    ]
    assert "/experiments.csv?" in as_owner.get("/experiments/", query).content.decode()


def test_nobody_gets_experiments_of_others_in_a_file(
    people: People, three: list[Experiment]
) -> None:
    Experiment.objects.update(visibility="private")
    answer = people.client("other").get("/experiments.csv")
    assert b"".join(answer.streaming_content).decode().count("\n") == 1


def test_verdicts_are_those_of_kept_comparisons_that_nothing_has_changed(
    as_owner: Client, three: list[Experiment]
) -> None:
    def read() -> dict[str, str]:
        query = {"column": "verdicts", "sort": "question"}
        soup = BeautifulSoup(as_owner.get("/experiments/", query).content, "html.parser")
        cells = {}
        for row in soup.select("tbody tr"):
            link, cell = row.select_one("th > a"), row.select_one("td")
            assert link
            assert cell
            cells[link.text] = " ".join(cell.text.split())
        return cells

    missing = "\N{EN DASH}"
    assert set(read().values()) == {missing}
    for experiment in three[:2]:
        assert keep_comparison(experiment.pk) == "kept"
    kept = KeptComparison.objects.get(pk=three[0].pk)
    (verdict,) = kept.verdicts
    assert read() == {"a?": f"1 {verdict}", "b?": f"1 {verdict}", "=draft?": missing}
    KeptComparison.objects.filter(pk=three[0].pk).update(verdicts={"SLOWER": 1, "EQUIVALENT": 12})
    assert read()["a?"] == "12 EQUIVALENT 1 SLOWER"
    Event.objects.create(experiment=three[0], what="excluded")
    assert read() == {"a?": missing, "b?": f"1 {verdict}", "=draft?": missing}
    answer = as_owner.get("/experiments.csv", {"column": "verdicts", "sort": "question"})
    lines = b"".join(answer.streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert lines[-1].endswith(f",b?,{verdict}: 1")


def test_verdicts_of_many_are_read_with_as_many_queries_as_of_few(
    as_owner: Client, site: Site, people: People
) -> None:
    counts = []
    for _ in range(2):
        for _ in range(2):
            made = measured(site, people.owner, blocks=1)
            assert keep_comparison(made.pk) == "kept"
        with CaptureQueriesContext(connection) as captured:
            as_owner.get("/experiments/")
        counts.append(len(captured))
    assert counts[0] == counts[1] <= 15


def test_each_filter_in_force_can_be_removed_alone(
    as_owner: Client, three: list[Experiment]
) -> None:
    query = {"q": "?", "mine": "me", "tag": "new & old", "state": "odd", "page": "2"}
    soup = BeautifulSoup(as_owner.get("/experiments/", query).content, "html.parser")
    chips = {chip.span.text: chip.a["href"] for chip in soup.select(".chips li")}  # type: ignore[union-attr]
    assert list(chips) == ["Owner me", "Tag new & old"]  # what is no state filters nothing
    assert chips["Tag new & old"] == "?q=%3F&mine=me&state=odd"
    for chip in soup.select(".chips a"):
        assert as_owner.get("/experiments/" + str(chip["href"])).status_code == 200
