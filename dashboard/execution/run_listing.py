"""The list of runs: its state out of the address, and the rows in that order, a page at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.cache import cache
from django.core.exceptions import EmptyResultSet
from django.core.paginator import Page, Paginator
from django.db import connection
from django.db.models import Exists, F, FilteredRelation, OuterRef, Q, QuerySet
from django.http import QueryDict

from dashboard.execution.run_columns import (
    FACT,
    Column,
    Columns,
    choose_columns,
    list_columns,
    shorten,
)
from dashboard.execution.run_conditions import (
    Condition,
    apply_conditions,
    make_condition,
    read_conditions,
)
from dashboard.lists import RowGone, list_keys_after, order_rows
from dashboard.typed_requests import Request, parse_whole_number
from experiments.models import Cluster, Experiment, Measurement, Run, Snapshot, User

PER_PAGE = 100
USUAL_SORT = "-began"
CHUNK = 2000
"""Rows of a file that are read at once."""
LONG, COUNT_SECONDS = 20_000, 20
"""A list of so many is counted only now and then: that takes as long as all the rest of it."""
OLDER = {"state": "=", "workload": "~", "environment": "~"}
"""Filters as addresses wrote them before, with the comparison that each stood for."""
ARCHIVED = ("", "only", "all")
"""Which experiments' runs are listed, by whether they are archived; usually those that are not."""
KEPT = ("q", *OLDER, "cluster", "where", "column", "sort", "tag", "archived")
"""What the address of a list holds beside the page."""
OF_EVERY_ROW = {
    "uid": "uid",
    "state": "state",
    "reason": "reason",
    "exit_code": "exit_code",
    "began_at": "began_at",
    "ended_at": "ended_at",
    "experiment_id": "experiment_id",
}


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
        if self.sort.kind == "metric":
            return self._list_keys_by_metric(start, stop)
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
        if self.sort.kind == "metric":
            return self._list_keys_after_by_metric(after, count)
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

    def _list_keys_after_by_metric(self, after: int | None, count: int) -> list[int]:
        behind_value, behind_run = Q(), Q()
        is_measured = True
        if after is not None:
            if not self.visible.filter(pk=after).exists():
                raise RowGone
            side = "lt" if self.descending else "gt"
            behind_run = Q(**{f"pk__{side}": after})
            last = Measurement.objects.filter(run=after, metric=self.sort.name)
            value = last.values_list("value", flat=True).first()
            is_measured = value is not None
            if is_measured:
                further = Q(**{f"sorted_by__value__{side}": value})
                behind_value = Q(**{f"sorted_by__value__{side}e": value})
                behind_value &= further | Q(sorted_by__value=value) & behind_run
                behind_run = Q()
        keys = list(self._select_measured(behind_value)[:count]) if is_measured else []
        if len(keys) < count and not self._limits:
            keys += self._select_unmeasured().filter(behind_run)[: count - len(keys)]
        return keys

    @property
    def _limits(self) -> list[Condition]:
        """Return the conditions on the metric by which runs are sorted."""
        return [row for row in self.conditions if row.column == self.sort and row.is_limit]

    def _select_measured(self, behind: Q) -> Any:
        """Return the keys of runs that have the metric, by the index on measurements.

        Conditions on the same metric say where in the index to begin.
        """
        metric = Q(measurements__metric=self.sort.name)
        others = [row for row in self.conditions if row not in self._limits]
        measured = apply_conditions(self.visible, others)
        measured = measured.alias(sorted_by=FilteredRelation("measurements", condition=metric))
        # In one call: another one would join measurements once more.
        limit = [row.compare_metric("sorted_by__") for row in self._limits]
        measured = measured.filter(behind, *limit, sorted_by__isnull=False)
        order = ("-sorted_by__value", "-pk") if self.descending else ("sorted_by__value", "pk")
        return measured.order_by(*order).values_list("pk", flat=True)

    def _select_unmeasured(self) -> Any:
        """Return the keys of runs that do not have the metric."""
        has_value = Measurement.objects.filter(run=OuterRef("pk"), metric=self.sort.name)
        unmeasured = self.rows.filter(~Exists(has_value))
        return unmeasured.order_by("-pk" if self.descending else "pk").values_list("pk", flat=True)

    def _list_keys_by_metric(self, start: int, stop: int | None) -> list[int]:
        """Return keys by the index on measurements, then those of runs that have none.

        One statement for both would read and sort all runs.
        """
        measured = self._select_measured(Q())
        keys = list(measured[start:stop])
        if self._limits or (stop is not None and len(keys) == stop - start):
            return keys
        passed = start + len(keys) if keys or not start else measured.count()
        begin = max(start - passed, 0)
        end = None if stop is None else stop - passed
        return keys + list(self._select_unmeasured()[begin:end])

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
    expressions = {
        f"column_{number}": column.expression
        for number, column in enumerate(columns)
        if column.kind != "metric"
    }
    wanted = {f"row_{name}": F(path) for name, path in OF_EVERY_ROW.items()}
    found: dict[int, dict[str, Any]] = {
        row["pk"]: dict(row)
        for row in Run.objects.filter(pk__in=keys).order_by().values("pk", **wanted, **expressions)
    }
    metrics = {column.name: column.key for column in columns if column.kind == "metric"}
    measured: dict[int, dict[str, Value]] = {}
    if metrics:
        rows = Measurement.objects.filter(run__in=keys, metric__in=list(metrics)).order_by()
        for run, metric, value, unit in rows.values_list("run_id", "metric", "value", "unit"):
            measured.setdefault(run, {})[metrics[metric]] = Value(value, unit)
    return [
        Row(
            {name: row[f"row_{name}"] for name in OF_EVERY_ROW},
            measured.get(key, {})
            | {
                column.key: row[f"column_{number}"]
                for number, column in enumerate(columns)
                if column.kind != "metric"
            },
        )
        for key in keys
        if (row := found.get(key))  # unless it was deleted in between
    ]


