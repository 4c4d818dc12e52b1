"""The audit log in words: what was changed, from what to what, and where its object is."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from experiments.access.audit import kind_of
from experiments.access.permissions import MAKERS
from experiments.models import AuditEntry, Cluster, Credential, Experiment, Image, User
from experiments.models.visibility import Visibility

KINDS = {kind_of(model): str(model._meta.verbose_name) for model in MAKERS}
PAGES: dict[str, Any] = {
    "cluster": Cluster.objects.visible_to,
    "credential": Credential.objects.usable_by,
    "experiment": Experiment.objects.visible_to,
    "image": Image.objects.visible_to,
}
"""Kinds with a page of their own, and who may see it."""


@dataclass(frozen=True)
class Told:
    """One field. Of a secret no value is known: only that there is one now."""

    field: str
    old: str
    new: str
    secret: bool = False


FIELDS = {"setup_lines": "set-up lines", "visibility": "readers"}
"""What forms call a field that is not called as its column."""


def told_of(entry: AuditEntry) -> list[Told]:
    """Return what an entry says, the name first."""
    found = []
    verb = "set" if entry.what == "added" else "changed"
    for name, change in sorted(entry.changes.items(), key=lambda item: (item[0] != "name", item)):
        field = FIELDS.get(name, name.replace("_", " "))
        if isinstance(change, list) and len(change) == 2:
            old, new = (_words(name, value) for value in change)
            found.append(Told(field, old, new))
        else:
            found.append(Told(field, "", verb, secret=True))
    return found


def _words(name: str, value: Any) -> str:
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    if name == "visibility":
        return dict(Visibility.choices).get(value, str(value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def pages_of(entries: Iterable[AuditEntry], reader: User) -> dict[int, str]:
    """Return the address of each entry's object by the entry's key, as far as `reader` sees it.

    One query for each kind, however many entries there are.
    """
    wanted: dict[str, dict[int, list[int]]] = {kind: {} for kind in PAGES}
    for entry in entries:
        if entry.kind in PAGES:
            wanted[entry.kind].setdefault(int(entry.object_pk), []).append(entry.pk)
        elif entry.cluster_pk:
            wanted["cluster"].setdefault(entry.cluster_pk, []).append(entry.pk)
    found: dict[int, str] = {}
    for kind, keys in wanted.items():
        if not keys:
            continue
        for pk in PAGES[kind](reader).filter(pk__in=keys).values_list("pk", flat=True):
            found |= dict.fromkeys(keys[pk], reverse(kind, args=[pk]))
    return found
