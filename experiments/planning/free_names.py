"""Names that no other row has: with a number after them, "cnn (2)", where they are taken."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from experiments.models import Workload

LONGEST_NAME = 100
MOST_ATTEMPTS = 5
ROOM = 10
"""Characters that the longest number takes."""


def add_number(name: str, taken: Container[str]) -> str:
    """Return the name, with a number if it is taken: "alexnet (2)"; cut to what a name may have."""
    number, free = 1, name[:LONGEST_NAME]
    while free in taken:
        number += 1
        end = f" ({number})"
        free = name[: LONGEST_NAME - len(end)] + end
    return free


def find_free_name(
    preferred: str, taken: Iterable[str] = (), *, among: QuerySet[Any] | None = None
) -> str:
    """Return `preferred`, with a number after it if another row has that name already.

    Rows are those of `among`, or all workloads; of names in `taken` rows are still to be made.
    """
    rows = Workload.objects.all() if among is None else among
    alike = rows.filter(name__startswith=preferred[: LONGEST_NAME - ROOM])
    return add_number(preferred, {*taken, *alike.order_by().values_list("name", flat=True)})


def save_under_free_name(row: Any, save: Callable[[], Any], *, among: QuerySet[Any]) -> None:
    """Have `save` store a new row, under a name with a number if a row of `among` has its own.

    If somebody takes the name between the question and the answer, the next one is taken.
    """
    preferred = row.name
    for attempt in range(MOST_ATTEMPTS):
        row.name = find_free_name(preferred, among=among)
        try:
            with transaction.atomic():
                save()
            return
        except IntegrityError:
            is_race = among.filter(name=row.name).exists()
            if not is_race or attempt == MOST_ATTEMPTS - 1:
                raise
