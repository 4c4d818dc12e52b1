"""Audit entries as readable field changes, and the pages of the objects that they are about."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from experiments.access.audit import name_kind
from experiments.access.permissions import MAKERS
from experiments.models import (
    AuditEntry,
    Cluster,
    Credential,
    Experiment,
    Image,
    ImageImport,
    Operation,
    User,
)
from experiments.models.visibility import Visibility

KINDS = {name_kind(model): str(model._meta.verbose_name) for model in MAKERS}
RENAMED_KINDS = {"arrival": name_kind(ImageImport), "chore": name_kind(Operation)}
"""Kinds of entries from before a model was renamed, which nobody can rewrite, and today's."""
PAGES: dict[str, Any] = {
    "cluster": Cluster.objects.visible_to,
    "credential": Credential.objects.usable_by,
    "experiment": Experiment.objects.visible_to,
    "image": Image.objects.visible_to,
}
"""Kinds with a page of their own, and who may see it."""


def describe_kind(kind: str) -> str:
    """Return what pages call a kind; that of a model that is gone keeps its own name."""
    return KINDS.get(RENAMED_KINDS.get(kind, kind), kind)


def list_stored_kinds(kind: str) -> list[str]:
    """Return the kind, and those under which its entries were stored before."""
    return [kind, *(old for old, new in RENAMED_KINDS.items() if new == kind)]


@dataclass(frozen=True)
class FieldChange:
    """One changed field; of a secret no value is known, only that there is one now."""

    field: str
    old: str
    new: str
    secret: bool = False


FIELDS = {"setup_lines": "set-up lines"}
"""What forms call a field that is not called as its column."""


def describe_changes(entry: AuditEntry) -> list[FieldChange]:
    """Return the changed fields of an entry, the name first."""
    field_changes = []
    verb = "set" if entry.what == "added" else "changed"
    for name, change in sorted(entry.changes.items(), key=lambda item: (item[0] != "name", item)):
        field = FIELDS.get(name, name.replace("_", " "))
        if isinstance(change, list) and len(change) == 2:
            old, new = (_describe_value(name, value) for value in change)
            field_changes.append(FieldChange(field, old, new))
        else:
            field_changes.append(FieldChange(field, "", verb, secret=True))
    return field_changes


def _describe_value(name: str, value: Any) -> str:
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if name == "visibility":
        return dict(Visibility.choices).get(value, str(value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def find_pages(entries: Iterable[AuditEntry], reader: User) -> dict[int, str]:
    """Return the address of each entry's object by the entry's key, as far as `reader` sees it.

    One query for each kind, however many entries there are.
    """
    keys_by_kind: dict[str, dict[int, list[int]]] = {kind: {} for kind in PAGES}
    for entry in entries:
        if entry.kind in PAGES:
            keys_by_kind[entry.kind].setdefault(int(entry.object_pk), []).append(entry.pk)
        elif entry.cluster_pk:
            keys_by_kind["cluster"].setdefault(entry.cluster_pk, []).append(entry.pk)
    addresses: dict[int, str] = {}
    for kind, entries_by_key in keys_by_kind.items():
        if not entries_by_key:
            continue
        for pk in PAGES[kind](reader).filter(pk__in=entries_by_key).values_list("pk", flat=True):
            addresses |= dict.fromkeys(entries_by_key[pk], reverse(kind, args=[pk]))
    return addresses
