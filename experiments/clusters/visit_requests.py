"""Requests that one worker answers: how they are stored once, and given up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeVar

from django.db import IntegrityError, models, transaction
from django.utils import timezone

from runners.preflight.checks import Check

LONGEST = timedelta(minutes=5)
"""A request that has no answer by then has died with its worker."""
DIED = Check(
    "Connection",
    "Worker",
    "failed",
    "This was asked for, and no worker brought an answer.",
    "Do Redis and `manage.py worker` run? Then try again.",
)
ATTEMPTS = 3

Row = TypeVar("Row", bound=models.Model)


class NotStored(Exception):
    """The request could not be stored: what it is about was deleted meanwhile."""


def list_unanswered(under_way: models.QuerySet[Row]) -> models.QuerySet[Row]:
    """Return those requests under way that no worker will answer any more."""
    return under_way.filter(requested_at__lt=timezone.now() - LONGEST)


def find_under_way(rows: models.QuerySet[Row]) -> Row | None:
    """Return the request among `rows` that a worker may still answer; None if there is none."""
    late = timezone.now() - LONGEST
    return rows.filter(ended_at=None, requested_at__gte=late).first()


def read_newest(rows: models.QuerySet[Row], count: int) -> tuple[Row | None, list[Row]]:
    """Return the request under way, and the last `count` that have ended, the newest first.

    One query. `rows` are about one subject, of which at most one request has not ended.
    """
    return split_newest(list(select_newest(rows, count)), count)


def select_newest(rows: models.QuerySet[Row], count: int) -> models.QuerySet[Row]:
    """Select the request that has not ended, and the last `count` that have, the newest first."""
    by_end = rows.order_by(models.F("ended_at").desc(nulls_first=True), "-pk")
    return by_end[: count + 1]


def split_newest(newest: list[Row], count: int) -> tuple[Row | None, list[Row]]:
    """Return of what `select_newest` has selected the request under way, and those that ended."""
    late = timezone.now() - LONGEST
    rows: list[Any] = newest
    under_way = next((row for row in rows if not row.ended_at and row.requested_at >= late), None)
    return under_way, [row for row in rows if row.ended_at][:count]


def save_unless_under_way(row: Row, under_way: models.QuerySet[Row]) -> Row:
    """Store a request and return it, or the one in `under_way`: one at a time is enough.

    Raises NotStored.
    """
    for _ in range(ATTEMPTS):
        try:
            with transaction.atomic():
                row.save(force_insert=True)
        except IntegrityError:
            if stored := under_way.first():
                return stored
            # The other one has ended in between: there is room now, unless its subject is gone.
        else:
            return row
    raise NotStored
