"""Recurring experiments as the overview lists them: what needs a look comes first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import F, OuterRef, Q, Subquery
from django.db.models.functions import JSONObject

from experiments.models import Recurrence, RecurringExperiment, User
from experiments.statistics import numbers

MOST_READ = 100
"""Of more the newest are looked at."""
FAR = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class LatestRecurrence:
    """A recurring experiment that goes on, and what its newest values show."""

    recurring: RecurringExperiment
    number: int
    """Of the newest recurrence with values; 0 where none has any."""
    outside: int
    """How many charts that one has left."""

    @property
    def needs_attention(self) -> bool:
        return bool(self.outside or self.recurring.problem)

    @property
    def text(self) -> str:
        """Return the state in words."""
        if self.recurring.problem:
            return "not launched"
        if self.outside:
            charts = numbers.count(self.outside, "chart")
            return f"recurrence {self.number} is outside of the limits of {charts}"
        if self.number:
            return f"recurrence {self.number}: nothing outside of limits"
        return "no values yet"


def list_latest(user: User, now: datetime, most: int) -> list[LatestRecurrence]:
    """Return those that go on and that `user` may view, at most so many; one statement.

    First those that were not launched or are outside of limits, then those that are due next.
    """
    noted = Recurrence.objects.filter(
        recurring=OuterRef("pk"), points__isnull=False, reported__isnull=False
    ).order_by("-number")
    rows = (
        RecurringExperiment.objects.visible_to(user)
        .filter(Q(ends_at=None) | Q(ends_at__gt=now), stopped_at=None)
        .filter(last_number__lt=F("most_recurrences"))
        .annotate(
            newest=Subquery(
                noted.values(found=JSONObject(number="number", reported="reported"))[:1]
            )
        )
        .order_by("-created_at", "-pk")[:MOST_READ]
    )
    latest = [
        LatestRecurrence(row, newest.get("number", 0), len(newest.get("reported") or ()))
        for row in rows
        for newest in [row.newest or {}]
    ]
    latest.sort(key=lambda each: (not each.needs_attention, each.recurring.due_at or FAR))
    return latest[:most]
