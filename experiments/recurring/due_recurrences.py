"""Which recurring experiments are to be launched now, and why the others are not."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from experiments.models import Experiment, Recurrence, RecurringExperiment
from experiments.statistics import numbers

RETRY = timedelta(hours=1)
"""What could not be launched is tried again no sooner."""
MOST_AT_ONCE = 200
"""Launches that the clock asks for in one round; the others follow a minute later."""


def list_due(now: datetime) -> list[int]:
    """Return those to be launched now, those first that were tried longest ago."""
    asked = Q(due_at__lte=now) | Q(requested_at__isnull=False)
    # What lies ahead was written before the clock was turned back.
    is_long_ago = Q(tried_at__lte=now - RETRY) | Q(tried_at__gt=now)
    may_be_tried = Q(problem="") | Q(tried_at=None) | is_long_ago
    rows = (
        RecurringExperiment.objects.filter(asked, may_be_tried, stopped_at=None)
        .filter(Q(ends_at=None) | Q(ends_at__gt=now), last_number__lt=F("most_recurrences"))
        .exclude(Exists(_list_living(OuterRef("pk"))))
        .order_by(F("tried_at").asc(nulls_first=True), "pk")
    )
    return list(rows.values_list("pk", flat=True)[:MOST_AT_ONCE])


def find_living(row: RecurringExperiment) -> Recurrence | None:
    """Return the recurrence with runs that have not ended: the next one waits for it."""
    return _list_living(row.pk).order_by("number").first()


def _list_living(recurring: OuterRef | int) -> QuerySet[Recurrence]:
    alive = Experiment.objects.alive().filter(pk=OuterRef("experiment"))
    return Recurrence.objects.filter(Exists(alive), recurring=recurring)


def move_due_time(due_at: datetime, days: int, now: datetime) -> datetime:
    """Return the next time after `now`, whole periods after `due_at`: what was missed is over."""
    period = timedelta(days=days)
    missed = max(math.floor((now - due_at) / period), 0)
    return due_at + (missed + 1) * period


def describe_state(row: RecurringExperiment, now: datetime) -> str:
    """Return a sentence on what happens next, or why nothing does."""
    if row.stopped_at:
        return f"Stopped by {row.stopped_by}: nothing of it is launched any more."
    if row.last_number >= row.most_recurrences:
        return f"Over: all {numbers.count(row.most_recurrences, 'recurrence')} were launched."
    if row.ends_at and row.ends_at <= now:
        return "Over: its end has come."
    is_due = row.requested_at is not None or (row.due_at is not None and row.due_at <= now)
    if is_due and (living := find_living(row)):
        return (
            f"The next recurrence is due. It waits until all runs of recurrence {living.number} "
            "have ended."
        )
    if row.problem:
        return "The next recurrence is due, and could not be launched. It is tried every hour."
    if is_due:
        return "The next recurrence is due: it is launched within a minute."
    if row.due_at:
        return "The next recurrence is launched at its time."
    return "It waits until somebody asks for the next recurrence."
