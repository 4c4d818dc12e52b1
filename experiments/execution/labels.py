"""What people write on experiments to find them again: tags, notes, a new question, the archive."""

from __future__ import annotations

import re
from typing import Any

from django.db import transaction
from django.utils import timezone

from experiments.access import audit
from experiments.execution.moves import record_event
from experiments.models import Experiment, User
from experiments.models.experiment import ExperimentQuerySet

ODD = re.compile(r"[\x00-\x1f\x7f,]+")
"""What no tag holds: the comma parts them."""


def parse_tags(text: str) -> list[str]:
    """Return the tags that a text lists with commas, each once; ValueError with the reason if not.

    Blanks around and doubled ones inside a tag mean nothing.
    """
    parts = (" ".join(ODD.sub(" ", part).split()) for part in text.split(","))
    tags = list(dict.fromkeys(part for part in parts if part))
    for tag in tags:
        if len(tag) > Experiment.LONGEST_TAG:
            raise ValueError(f"A tag has at most {Experiment.LONGEST_TAG} characters.")
    if len(tags) > Experiment.MOST_TAGS:
        raise ValueError(f"An experiment has at most {Experiment.MOST_TAGS} tags.")
    return tags


def relabel(
    experiment: Experiment,
    by: User,
    *,
    question: str | None = None,
    tags: list[str] | None = None,
    notes: str | None = None,
) -> None:
    """Save question, tags and notes; None leaves what is stored as it is.

    The plan that was launched keeps the question of then.
    """
    labels = {"question": question, "tags": tags, "notes": notes}
    with audit.log_change(by, experiment):
        stored = Experiment.objects.only("question").get(pk=experiment.pk)
        changed = {name: value for name, value in labels.items() if value is not None}
        if changed:
            Experiment.objects.filter(pk=experiment.pk).update(**changed)
        if question is not None and stored.question != question:
            record_event(experiment, "renamed", why=f"before: {stored.question}", by=by)


def archive(rows: ExperimentQuerySet, by: User) -> int:
    """Have lists leave these experiments out; return how many were not archived before."""
    return _change(rows.filter(archived_at=None), by, lambda row: {"archived_at": timezone.now()})


def restore(rows: ExperimentQuerySet, by: User) -> int:
    """Have lists show these experiments again; return how many were archived before."""
    return _change(rows.exclude(archived_at=None), by, lambda row: {"archived_at": None})


def add_tags(rows: ExperimentQuerySet, by: User, tags: list[str]) -> int:
    """Give experiments these tags, unless it were too many; return how many are changed."""
    return _change(rows, by, lambda row: {"tags": _join(row.tags, tags)})


def remove_tags(rows: ExperimentQuerySet, by: User, tags: list[str]) -> int:
    """Take these tags from experiments; return how many had one of them."""
    return _change(rows, by, lambda row: {"tags": [tag for tag in row.tags if tag not in tags]})


def _join(tags: list[str], more: list[str]) -> list[str]:
    joined = list(dict.fromkeys([*tags, *more]))
    return joined if len(joined) <= Experiment.MOST_TAGS else tags


def _change(rows: ExperimentQuerySet, by: User, choose: Any) -> int:
    """Store what `choose` returns of each row, {field: value}, with entries of the audit log."""
    with transaction.atomic():
        # In one order, so that two who change the same rows wait for each other.
        locked = rows.order_by("pk").only("question", "tags", "archived_at", "cluster")
        changed: list[tuple[Experiment, dict[str, Any]]] = []
        names: set[str] = set()
        for row in locked.select_for_update(no_key=True, of=("self",)):
            values = choose(row)
            changes = {
                name: (getattr(row, name), value)
                for name, value in values.items()
                if getattr(row, name) != value
            }
            if changes:
                changed.append((row, changes))
                names |= changes.keys()
                for name, (_, value) in changes.items():
                    setattr(row, name, value)
        if changed:
            only = [row for row, _ in changed]
            Experiment.objects.bulk_update(only, sorted(names), batch_size=1000)
            audit.note_all(by, "changed", changed)
    return len(changed)
