"""The audit log: every change of the catalogue, a credential, a cluster or a right is written here.

    with audit.log_change(user, row):  # "added" or "changed", with what changed
        form.save()
    audit.delete(user, row)

A change and its entry are one transaction: neither is kept without the other. No secret gets in:
of a `SecretField` or a password an entry says "changed", and nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from django.contrib.auth.models import AnonymousUser, Group
from django.core.exceptions import ObjectDoesNotExist
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models, transaction

from experiments.encryption import Secret, SecretField
from experiments.models import AuditEntry, Cluster, User
from experiments.models.checks import compute_fingerprint

SECRET = "changed"  # noqa: S105  (all that is said of one)
MOST_CHARACTERS = 2000  # of one value; of a longer one, its length and its hash
MOST_OF_A_NAME = 500

# Columns that nobody can edit are not logged, but for these two.
LOGGED_ALTHOUGH_NOT_EDITABLE = {"fingerprint", "recorded"}
LOGGED_BY_HASH = {"text"}  # of a published table: entries outlive what a person deletes
NEVER_LOGGED = {
    "last_login",
    "date_joined",
    "is_staff",
    "is_superuser",
}  # flags follow from the role

State = dict[str, Any]
Row = TypeVar("Row", bound=models.Model)


class RowDeleted(Exception):
    """What is to be saved was deleted by somebody else meanwhile."""


def get_stored(rows: models.QuerySet[Row], **columns: Any) -> Row:
    """Return the row of these that somebody has read before, as it is stored now.

    Raises RowDeleted, which tells that it is gone from a mistake in the search for a row.
    """
    try:
        return rows.get(**columns)
    except ObjectDoesNotExist as error:
        raise RowDeleted from error


@contextmanager
def log_change(
    by: User | AnonymousUser | None, row: models.Model, *, why: str = ""
) -> Iterator[None]:
    """Save `row` inside this block: what that changes is logged in the same transaction.

    `row` may be new; nothing is logged if nothing changes. Its values are compared as they are
    stored, so a form may have changed `row` itself before. Raises RowDeleted.
    """
    rows = type(row)._base_manager
    with transaction.atomic():
        # Without `no_key`, jobs and runs that refer to the row would wait to be written.
        stored = rows.select_for_update(no_key=True).filter(pk=row.pk).first()
        if stored is None and not row._state.adding:
            raise RowDeleted  # saved now, it would be there again
        before = read_values(stored)
        yield
        saved(by, rows.get(pk=row.pk), before, why=why)


def delete(by: User | AnonymousUser | None, row: models.Model, *, why: str = "") -> None:
    """Delete `row`, and log that in the same transaction, also of the parts that go with it."""
    with transaction.atomic():
        for part in _going_with(row):
            deleted(by, part, why=why)
        row.delete()


def note(
    by: User | AnonymousUser | None,
    what: str,
    row: models.Model,
    *,
    changes: dict[str, Any] | None = None,
    why: str = "",
) -> AuditEntry:
    """Write one entry. `by` is None for a command; `changes` come from `compare_values`."""
    return AuditEntry.objects.create(
        actor=by if isinstance(by, User) else None,
        what=what,
        kind=name_kind(row),
        object_pk=str(row.pk),
        name=str(row)[:MOST_OF_A_NAME],
        cluster_pk=row.pk if isinstance(row, Cluster) else getattr(row, "cluster_id", None),
        changes=changes or {},
        why=why,
    )


def saved(
    by: User | AnonymousUser | None, row: models.Model, before: State, *, why: str = ""
) -> AuditEntry | None:
    """Write an entry on what saving `row` has changed since `before`; None if nothing changed."""
    changed = compare_values(before, read_values(row))
    if before and not changed:
        return None
    return note(by, "changed" if before else "added", row, changes=changed, why=why)


def note_all(by: User, what: str, rows: Iterable[tuple[models.Model, dict[str, Any]]]) -> None:
    """Write an entry for each row with its changes, {field: [old, new]}, in one statement."""
    AuditEntry.objects.bulk_create(
        [
            AuditEntry(
                actor=by,
                what=what,
                kind=name_kind(row),
                object_pk=str(row.pk),
                name=str(row)[:MOST_OF_A_NAME],
                cluster_pk=getattr(row, "cluster_id", None),
                changes=compare_values(
                    {name: old for name, (old, _) in changes.items()},
                    {name: new for name, (_, new) in changes.items()},
                ),
            )
            for row, changes in rows
        ],
        batch_size=1000,
    )


def deleted(by: User | AnonymousUser | None, row: models.Model, *, why: str = "") -> AuditEntry:
    """Write an entry on the deletion of `row`, with its values. Call it before the deletion."""
    return note(by, "deleted", row, changes=compare_values(read_values(row), {}), why=why)


def keep(
    by: User | None,
    model: type[Row],
    *,
    why: str,
    defaults: dict[str, Any],
    first: dict[str, Any] | None = None,
    **known: Any,
) -> Row:
    """Update the row with the columns `known`, or create it, and log what that has changed.

    Columns in `first` are only set when the row is created: later they belong to people.
    """
    rows = model._default_manager
    with transaction.atomic():
        before = read_values(rows.filter(**known).first())
        row, _ = rows.update_or_create(
            defaults=defaults, create_defaults={**defaults, **(first or {})}, **known
        )
        saved(by, rows.get(pk=row.pk), before, why=why)
    return row


def _going_with(row: models.Model) -> list[models.Model]:
    """Return the rows that are deleted with `row` and have entries of their own, `row` last."""
    if isinstance(row, Cluster):
        return [*row.partitions.all(), *row.runtimes.all(), row]
    return [row]


def name_kind(row: models.Model | type[models.Model]) -> str:
    """Return the kind of `row` as entries name it: the model's name in lower case."""
    return str(row._meta.model_name)


