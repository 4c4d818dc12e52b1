"""The right to view one row that has been read, found without a query in most cases.

The rules are those of the models, `visible_to`. They hold for lists, and PostgreSQL takes up to
20 ms to plan the longest of them, which no page that asks every few seconds can spend. What the
columns of a row show follows from them, and never more (tests/experiments/access/test_viewing.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from django.contrib.auth.models import AnonymousUser
from django.db import models

from experiments.models import (
    Cluster,
    DataSet,
    Environment,
    Experiment,
    Image,
    Operation,
    Study,
    User,
)
from experiments.models.visibility import Visibility

Row = TypeVar("Row", bound=models.Model)

OPEN = (Visibility.MEMBERS, Visibility.PUBLIC)
SHOWN_ALONE = (Experiment, Study, Image, DataSet)
"""Whose rule reads nothing but the row, its groups and its links."""


def may_view(user: User | AnonymousUser, row: models.Model) -> bool:
    """Return whether `user` may view `row`; no query where its columns show it."""
    if is_plainly_visible(user, row):
        return True
    rows: Any = type(row)._default_manager
    return bool(rows.visible_to(user).filter(pk=row.pk).exists())


def list_shown(user: User | AnonymousUser, rows: Sequence[Row]) -> list[Row]:
    """Return those of `rows`, all of one model, that `user` may view, in their order.

    One query for those whose columns do not show it.
    """
    others = {row.pk for row in rows if not is_plainly_visible(user, row)}
    shown = set[int]()
    if others:
        model: Any = type(rows[0])._default_manager
        rule = model.visible_to(user).filter(pk__in=others)
        shown.update(rule.values_list("pk", flat=True))
    return [row for row in rows if row.pk in shown or row.pk not in others]


def is_plainly_visible(user: User | AnonymousUser, row: models.Model) -> bool:
    """Return whether the columns of a row, and of those that it names, open it to `user`; no query.

    False says nothing: of groups, of links and of imported logs only the rule knows.
    """
    if not isinstance(user, User):
        return False
    if user.is_superuser:
        return True
    if isinstance(row, SHOWN_ALONE):
        return _is_open(user, row)
    if isinstance(row, Cluster):
        return row.owner_id == user.pk if row.recorded else _is_open(user, row)
    if isinstance(row, Environment):
        is_original = row.copy_of_id is None
        return is_original and _is_open(user, row) and is_plainly_visible(user, row.cluster)
    if isinstance(row, Operation):
        is_own = row.owner_id == user.pk
        return is_own or (is_plainly_visible(user, row.cluster) and _is_subject_visible(user, row))
    return False


def _is_open(user: User, row: Any) -> bool:
    return row.visibility in OPEN or row.owner_id == user.pk


def _is_subject_visible(user: User, row: Operation) -> bool:
    """Return whether columns open what an operation works on to `user`."""
    if row.kind == Operation.Kind.CLEAN_UP:
        return True
    if row.data_copy is not None:
        return is_plainly_visible(user, row.data_copy.data_set)
    image = row.image_of()
    has_open_image = image is not None and is_plainly_visible(user, image)
    if row.environment is None:
        return has_open_image
    images = (row.image_id, row.staged_image_id, row.image_import_id)
    names_no_image = all(key is None for key in images)
    return (names_no_image or has_open_image) and is_plainly_visible(user, row.environment)
