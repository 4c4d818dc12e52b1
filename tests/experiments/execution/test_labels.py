"""Tags, notes, a new name and the archive: what is stored, what is told, and for whom."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from experiments.execution import labels
from experiments.models import AuditEntry, Experiment
from tests.factories import ExperimentFactory, UserFactory

pytestmark = pytest.mark.django_db


def both() -> tuple[Experiment, Experiment, Any]:
    """Return two experiments, and the rows of both."""
    first, second = ExperimentFactory(tags=["paper"]), ExperimentFactory(tags=[])
    return first, second, Experiment.objects.filter(pk__in=[first.pk, second.pk])


def told(row: Experiment) -> list[tuple[str, str, dict[str, Any]]]:
    """Return what the audit log says of a row: by whom, what, and which changes."""
    entries = AuditEntry.objects.filter(kind="experiment", object_pk=str(row.pk)).order_by("pk")
    return [(str(entry.actor), entry.what, entry.changes) for entry in entries]


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("", []),
        (" , ,", []),
        ("a,b", ["a", "b"]),
        ("  two   words , x\ty\n, a", ["two words", "x y", "a"]),
        ("b, a, b", ["b", "a"]),
        ("a\x00b, c\x1f, d\x7fe", ["a b", "c", "d e"]),
        ("x" * Experiment.LONGEST_TAG, ["x" * Experiment.LONGEST_TAG]),
    ],
)
def test_a_text_lists_each_tag_once(text: str, tags: list[str]) -> None:
    assert labels.parse_tags(text) == tags


def test_as_many_tags_as_are_allowed_are_taken_and_no_more() -> None:
    most = [f"t{number}" for number in range(Experiment.MOST_TAGS)]
    assert labels.parse_tags(", ".join(most)) == most
    with pytest.raises(ValueError, match=r"^An experiment has at most 20 tags\.$"):
        labels.parse_tags(", ".join([*most, "one more"]))
    with pytest.raises(ValueError, match=r"^A tag has at most 40 characters\.$"):
        labels.parse_tags("x" * (Experiment.LONGEST_TAG + 1))


def test_a_new_name_is_told_with_the_one_before_and_by_whom() -> None:
    row, other, _ = both()
    person = UserFactory(username="ada")
    before = row.question
    labels.relabel(row, person, question="Why?", tags=["a"], notes="n")
    row.refresh_from_db()
    assert (row.question, row.tags, row.notes) == ("Why?", ["a"], "n")
    event = row.events.get()
    assert (event.what, event.why, event.actor) == ("renamed", f"before: {before}", person)
    (entry,) = told(row)
    assert entry[0] == "ada"
    assert entry[2]["question"] == [before, "Why?"]
    other.refresh_from_db()
    assert (other.tags, other.notes) == ([], "")


def test_other_notes_are_no_new_name() -> None:
    row = ExperimentFactory()
    labels.relabel(row, row.owner, question=row.question, tags=[], notes="n")
    assert not row.events.exists()


def test_tags_are_added_to_those_that_lack_them() -> None:
    first, second, rows = both()
    person = UserFactory(username="ada")
    assert labels.add_tags(rows, person, ["paper", "new"]) == 2
    assert labels.add_tags(rows, person, ["paper"]) == 0
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.tags, second.tags) == (["paper", "new"], ["paper", "new"])
    assert told(first) == [("ada", "changed", {"tags": [["paper"], ["paper", "new"]]})]
    assert told(second) == [("ada", "changed", {"tags": [[], ["paper", "new"]]})]


def test_tags_are_added_up_to_the_most_and_otherwise_none() -> None:
    row = ExperimentFactory(tags=["first"])
    rows = Experiment.objects.filter(pk=row.pk)
    more = [f"t{number}" for number in range(Experiment.MOST_TAGS)]
    assert labels.add_tags(rows, row.owner, more) == 0, "it would have one too many"
    assert labels.add_tags(rows, row.owner, more[:-1]) == 1
    row.refresh_from_db()
    assert row.tags == ["first", *more[:-1]]


def test_tags_are_taken_from_those_that_have_them() -> None:
    first, second, rows = both()
    assert labels.remove_tags(rows, first.owner, ["paper", "none"]) == 1
    first.refresh_from_db()
    assert first.tags == []
    assert [what for _, what, _ in told(first)] == ["changed"]
    assert told(second) == []


def test_what_is_archived_or_restored_already_is_left_and_not_counted() -> None:
    first, second, rows = both()
    assert labels.archive(Experiment.objects.filter(pk=first.pk), first.owner) == 1
    first.refresh_from_db()
    at = first.archived_at
    assert isinstance(at, datetime)
    assert labels.archive(rows, first.owner) == 1, "the other one"
    first.refresh_from_db()
    assert first.archived_at == at
    assert labels.restore(Experiment.objects.filter(pk=second.pk), first.owner) == 1
    assert labels.restore(rows, first.owner) == 1
    assert not rows.exclude(archived_at=None).exists()
    assert [list(changes) for _, _, changes in told(first)] == [["archived_at"]] * 2
