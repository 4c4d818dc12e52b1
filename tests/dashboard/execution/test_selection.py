"""What is done with the selected rows of lists: rights are checked of each, and all is reported."""

from __future__ import annotations

from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client

from experiments.execution import lifecycle
from experiments.models import Experiment, Run
from tests.dashboard.conftest import People, Site, measured
from tests.factories import ExperimentFactory, JobFactory, LaunchedFactory, RunFactory

pytestmark = pytest.mark.django_db
EXPERIMENTS, RUNS = "/experiments/selected/", "/runs/selected/"


@pytest.fixture
def mixed(people: People) -> dict[str, Experiment]:
    """Two of one's own, another's, and another's that is hidden."""
    return {
        "first": ExperimentFactory(owner=people.owner, question="First?"),
        "second": ExperimentFactory(owner=people.owner, question="Second?"),
        "theirs": ExperimentFactory(owner=people.other, question="Theirs?", visibility="members"),
        "hidden": ExperimentFactory(owner=people.other, question="Hidden?", visibility="private"),
    }


def act(client: Client, address: str, action: str, picked: Any = (), **fields: str) -> str:
    """Return what the page says that was done."""
    answer = client.post(address, {"action": action, "pick": picked, **fields}, follow=True)
    assert answer.status_code == 200
    soup = BeautifulSoup(answer.content, "html.parser")
    return " ".join(note.text.strip() for note in soup.select("main .note[role=status]"))


def send(client: Client, address: str, picked: Any = (), **fields: str) -> list[str]:
    answer: Any = client.post(address, {"action": "export", "pick": picked, **fields})
    assert answer["Content-Type"].startswith("text/csv")
    return b"".join(answer.streaming_content).decode().splitlines()[1:]


def test_each_row_can_be_selected_without_scripts(
    mixed: dict[str, Experiment], as_owner: Client, site: Site, people: People
) -> None:
    run = measured(site, people.owner, blocks=1).runs.all()[0]
    for page, value in (("/experiments/", str(mixed["first"].pk)), ("/runs/", run.uid)):
        soup = BeautifulSoup(as_owner.get(page).content, "html.parser")
        form = soup.select_one("form#selection")
        assert form
        assert form["method"] == "post"
        box = soup.select_one(f'tbody input[type=checkbox][name=pick][value="{value}"]')
        assert box
        assert box["form"] == "selection"
        assert str(box["aria-label"]).startswith("Select ")


def test_what_is_not_ones_own_does_not_stop_the_others(
    mixed: dict[str, Experiment], as_owner: Client
) -> None:
    picked = [row.pk for row in mixed.values()] + ["999999", "x", "9" * 40]
    text = act(as_owner, EXPERIMENTS, "archive", picked)
    assert text == (
        "Archived 2 experiments. 1 not: not yours to change. 2 not: not there any more."
    )
    archived = Experiment.objects.exclude(archived_at=None)
    assert set(archived) == {mixed["first"], mixed["second"]}
    text = act(as_owner, EXPERIMENTS, "archive", [mixed["first"].pk])
    assert text == "Archived 0 experiments. 1 already archived."
    assert act(as_owner, EXPERIMENTS, "restore", picked[:2]) == "Restored 2 experiments."


def test_tags_are_added_and_removed(mixed: dict[str, Experiment], as_owner: Client) -> None:
    picked = [mixed["first"].pk, mixed["second"].pk]
    assert act(as_owner, EXPERIMENTS, "tag", picked, tag="a, b") == "Tagged 2 experiments."
    assert {tuple(row.tags) for row in Experiment.objects.filter(pk__in=picked)} == {("a", "b")}
    text = act(as_owner, EXPERIMENTS, "untag", picked, tag="b")
    assert text == "Removed the tag from 2 experiments."
    assert "write a tag first" in act(as_owner, EXPERIMENTS, "tag", picked, tag=" ,")
    assert "at most 40" in act(as_owner, EXPERIMENTS, "tag", picked, tag="x" * 41)
    assert {tuple(row.tags) for row in Experiment.objects.filter(pk__in=picked)} == {("a",)}


