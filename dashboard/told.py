"""The audit log in words: what was changed, from what to what, and where its object is."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from experiments.audit import kind_of
from experiments.models import AuditEntry, Cluster, Credential, Experiment, Image, User
from experiments.permissions import MAKERS

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
    """One field. Of a secret neither the old value nor the new one is known."""

    field: str
    old: str
    new: str
    secret: bool = False


def told_of(entry: AuditEntry) -> list[Told]:
    found = []
    for name, change in entry.changes.items():
        field = name.replace("_", " ")
        if isinstance(change, list) and len(change) == 2:
            found.append(Told(field, _words(change[0]), _words(change[1])))
        else:
            found.append(Told(field, "", "", secret=True))
    return found


def _words(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
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
