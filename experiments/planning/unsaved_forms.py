"""Forms that keep themselves while somebody types, and how two pages notice each other."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Model
from django.db.models.functions import Now
from django.forms import model_to_dict

from experiments.models import Experiment, UnsavedForm, User
from experiments.planning.variants import list_chosen

Values = dict[str, list[str]]


class NotKept(Exception):
    """What was typed is not kept; the message says why."""


class KeptElsewhere(Exception):
    """Another page has kept this form since this page was opened, at `at`."""

    def __init__(self, at: datetime) -> None:
        super().__init__("Another tab has kept this form.")
        self.at = at


@dataclass(frozen=True)
class Page:
    """A form in a tab of a browser.

    `before` is the state of what it was opened with, "" where nothing was kept.
    """

    key: str
    tab: str
    before: str = ""


def open_page(experiment: Experiment, row: UnsavedForm | None) -> Page:
    """Return a page of its own, for the form of `experiment` with what `row` has kept."""
    tab = secrets.token_hex(8)
    if row:
        return Page(row.key, tab, row.state)
    return Page(name_key(experiment) if experiment.pk else secrets.token_hex(8), tab)


def name_key(draft: Experiment) -> str:
    """Return the key of a stored draft's form."""
    return f"draft-{draft.pk}"


def find_kept(owner: User, key: str) -> UnsavedForm | None:
    """Return what `owner` has typed and not saved under this key."""
    return UnsavedForm.objects.filter(owner=owner, key=key[:40]).first()


def list_kept(owner: User) -> list[UnsavedForm]:
    """Return the forms of new experiments that `owner` has not saved, the last one first."""
    return list(UnsavedForm.objects.filter(owner=owner, experiment=None))


def keep_values(
    owner: User, page: Page, experiment: Experiment | None, values: Values, *, anyway: bool = False
) -> UnsavedForm:
    """Keep what was typed; `anyway` also where another page has kept the form since.

    Raises NotKept, and KeptElsewhere.
    """
    if sum(len(text) for texts in values.values() for text in texts) > UnsavedForm.LONGEST:
        raise NotKept("this is longer than any experiment")
    cleaned = {
        name: [text.replace("\0", "") for text in texts] for name, texts in values.items() if texts
    }
    with transaction.atomic():
        row, is_new = UnsavedForm.objects.select_for_update().get_or_create(
            owner=owner,
            key=page.key[:40],
            defaults={"experiment": experiment, "tab": page.tab[:40], "kept_at": Now()},
        )
        if not (is_new or anyway or row.tab == page.tab or row.state == page.before):
            raise KeptElsewhere(row.kept_at)
        UnsavedForm.objects.filter(pk=row.pk).update(
            values=cleaned, tab=page.tab[:40], kept_at=Now()
        )
        if is_new and experiment is None:
            _drop_oldest(owner)
        row.refresh_from_db()
    return row


def _drop_oldest(owner: User) -> None:
    oldest = UnsavedForm.objects.filter(owner=owner, experiment=None).order_by("-kept_at", "-pk")
    keys = list(oldest.values_list("pk", flat=True)[UnsavedForm.MOST :])
    UnsavedForm.objects.filter(pk__in=keys).delete()


def forget_kept(owner: User, key: str) -> bool:
    """Delete what was kept under this key; return False if there was nothing."""
    count, _ = UnsavedForm.objects.filter(owner=owner, key=key[:40]).delete()
    return count > 0


def hash_values(values: Mapping[str, Any]) -> str:
    """Return a short hash of a draft's values by field, rows by their keys in any order."""
    plain = {
        name: sorted(str(_key(item)) for item in value)
        if isinstance(value, Sequence) and not isinstance(value, str) and name != "scales"
        else str(_key(value))
        for name, value in values.items()
    }
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


def hash_stored(draft: Experiment, fields: Sequence[str]) -> str:
    """Return the hash of the draft as it is stored now, its row locked."""
    stored = Experiment.objects.select_for_update().get(pk=draft.pk)
    return hash_values(model_to_dict(stored, fields) | describe_sweeps(stored))


def describe_sweeps(draft: Experiment) -> dict[str, Any]:
    """Return the values of a swept draft that are no fields of its row, as its form has them."""
    sweeps = {"workloads": list_chosen(draft), "sweeps": draft.sweeps} if draft.sweeps else {}
    # As text, because the order of the metrics matters.
    further = draft.further_metrics
    return sweeps | ({"further_metrics": str(further)} if further else {})


def _key(value: Any) -> Any:
    return value.pk if isinstance(value, Model) else value
