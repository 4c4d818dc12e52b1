"""Tags, notes, a new question and the archive of experiments, on their page and in lists."""

from __future__ import annotations

from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from experiments.access import audit
from experiments.execution import labels
from experiments.models import AuditEntry, Experiment, ShareLink
from tests.dashboard.conftest import People, Site, measured
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def tagged(site: Site, people: People) -> Experiment:
    made = measured(site, people.owner, blocks=2, question="What?", visibility="public")
    Experiment.objects.filter(pk=made.pk).update(tags=["paper", "<b>a & b</b>"], notes="my <notes>")
    return made


def questions(client: Client, query: dict[str, Any]) -> list[str]:
    soup = BeautifulSoup(client.get("/experiments/", query).content, "html.parser")
    return [row.text for row in soup.select("tbody th > a")]


def save(client: Client, row: Experiment, **fields: str) -> Any:
    now = {"question": row.question, "tags": ", ".join(row.tags), "notes": row.notes}
    return client.post(f"/experiments/{row.pk}/labels/", now | fields)


@given(text=st.text(max_size=200))
def test_tags_can_be_written_and_read_again(text: str) -> None:
    try:
        tags = labels.parse_tags(text)
    except ValueError:
        return
    assert labels.parse_tags(", ".join(tags)) == tags
    assert len(set(tags)) == len(tags)
    assert all(0 < len(tag) <= Experiment.LONGEST_TAG and "," not in tag for tag in tags)


def test_an_experiment_is_renamed_tagged_and_annotated(
    tagged: Experiment, as_owner: Client
) -> None:
    plan, before = tagged.plan, tagged.plan_hash
    assert save(as_owner, tagged, question="Why?", tags=" a ,b  c,,a", notes="n").status_code == 302
    tagged.refresh_from_db()
    assert (tagged.question, tagged.tags, tagged.notes) == ("Why?", ["a", "b c"], "n")
    assert (tagged.plan, tagged.plan_hash) == (plan, before)
    assert tagged.events.get(what="renamed").why == "before: What?"
    entry = AuditEntry.objects.filter(kind="experiment").latest("pk")
    assert entry.changes["tags"] == [["paper", "<b>a & b</b>"], ["a", "b c"]]


@pytest.mark.parametrize(
    "fields",
    [
        {"tags": "x" * 41},
        {"tags": ",".join(map(str, range(21)))},
        {"question": " "},
        {"question": "x" * 301},
        {"notes": "x" * 10_001},
        {"tags": "a\x00"},
    ],
)
def test_labels_that_do_not_fit_are_refused_with_the_reason(
    fields: dict[str, str], tagged: Experiment, as_owner: Client
) -> None:
    answer = save(as_owner, tagged, **fields)
    assert answer.status_code == 200
    assert "Not saved" in answer.content.decode()
    stored = Experiment.objects.get(pk=tagged.pk)
    assert (stored.question, stored.notes) == ("What?", "my <notes>")


def test_notes_may_be_as_long_as_the_page_says(tagged: Experiment, as_owner: Client) -> None:
    """A browser counts the end of a line as one character, and sends two."""
    notes = ("a" * 99 + "\n") * 99 + "b" * 100
    assert len(notes) == Experiment.LONGEST_NOTES
    assert save(as_owner, tagged, notes=notes.replace("\n", "\r\n")).status_code == 302
    tagged.refresh_from_db()
    assert tagged.notes == notes


def test_of_two_tabs_each_stores_what_was_changed_in_it(
    tagged: Experiment, people: People, as_owner: Client
) -> None:
    Experiment.objects.filter(pk=tagged.pk).update(notes="one\ntwo")
    page = as_owner.get(f"/experiments/{tagged.pk}/labels/").content
    form: Any = BeautifulSoup(page, "html.parser").select_one("main form.panel")
    shown = {field["name"]: field.get("value", "") for field in form.select("input[name]")}
    shown |= {field["name"]: field.text.lstrip("\n") for field in form.select("textarea")}
    shown = {name: text.replace("\n", "\r\n") for name, text in shown.items()}
    labels.relabel(tagged, people.owner, notes="three")
    assert as_owner.post(f"/experiments/{tagged.pk}/labels/", shown).status_code == 302
    tagged.refresh_from_db()
    assert tagged.notes == "three", "it was not changed on the page"
    labels.add_tags(Experiment.objects.filter(pk=tagged.pk), people.owner, ["new"])
    labels.relabel(tagged, people.owner, question="Why?")
    address = f"/experiments/{tagged.pk}/labels/"
    assert as_owner.post(address, shown | {"notes": "other\r\nnotes"}).status_code == 302
    tagged.refresh_from_db()
    assert (tagged.question, tagged.notes) == ("Why?", "other\nnotes")
    assert tagged.tags == ["paper", "<b>a & b</b>", "new"]
    assert as_owner.post(address, shown | {"tags": "", "notes": ""}).status_code == 302
    tagged.refresh_from_db()
    assert (tagged.question, tagged.tags, tagged.notes) == ("Why?", [], "")