@dataclass(frozen=True)
class RunList:
    """The list as an address asks for it; what makes no sense is left out, and said."""

    user: User
    query: QueryDict
    offered: Columns
    columns: list[Column]
    conditions: list[Condition]
    sort: str
    problems: list[str]
    left_out: list[str]
    """The sentences of `problems` on filters: what they ask for is not left out of the list."""
    picked: frozenset[str] | None = None
    """The uids of the only runs of it; None for all."""
    experiment: int | None = None
    """The key of the only experiment whose runs are listed; None for all."""

    @property
    def search_text(self) -> str:
        return self.query.get("q", "").strip()

    @property
    def tags(self) -> list[str]:
        """Return the tags that the runs' experiments have, all of them: at most one too many."""
        tags = dict.fromkeys(tag.strip() for tag in self.query.getlist("tag"))
        return [tag for tag in tags if tag][: Experiment.MOST_TAGS + 1]

    @property
    def archived(self) -> str:
        """Return "only" for runs of archived experiments, "all" for those of others as well."""
        return self.query.get("archived", "")

    @property
    def runs(self) -> RunsInOrder:
        """Return the runs that the reader may see and that fulfil all conditions."""
        visible = Experiment.objects.visible_to(self.user)
        if tags := self.tags:
            visible = visible.filter(tags__contains=tags)
        if self.archived != "all":
            visible = visible.filter(archived_at__isnull=self.archived != "only")
        rows = Run.objects.filter(experiment__in=visible)
        if self.experiment is not None:
            rows = rows.filter(experiment=self.experiment)
        if self.picked is not None:
            rows = rows.filter(uid__in=self.picked)
        if text := self.search_text:
            # Experiments first: with their keys PostgreSQL uses the indexes on runs for both.
            asking = list(visible.filter(question__icontains=text).values_list("pk", flat=True))
            rows = rows.filter(Q(uid__startswith=text.lower()) | Q(experiment__in=asking))
        cluster = parse_whole_number(self.query.get("cluster", ""))
        if cluster is not None and any(row.query[0] == "cluster" for row in self.conditions):
            rows = rows.filter(experiment__cluster=cluster)
        others = [row for row in self.conditions if row.query[0] != "cluster"]
        column = self.offered.get(self.sort.removeprefix("-"))
        assert column  # which `read_run_list` has looked for
        return RunsInOrder(
            rows,
            others,
            self.columns,
            column,
            descending=self.sort.startswith("-"),
        )

    def get_page(self) -> Page[Row]:
        paginator: Paginator[Row] = Paginator(self.runs, PER_PAGE)  # type: ignore[arg-type]
        return paginator.get_page(self.query.get("page"))

    def list_units(self) -> dict[str, list[str]]:
        """Return the units of the values in each column of a file, by the columns' keys.

        Programs may report one metric in several; what a workload declares need not be in the list.
        """
        units = {column.key: ["s"] for column in self.columns if column.kind == "duration"}
        metrics = {column.name: column for column in self.columns if column.kind == "metric"}
        if not metrics:
            return units
        measured = Measurement.objects.filter(run__in=self.runs.rows, metric__in=list(metrics))
        pairs = measured.order_by().values_list("metric", "unit").distinct()
        for metric, unit in sorted(pairs):
            units.setdefault(metrics[metric].key, []).append(unit)
        return {column.key: [column.unit] for column in metrics.values()} | units

    @property
    def is_filtered(self) -> bool:
        return bool(self.conditions or self.search_text or self.tags or self.archived)