def list_entries(row: models.Model) -> models.QuerySet[AuditEntry]:
    """Return the audit entries about one row."""
    entries = AuditEntry.objects.filter(kind=name_kind(row), object_pk=str(row.pk))
    return entries.select_related("actor")


def read_values(row: models.Model | None) -> State:
    """Return a stored row's values by field, to compare them. They include secrets: never store it.

    {} for None and for a row that has not been stored.
    """
    if row is None or row.pk is None or row._state.adding:
        return {}
    values: State = {}
    for field in row._meta.concrete_fields:
        if field.primary_key or field.name in NEVER_LOGGED:
            continue
        if field.editable or field.name in LOGGED_ALTHOUGH_NOT_EDITABLE:
            values[field.name] = _value(row, field)
    for many in row._meta.many_to_many:
        values[many.name] = sorted(str(other) for other in getattr(row, many.name).all())
    if isinstance(row, Group):
        values["members"] = sorted(row.user_set.values_list("username", flat=True))
    return values


def _value(row: models.Model, field: models.Field[Any, Any]) -> Any:
    if isinstance(field, models.ForeignKey):
        other = getattr(row, field.name)
        if other is None or isinstance(other, User):
            return other and str(other)
        return f"{other} ({other.pk})"  # names of some are not unique
    value = field.value_from_object(row)
    if field.name == "host_key":
        return compute_fingerprint(value)
    if isinstance(field, SecretField) or field.name == "password":
        return value if isinstance(value, Secret) else Secret(value or "")
    if field.name in LOGGED_BY_HASH and value:
        return _describe_by_hash(value)
    return value


def compare_values(before: State, after: State) -> dict[str, Any]:
    """Return {field: [old, new]} for values that differ, and {field: "changed"} for secrets.

    Values that are empty on both sides, or in a row that was just added, are left out.
    """
    differences: dict[str, Any] = {}
    for name in before.keys() | after.keys():
        old, new = before.get(name), after.get(name)
        if old == new or (not before and _empty(new)) or (not after and _empty(old)):
            continue
        secret = isinstance(old, Secret) or isinstance(new, Secret)
        differences[name] = SECRET if secret else [_short(old), _short(new)]
    return dict(sorted(differences.items()))


def _empty(value: Any) -> bool:
    return value is None or value == "" or value == [] or value == {} or value == Secret("")


def _short(value: Any) -> Any:
    """Return `value` as JSON can hold it; of a long one its length and its hash."""
    text = json.dumps(value, cls=DjangoJSONEncoder, sort_keys=True)
    return json.loads(text) if len(text) <= MOST_CHARACTERS else _describe_by_hash(text)


def _describe_by_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{len(text)} characters, sha256:{digest}"
