"""Runs in the order of a column, and what their rows show, a page or a file at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.cache import cache
from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Exists, F, FilteredRelation, OuterRef, Q, QuerySet, Subquery

from dashboard.execution.run_columns import Column
from dashboard.execution.run_conditions import Condition
from dashboard.execution.run_filters import (
    apply_conditions,
    compare_values,
    has_own_table,
    name_relation,
    select_values,
)
from dashboard.lists import RowGone, list_keys_after, order_rows
from experiments.execution.stored_values import FACT
from experiments.models import Measurement, Run, Snapshot

CHUNK = 2000
"""Rows of a file that are read at once."""
LONG, COUNT_SECONDS = 20_000, 20
"""A list of so many is counted only now and then: that takes as long as all the rest of it."""
OF_EVERY_ROW = (
    *("uid", "state", "reason", "exit_code"),
    *("began_at", "ended_at", "experiment_id"),
)
"""Fields of a run that each row has, whatever its columns."""


@dataclass(frozen=True)
class Value:
    """A measurement."""

    number: float
    unit: str


@dataclass(frozen=True)
class Row:
    """A run: fields of it by name, and the values of the chosen columns by their keys."""

    fields: dict[str, Any]
    values: dict[str, Any]


class RunsInOrder:
    """Runs in the order of a column; those without a value come last, whichever way it goes."""

    def __init__(
        self,
        visible: QuerySet[Run],
        conditions: Sequence[Condition],
        columns: Sequence[Column],
        sort: Column,
        *,
        descending: bool,
    ) -> None:
        self.visible = visible
        self.conditions = conditions
        self.rows = apply_conditions(visible, conditions)
        self.columns = columns
        self.sort = sort
        self.descending = descending

    def count(self) -> int:
        """Return how many there are; of a long list, how many there were some seconds ago."""
        try:
            statement = str(self.rows.order_by().values("pk").query)
        except EmptyResultSet:  # no run can fulfil these conditions
            return 0
        key = f"runs-{hashlib.sha256(statement.encode()).hexdigest()}"
        count: int | None = cache.get(key)
        if count is None:
            count = self.rows.count()
            if count >= LONG:
                cache.set(key, count, COUNT_SECONDS)
        return count

    def __getitem__(self, place: slice) -> list[Row]:
        return read_rows(self._list_keys(place.start, place.stop), self.columns)

    def iterate(self) -> Iterator[Row]:
        """Yield all rows, a few thousand at a time."""
        keys = self._list_keys(0, None)
        for start in range(0, len(keys), CHUNK):
            yield from read_rows(keys[start : start + CHUNK], self.columns)

    def _list_keys(self, start: int, stop: int | None) -> list[int]:
        if has_own_table(self.sort):
            return self._list_keys_by_value(start, stop)
        if self.sort.key.startswith(FACT):
            return self._list_keys_by_fact(start, stop)
        path = self.sort.sort_path
        expression = F(path) if path else self.sort.expression
        rows = order_rows(self.rows, expression, path or self.sort.path, descending=self.descending)
        return list(rows.values_list("pk", flat=True)[start:stop])

    def list_keys_after(self, after: int | None, count: int) -> list[int]:
        """Return the keys of `count` runs, those behind the run with the key `after`.

        Raises RowGone if that is not there, or not for this reader.
        """
        if has_own_table(self.sort):
            return self._list_keys_after_by_value(after, count)
        path = self.sort.sort_path
        return list_keys_after(
            self.rows,
            self.visible,
            F(path) if path else self.sort.expression,
            path or self.sort.path,
            descending=self.descending,
            after=after,
            count=count,
        )

    def _list_keys_after_by_value(self, after: int | None, count: int) -> list[int]:
        behind_value, behind_run = Q(), Q()
        has_value = True
        if after is not None:
            if not self.visible.filter(pk=after).exists():
                raise RowGone
            side = "lt" if self.descending else "gt"
            behind_run = Q(**{f"pk__{side}": after})
            last = select_values(self.sort).filter(run=after)
            has_value = last.exists()
            if has_value:
                # Compared where it stands: on the way to Python and back it might lose digits.
                limit = Subquery(last.order_by().values("value"))
                further = Q(**{f"sorted_by__value__{side}": limit})
                behind_value = Q(**{f"sorted_by__value__{side}e": limit})
                behind_value &= further | Q(sorted_by__value=limit) & behind_run
                behind_run = Q()
        keys = list(self._select_with_value(behind_value)[:count]) if has_value else []
        if len(keys) < count and not self._limits:
            keys += self._select_without_value().filter(behind_run)[: count - len(keys)]
        return keys

    @property
    def _limits(self) -> list[Condition]:
        """Return the conditions on the column by which runs are sorted."""
        return [row for row in self.conditions if row.column == self.sort and row.is_limit]

    def _select_with_value(self, behind: Q) -> Any:
        """Return the keys of runs that have the metric or parameter, by the index on its values.

        Conditions on the same column say where in the index to begin.
        """
        relation, name = name_relation(self.sort)
        of_column = Q(**{f"{relation}__{name}": self.sort.name})
        others = [row for row in self.conditions if row not in self._limits]
        runs = apply_conditions(self.visible, others)
        runs = runs.alias(sorted_by=FilteredRelation(relation, condition=of_column))
        # In one call: another one would join the values once more.
        limits = [compare_values(row, "sorted_by__") for row in self._limits]
        runs = runs.filter(behind, *limits, sorted_by__value__isnull=False)
        order = ("-sorted_by__value", "-pk") if self.descending else ("sorted_by__value", "pk")
        return runs.order_by(*order).values_list("pk", flat=True)

    def _select_without_value(self) -> Any:
        """Return the keys of runs that do not have the metric or parameter."""
        values = select_values(self.sort).filter(run=OuterRef("pk"))
        runs = self.rows.filter(~Exists(values))
        return runs.order_by("-pk" if self.descending else "pk").values_list("pk", flat=True)

    def _list_keys_by_value(self, start: int, stop: int | None) -> list[int]:
        """Return keys by the index on values, then those of runs that have none.

        One statement for both would read and sort all runs.
        """
        with_value = self._select_with_value(Q())
        keys = list(with_value[start:stop])
        if self._limits or (stop is not None and len(keys) == stop - start):
            return keys
        passed = start + len(keys) if keys or not start else with_value.count()
        begin = max(start - passed, 0)
        end = None if stop is None else stop - passed
        return keys + list(self._select_without_value()[begin:end])

    def _list_keys_by_fact(self, start: int, stop: int | None) -> list[int]:
        """Return keys by a fact, which is read once a snapshot: many runs share one."""
        way = "DESC" if self.descending else "ASC"
        rows = self.rows.order_by().values("pk", "snapshot_id")
        try:
            runs, parameters = rows.query.sql_with_params()
        except EmptyResultSet:  # no run can fulfil these conditions
            return []
        # Parts of it are names of tables, and what Django wrote.
        statement = "\n".join(
            (
                "WITH facts AS MATERIALIZED (SELECT id, facts ->> %s AS value",
                f"FROM {Snapshot._meta.db_table}), runs(id, snapshot_id) AS ({runs})",
                "SELECT runs.id FROM runs LEFT JOIN facts ON facts.id = runs.snapshot_id",
                f"ORDER BY facts.value {way} NULLS LAST, runs.id {way} LIMIT %s OFFSET %s",
            )
        )
        limit = None if stop is None else stop - start
        with connection.cursor() as cursor:
            cursor.execute(statement, [self.sort.name, *parameters, limit, start])
            return [key for (key,) in cursor.fetchall()]


def read_rows(keys: Sequence[int], columns: Sequence[Column]) -> list[Row]:
    """Return the runs of these keys, in their order, with the values of the columns."""
    others = [column for column in columns if column.kind != "metric"]
    computed = {column.key: column.expression for column in others if not column.path}
    paths = {column.key: column.path for column in others if column.path}
    names = dict.fromkeys(("pk", *OF_EVERY_ROW, *paths.values()))
    selected = Run.objects.filter(pk__in=keys).order_by().values_list(*names, *computed.values())
    rows_by_key = {row[0]: dict(zip((*names, *computed), row, strict=True)) for row in selected}
    metrics = {column.name: column.key for column in columns if column.kind == "metric"}
    measured: dict[int, dict[str, Value]] = {}
    if metrics:
        rows = Measurement.objects.filter(run__in=keys, metric__in=list(metrics)).order_by()
        for run, metric, value, unit in rows.values_list("run_id", "metric", "value", "unit"):
            measured.setdefault(run, {})[metrics[metric]] = Value(value, unit)
    places = [(key, paths.get(key, key)) for key in (column.key for column in others)]
    return [
        Row(
            {name: row[name] for name in OF_EVERY_ROW},
            measured.get(key, {}) | {name: row[place] for name, place in places},
        )
        for key in keys
        if (row := rows_by_key.get(key))  # unless it was deleted in between
    ]