def read_run_list(
    request: Request, query: QueryDict | None = None, offered: Columns | None = None
) -> RunList:
    """Return the list of this state, that of the request's address if none is given.

    `offered` are the columns that it may name, usually all that have a meaning for the reader.
    """
    query = request.GET if query is None else query
    offered = list_columns(request.user) if offered is None else offered
    columns, problems = choose_columns(query.getlist("column"), offered)
    conditions, more_problems = read_conditions(query.getlist("where"), offered)
    older, older_problems = _read_older_filters(request.user, query, offered)
    sort = query.get("sort", USUAL_SORT)
    left_out = more_problems + older_problems
    problems += left_out
    if offered.get(sort.removeprefix("-")) is None:
        problems.append(f"There is no column “{shorten(sort)}” to sort by.")
        sort = USUAL_SORT
    return RunList(
        request.user, query, offered, columns, older + conditions, sort, problems, left_out
    )


def _read_older_filters(
    user: User, query: QueryDict, offered: Columns
) -> tuple[list[Condition], list[str]]:
    """Return the conditions of addresses of before, such as `?state=failed`."""
    conditions, problems = [], []
    for name, operator in OLDER.items():
        column, text = offered.get(name), query.get(name, "")
        if not text or column is None:
            continue
        try:
            conditions.append(make_condition(column, operator, text, (name, text)))
        except ValueError as error:
            problems.append(f"The filter “{name}={shorten(text)}” is left out: {error}.")
    if text := query.get("cluster", ""):
        key, column = parse_whole_number(text), offered.get("cluster")
        row = Cluster.objects.visible_to(user).filter(pk=key).first() if key else None
        if row and column:
            conditions.append(Condition(column, "=", row.name, row.name, ("cluster", text)))
        else:
            problems.append(f"The filter “cluster={shorten(text)}” is left out: there is no such.")
    if (text := query.get("archived", "")) not in ARCHIVED:
        problems.append(
            f"The filter “archived={shorten(text)}” is left out: it is “only” or “all”."
        )
    return conditions, problems


def keep_state(query: QueryDict) -> QueryDict:
    """Return what an address says about the list, without the page and what is unknown."""
    kept = QueryDict(mutable=True)
    for name in KEPT:
        if values := [value for value in query.getlist(name) if value]:
            kept.setlist(name, values)
    return kept
