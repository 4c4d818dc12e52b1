"""Long tables of the database, read some rows at a time without a cursor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from django.db.models import Model, QuerySet

Row = TypeVar("Row", bound=Model)


def iterate_values(
    rows: QuerySet[Any], keys: Sequence[int], fields: Sequence[Any], at_once: int
) -> Iterator[tuple[Any, ...]]:
    """Yield the values of the fields for the rows of these keys, in the order of the keys.

    `QuerySet.iterator()` outside of a transaction makes PostgreSQL write all rows into temporary
    files before the first one. Here it sorts keys alone and holds `at_once` rows. Rows that were
    deleted in between are left out.
    """
    for start in range(0, len(keys), at_once):
        part = keys[start : start + at_once]
        values = rows.filter(pk__in=part).order_by().values_list("pk", *fields)
        by_key = {key: row for key, *row in values}
        yield from (tuple(by_key[key]) for key in part if key in by_key)


def iterate_rows(rows: QuerySet[Any, Row], at_once: int) -> Iterator[Row]:
    """Yield the rows in their order as `iterate_values` does, as objects."""
    keys = list(rows.values_list("pk", flat=True))
    for start in range(0, len(keys), at_once):
        part = keys[start : start + at_once]
        by_key = {row.pk: row for row in rows.filter(pk__in=part).order_by()}
        yield from (by_key[key] for key in part if key in by_key)