@pytest.mark.parametrize("action", ["", "odd", "archive", "cancel", "compare", "export", "tag"])
@pytest.mark.parametrize("address", [EXPERIMENTS, RUNS])
def test_nothing_selected_is_said(address: str, action: str, as_owner: Client) -> None:
    assert "Nothing was done" in act(as_owner, address, action)


def test_all_that_match_are_taken_and_nothing_else(
    mixed: dict[str, Experiment], as_owner: Client
) -> None:
    query = "q=First&sort=-created&page=7&column=owner"
    assert [line.split(",")[1] for line in send(as_owner, EXPERIMENTS, all="yes", query=query)] == [
        "First?"
    ]
    assert act(as_owner, EXPERIMENTS, "archive", all="yes", query=query) == "Archived 1 experiment."
    lines = send(as_owner, EXPERIMENTS, [row.pk for row in mixed.values()])
    assert sorted(line.split(",")[1] for line in lines) == ["First?", "Second?", "Theirs?"]


def test_five_thousand_are_tagged_and_archived(people: People, as_owner: Client) -> None:
    first = ExperimentFactory(owner=people.owner, question="Many?")
    columns = {
        field.attname: getattr(first, field.attname)
        for field in Experiment._meta.concrete_fields
        if not field.primary_key
    }
    Experiment.objects.bulk_create([Experiment(**columns) for _ in range(4999)])
    fields = {"all": "yes", "query": "q=Many"}
    assert act(as_owner, EXPERIMENTS, "tag", tag="new", **fields) == "Tagged 5000 experiments."
    assert act(as_owner, EXPERIMENTS, "archive", **fields) == "Archived 5000 experiments."
    assert Experiment.objects.filter(tags=["new"]).exclude(archived_at=None).count() == 5000


