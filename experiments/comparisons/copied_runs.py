"""Runs, measurements and series of all experiments as tables, by COPY, a part at a time.

Each part is one statement for runs between two keys: PostgreSQL keeps nothing while a reader is
slow (decision 0134), and memory stays the same however many runs there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import BooleanField, ExpressionWrapper, F, Max, Q, QuerySet

from experiments.comparisons.joined_series import read_joined_series
from experiments.comparisons.run_tables import (
    ABOUT_RUN,
    METRIC,
    NODE,
    SOURCE,
    STEP,
    UNIT,
    VALUE,
)
from experiments.comparisons.typed_tables import (
    Batch,
    CopiedTable,
    Copy,
    TypedColumn,
    TypedTable,
)
from experiments.models import Measurement, Run, Series

RUNS_AT_ONCE = 25_000
MEASURED_AT_ONCE = 10_000
"""Runs whose measurements are read at once."""
SERIES_OF_RUNS = 2_000
"""Runs whose series are looked up at once; how many are read at once is for `joined_series`."""
EXPERIMENT = TypedColumn("experiment", "whole", about="the number in its address")
COLUMNS = (
    *ABOUT_RUN,
    EXPERIMENT,
    TypedColumn("question"),
    TypedColumn("cluster"),
    TypedColumn("is_baseline", "flag"),
    TypedColumn("reason"),
    TypedColumn("message"),
    TypedColumn("exit_code", "whole"),
    NODE,
    TypedColumn("began_at", "time"),
    TypedColumn("ended_at", "time"),
    TypedColumn("attempt", "whole"),
    TypedColumn("scheduler_id"),
)
PLACES: dict[str, Any] = {
    "run": "uid",
    "job": "job__uid",
    "block": F("job__block") + 1,
    "workload": "workload__name",
    "environment": "environment__name",
    "question": "experiment__question",
    "cluster": "job__cluster__name",
    "is_baseline": ExpressionWrapper(
        Q(environment=F("experiment__baseline")), output_field=BooleanField()
    ),
    "attempt": "job__attempt",
    "scheduler_id": "job__scheduler_id",
}
"""Where columns are that are not fields of runs with the same name."""
Metric = tuple[str, str]
"""Its name and its unit."""


def list_metrics(runs: QuerySet[Run], names: Sequence[str] = ()) -> list[Metric]:
    """Return the metrics that these runs have, in order; of these names alone, if there are any."""
    rows = Measurement.objects.filter(run__in=runs.order_by())
    rows = rows.filter(metric__in=names) if names else rows
    return list(rows.order_by("metric", "unit").values_list("metric", "unit").distinct())


def copy_runs(runs: QuerySet[Run], metrics: Sequence[Metric]) -> CopiedTable:
    """Return a row for each run with a column for each metric, in the order of the keys."""
    numbers = [TypedColumn(f"{name} ({unit})", "number", unit) for name, unit in metrics]
    columns = [*COLUMNS, *numbers]
    picked = "".join(
        f", max(value) FILTER (WHERE metric = %s AND unit = %s) AS value{number}"
        for number in range(len(metrics))
    )
    named = [text for metric in metrics for text in metric]

    def list_parts() -> Iterator[tuple[str, list[Any]]]:
        for first, last in _list_ranges(runs, RUNS_AT_ONCE):
            part = runs.filter(pk__gt=first, pk__lte=last).order_by()
            sql, parameters = _name_columns(part, COLUMNS, "").query.sql_with_params()
            if not metrics:
                yield f"{sql} ORDER BY 1", [*parameters]
                continue
            shown = "".join(f", numbers.value{number}" for number in range(len(metrics)))
            yield (
                f"SELECT runs.*{shown} FROM ({sql}) AS runs LEFT JOIN (SELECT run_id{picked} "  # noqa: S608
                f"FROM {Measurement._meta.db_table} WHERE run_id > %s AND run_id <= %s "
                "GROUP BY run_id) AS numbers ON numbers.run_id = runs.row_key ORDER BY 1",
                [*parameters, *named, first, last],
            )

    return _copy(columns, list_parts())


def copy_measurements(runs: QuerySet[Run]) -> CopiedTable:
    """Return a row for each measurement of each run."""
    about = (*ABOUT_RUN, EXPERIMENT, NODE)
    columns = (*about, METRIC, VALUE, UNIT, SOURCE)

    def list_parts() -> Iterator[tuple[str, list[Any]]]:
        for first, last in _list_ranges(runs, MEASURED_AT_ONCE):
            rows = Measurement.objects.filter(
                run__in=runs.order_by(), run_id__gt=first, run_id__lte=last
            )
            own = ("metric", "value", "unit", "source")
            sql, parameters = _name_columns(rows, about, "run__", own).query.sql_with_params()
            yield f"{sql} ORDER BY 1", [*parameters]

    return _copy(columns, list_parts())


def copy_series(runs: QuerySet[Run]) -> TypedTable:
    """Return a row for each step of each series."""
    columns = (*ABOUT_RUN, NODE, METRIC, UNIT, STEP, VALUE)

    def list_batches() -> Iterator[Batch]:
        for first, last in _list_ranges(runs, SERIES_OF_RUNS):
            rows = Series.objects.filter(run__in=runs.order_by(), run__gt=first, run__lte=last)
            yield from read_joined_series(rows)

    return TypedTable(columns, list_batches())


def _list_ranges(runs: QuerySet[Run], at_once: int) -> Iterator[tuple[int, int]]:
    """Yield keys (after, up to) with so many of the runs between them; none that is made later."""
    ordered = runs.order_by("pk")
    last = runs.order_by().aggregate(last=Max("pk"))["last"]
    first = 0
    while last is not None and first < last:
        following = ordered.filter(pk__gt=first, pk__lte=last).values_list("pk", flat=True)
        end = next(iter(following[at_once - 1 : at_once]), last)
        yield first, end
        first = end


def _name_columns(
    rows: QuerySet[Any], columns: Sequence[TypedColumn], path: str, own: Sequence[str] = ()
) -> QuerySet[Any]:
    """Return rows of the key of the run, the values of the columns, and those of own fields."""
    places = {}
    for column in columns:
        place = PLACES.get(column.name, column.name)
        if not isinstance(place, str):
            place = F(f"{path}job__block") + 1 if column.name == "block" else place
        else:
            place = F(path + place)
        places[f"column_{column.name}"] = place
    places |= {f"column_{name}": F(name) for name in own}
    keyed: QuerySet[Any] = rows.annotate(row_key=F(f"{path}pk"), **places)
    return keyed.order_by().values_list("row_key", *places)


def _copy(
    columns: Sequence[TypedColumn], statements: Iterator[tuple[str, list[Any]]]
) -> CopiedTable:
    def list_parts() -> Iterator[Copy]:
        try:
            for sql, parameters in statements:
                yield partial(_write_rows, sql, parameters)
        except EmptyResultSet:
            return

    return CopiedTable(columns, list_parts())


def _write_rows(sql: str, parameters: Sequence[Any], file: BinaryIO) -> None:
    with connection.cursor() as cursor:
        asked = cursor.mogrify(sql, parameters).decode()
        cursor.copy_expert(f"COPY ({asked}) TO STDOUT (FORMAT csv)", file)
