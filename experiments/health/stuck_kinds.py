"""A reason for which rows do not go on, and the rows of which it is true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

MOST_SHOWN = 10  # rows of a kind


@dataclass(frozen=True)
class Row:
    """Something that does not go on, with its page."""

    text: str
    url: str
    since: datetime | None
    details: str = ""


@dataclass(frozen=True)
class Stuck:
    """Rows that do not go on for one reason."""

    title: str
    advice: str
    count: int
    rows: tuple[Row, ...]

    @property
    def more(self) -> int:
        """Return how many there are beside the rows that are shown."""
        return self.count - len(self.rows)


@dataclass(frozen=True)
class Kind:
    """One reason for which rows do not go on, and how they are found."""

    title: str
    advice: str
    rows: QuerySet[Any]
    describe: Callable[[Any], Row]

    def read(self) -> Stuck:
        """Return the first rows, and how many there are; one statement where there are few."""
        shown = [self.describe(row) for row in self.rows[: MOST_SHOWN + 1]]
        count = len(shown) if len(shown) <= MOST_SHOWN else self.rows.order_by().count()
        return Stuck(self.title, self.advice, count, tuple(shown[:MOST_SHOWN]))