def test_one_that_cannot_be_cancelled_does_not_stop_the_others(
    people: People, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [LaunchedFactory(owner=people.owner) for _ in range(3)]
    for row in rows:
        RunFactory(job=JobFactory(experiment=row, state="planned"), state="planned")
    draft = ExperimentFactory(owner=people.owner)
    cancel = lifecycle.cancel

    def fail(row: Experiment, by: Any) -> Any:
        if row.pk == rows[0].pk:
            raise RuntimeError("broken")
        return cancel(row, by)

    monkeypatch.setattr(lifecycle, "cancel", fail)
    text = act(as_owner, EXPERIMENTS, "cancel", [row.pk for row in [*rows, draft]])
    assert text == (
        "Cancelled 2 experiments. 1 with nothing left to cancel. "
        "1 not: an error, which is in the server’s log."
    )
    states = [Run.objects.get(experiment=row).state for row in rows]
    assert states == ["planned", "cancelled", "cancelled"]


def test_selected_experiments_are_compared(
    site: Site, people: People, as_owner: Client, mixed: dict[str, Experiment]
) -> None:
    made = [measured(site, people.owner, blocks=2, question=f"Q{n}?") for n in range(3)]
    picked = [made[0].pk, made[2].pk, mixed["hidden"].pk, mixed["first"].pk]
    answer = as_owner.post(EXPERIMENTS, {"action": "compare", "pick": picked}, follow=True)
    page = answer.content.decode()
    assert "Q0?" in page
    assert "Q2?" in page
    assert "Q1?" not in page
    assert "Hidden?" not in page
    assert "2 of 3 selected experiments" in " ".join(page.split())
    answer = as_owner.post(EXPERIMENTS, {"action": "compare", "pick": picked[:1]})
    assert answer["Location"] == f"/experiments/{made[0].pk}/comparison/"
    hidden = as_owner.post(EXPERIMENTS, {"action": "compare", "pick": [mixed["hidden"].pk]})
    assert hidden["Location"].startswith("/experiments/?")


def test_selected_runs_are_sent_and_their_experiments_changed(
    site: Site, people: People, as_owner: Client
) -> None:
    own = measured(site, people.owner, blocks=2, question="Own?")
    theirs = measured(site, people.other, blocks=1, question="Theirs?", visibility="members")
    hidden = measured(site, people.other, blocks=1, question="Hidden?", visibility="private")
    uids = [row.runs.order_by("pk")[0].uid for row in (own, theirs, hidden)]
    lines = send(as_owner, RUNS, [*uids, "x" * 200, "odd\x00"], query="column=node&where=repeat=77")
    assert sorted(line.split(",")[0] for line in lines) == sorted(uids[:2])
    assert len(send(as_owner, RUNS, all="yes", query="q=Own")) == own.runs.count()
    text = act(as_owner, RUNS, "tag", uids, tag="odd node")
    assert text == "Tagged 1 experiment. 1 not: not yours to change."
    assert act(as_owner, RUNS, "archive", all="yes", query="where=repeat=-1") == (
        "Nothing was done: nothing was selected."
    )
    assert act(as_owner, RUNS, "archive", uids[:1]) == "Archived 1 experiment."
    assert Experiment.objects.exclude(archived_at=None).get() == own


@pytest.mark.parametrize(
    "query",
    [
        *("%00", "q=%00", "sort=x&page=%ff", "q=" + "ä" * 100, "a=b;c"),
        # A NUL that is there only when "%00" is taken away.
        *("q=%0%000", "tag=%0%000", "where=node=%0%000", "column=fact.package+%0%000", "%0%000=1"),
    ],
)
def test_an_odd_state_of_the_list_breaks_nothing(
    query: str, mixed: dict[str, Experiment], as_owner: Client
) -> None:
    for address in (EXPERIMENTS, RUNS):
        for fields in ({"all": "yes"}, {"pick": [mixed["first"].pk]}):
            answer = as_owner.post(address, {"action": "archive", "query": query, **fields})
            assert answer.status_code == 302
            assert as_owner.get(answer["Location"]).status_code == 200


@pytest.mark.parametrize(
    ("address", "query", "part"),
    [
        (EXPERIMENTS, "study=99999999", "study=99999999"),
        (EXPERIMENTS, "cluster=99999999&mine=me", "cluster=99999999"),
        (EXPERIMENTS, "q=" + "x" * 301, "q=xxx"),
        (EXPERIMENTS, "state=odd", "state=odd"),
        (RUNS, "where=metric.gone>5&mine=me", "metric.gone"),
        (RUNS, "where=parameter.gone=5", "parameter.gone"),
        (RUNS, "cluster=99999999", "cluster=99999999"),
        (RUNS, "state=odd", "state=odd"),
        (RUNS, "&".join(f"where=repeat!={n}" for n in range(100, 130)), "at most 20 filters"),
    ],
)
@pytest.mark.parametrize("action", ["archive", "tag", "cancel"])
def test_what_is_done_to_all_that_match_is_not_done_where_a_filter_is_not_understood(
    action: str, address: str, query: str, part: str, site: Site, people: People, as_owner: Client
) -> None:
    """Its study, its cluster or its metric may be gone since the list was shown: without the filter
    it would be done to many more.
    """
    measured(site, people.owner, blocks=1)
    text = act(as_owner, address, action, all="yes", query=query, tag="new")
    assert "Nothing was done to all that match" in text
    assert part in text
    assert not Experiment.objects.exclude(archived_at=None).exists()
    assert not Experiment.objects.exclude(tags=[]).exists()


def test_a_state_that_no_address_has_is_refused_at_once(people: People, site: Site) -> None:
    """Each comparison of a filter may be that after the column: tried all, it took minutes."""
    client = people.client("owner")
    for query in ("where=" + "<" * 1_000_000, "where=node=" + "<" * 1_000_000):
        for address in (EXPERIMENTS, RUNS):
            fields = {"action": "export", "query": query, "all": "yes"}
            assert client.post(address, fields).status_code == 400
    fields = {"action": "archive", "query": "where=" + "<" * 5_000, "all": "yes"}
    assert "does not begin with a column" in act(client, RUNS, **fields)