def test_only_who_may_change_an_experiment_labels_it(tagged: Experiment, people: People) -> None:
    other = people.client("other")
    assert save(other, tagged, tags="x").status_code == 403
    assert other.post(f"/experiments/{tagged.pk}/archive/").status_code == 403
    assert "Name, tags and notes" not in other.get(f"/experiments/{tagged.pk}/").content.decode()


def test_tags_are_shown_on_lists_and_filter_them(
    tagged: Experiment, people: People, as_owner: Client
) -> None:
    ExperimentFactory(owner=people.owner, question="Another?")
    soup = BeautifulSoup(as_owner.get("/experiments/").content, "html.parser")
    links = soup.select(".tags a")
    assert [link.text for link in links] == ["paper", "<b>a & b</b>"]
    assert sorted(questions(as_owner, {})) == ["Another?", "What?"]
    for link in links:
        page = as_owner.get(str(link["href"]))
        found = BeautifulSoup(page.content, "html.parser").select("tbody th > a")
        assert [row.text for row in found] == ["What?"]
    assert questions(as_owner, {"tag": "pape"}) == []
    count = tagged.runs.count()
    for tag, shown in (("paper", count), ("none", 0)):
        runs = BeautifulSoup(as_owner.get("/runs/", {"tag": tag}).content, "html.parser")
        assert len(runs.select(".runs tbody th a")) == shown
        assert [chip.text for chip in runs.select(".chips b")] == [tag]


def test_lists_leave_archived_experiments_out_and_links_still_work(
    tagged: Experiment, as_owner: Client
) -> None:
    link = ShareLink.objects.make(tagged)
    as_owner.post(f"/experiments/{tagged.pk}/archive/")
    assert questions(as_owner, {}) == []
    assert questions(as_owner, {"archived": "only"}) == ["What?"]
    assert questions(as_owner, {"archived": "all"}) == ["What?"]
    count = tagged.runs.count()
    for query, shown in (({}, 0), ({"archived": "only"}, count), ({"archived": "all"}, count)):
        runs = BeautifulSoup(as_owner.get("/runs/", query).content, "html.parser")
        assert len(runs.select(".runs tbody th a")) == shown
    assert "What?" not in as_owner.get("/compare/").content.decode()
    assert "What?" in as_owner.get("/compare/", {"archived": "only"}).content.decode()
    assert as_owner.get(f"/experiments/{tagged.pk}/comparison/").status_code == 200
    visitor = Client()
    visitor.get(f"/link/{link.token.reveal()}/")
    assert visitor.get(f"/experiments/{tagged.pk}/comparison/").status_code == 200
    as_owner.post(f"/experiments/{tagged.pk}/archive/", {"restore": "yes"})
    assert questions(as_owner, {}) == ["What?"]


def test_visitors_with_a_link_see_neither_tags_nor_notes(tagged: Experiment) -> None:
    visitor = Client()
    visitor.get(f"/link/{ShareLink.objects.make(tagged).token.reveal()}/")
    page = visitor.get(f"/experiments/{tagged.pk}/").content.decode()
    assert "What?" in page
    assert "my &lt;notes&gt;" not in page
    assert "?tag=" not in page


def test_tags_of_many_are_stored_with_their_entries_or_not_at_all(
    tagged: Experiment, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Experiment.objects.filter(pk=tagged.pk)
    entries = AuditEntry.objects.filter(kind="experiment")
    before = entries.count()
    with monkeypatch.context() as patched:
        patched.setattr(audit, "note_all", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            labels.archive(rows, people.owner)
    assert rows.get().archived_at is None
    assert labels.add_tags(rows, people.owner, ["paper"]) == 0
    assert labels.add_tags(rows, people.owner, ["paper", "new"]) == 1
    assert rows.get().tags == ["paper", "<b>a & b</b>", "new"]
    assert labels.remove_tags(rows, people.owner, ["new"]) == 1
    assert labels.add_tags(rows, people.owner, [f"tag {n}" for n in range(19)]) == 0
    assert labels.archive(rows, people.owner) == 1
    assert labels.archive(rows, people.owner) == 0
    assert labels.restore(rows, people.owner) == 1
    assert entries.count() == before + 4
