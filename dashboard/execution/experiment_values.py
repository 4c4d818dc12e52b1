"""What runs of experiments say of a metric, a parameter or a fact: for cells, order and filters.

Of each experiment those runs count that succeeded and that nobody has excluded.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.core.cache import cache
from django.db import connection
from django.db.models import Exists, OuterRef

from dashboard.execution.run_columns import FACT, METRIC, PARAMETER, Column
from dashboard.execution.run_conditions import Condition
from dashboard.execution.run_filters import apply_conditions, select_values
from experiments.models import Measurement, Run, RunParameter, Snapshot

MANY, RANK_SECONDS = 300, 20
"""So many experiments are ranked only now and then: that reads the values of all their runs."""
MOST_SHOWN = 3
"""Values of a parameter or a fact that a cell shows; of the others it says how many there are."""
RUN, MEASUREMENT = Run._meta.db_table, Measurement._meta.db_table
RUN_PARAMETER, SNAPSHOT = RunParameter._meta.db_table, Snapshot._meta.db_table
FINITE = "measured.value > '-Infinity' AND measured.value < 'Infinity'"
"""PostgreSQL counts NaN as larger than infinity."""
OF_RUNS = "run.experiment_id = ANY(%s) AND run.state = %s"
MEDIAN = "percentile_cont(0.5) WITHIN GROUP (ORDER BY measured.value)"


@dataclass(frozen=True)
class MetricSummary:
    """A metric of an experiment's runs: their median, and the medians of its configurations.

    Where its runs have it in several `units` there is no median.
    """

    median: float | None
    units: tuple[str, ...]
    count: int
    low: float | None
    high: float | None
    """The lowest and the highest median of its configurations."""

    @property
    def unit(self) -> str:
        return self.units[0] if len(self.units) == 1 else ""

    @property
    def is_range(self) -> bool:
        return self.low != self.high


@dataclass(frozen=True)
class DistinctValues:
    """The smallest values of a parameter or a fact in an experiment, and how many there are."""

    shown: tuple[Any, ...]
    count: int


@dataclass
class RunValues:
    """The values of an experiment's columns, by the columns' keys."""

    metrics: dict[str, MetricSummary] = field(default_factory=dict)
    others: dict[str, DistinctValues] = field(default_factory=dict)


def read_values(keys: Collection[int], columns: Iterable[Column]) -> Mapping[int, RunValues]:
    """Return the values of these columns for experiments; one statement for each kind of column."""
    values_by_key = {key: RunValues() for key in keys}
    names: dict[str, list[str]] = {METRIC: [], PARAMETER: [], FACT: []}
    for column in columns:
        names[column.key.removesuffix(column.name)].append(column.name)
    if names[METRIC]:
        for experiment, name, summary in _summarize_metrics(keys, names[METRIC]):
            values_by_key[experiment].metrics[METRIC + name] = summary
    for prefix, read in ((PARAMETER, _select_parameters), (FACT, _select_facts)):
        if names[prefix]:
            for experiment, name, values in _read_distinct(*read(keys, names[prefix])):
                values_by_key[experiment].others[prefix + name] = values
    return values_by_key


def _summarize_metrics(
    keys: Collection[int], names: Sequence[str]
) -> Iterable[tuple[int, str, MetricSummary]]:
    statement = f"""
        SELECT run.experiment_id, measured.metric, GROUPING(run.workload_id), {MEDIAN},
            count(*), min(measured.unit), max(measured.unit)
        FROM {RUN} run JOIN {MEASUREMENT} measured ON measured.run_id = run.id
        WHERE {OF_RUNS} AND measured.metric = ANY(%s) AND {FINITE}
        GROUP BY GROUPING SETS (
            (run.experiment_id, measured.metric),
            (run.experiment_id, measured.metric, run.workload_id, run.scale)
        )"""  # noqa: S608  (names of tables, and what stands above)
    totals: dict[tuple[int, str], tuple[Any, ...]] = {}
    medians: dict[tuple[int, str], list[float]] = {}
    rows = _fetch(statement, [list(keys), Run.State.SUCCEEDED, list(names)])
    for experiment, name, is_total, median, *others in rows:
        if is_total:
            totals[experiment, name] = (median, *others)
        else:
            medians.setdefault((experiment, name), []).append(median)
    for (experiment, name), (median, count, first, last) in totals.items():
        own = medians[experiment, name]
        units = tuple(dict.fromkeys((first, last)))
        # Halfway between two of the largest numbers there is infinity.
        if len(units) > 1 or not all(map(math.isfinite, (median, *own))):
            yield experiment, name, MetricSummary(None, units, count, None, None)
        else:
            yield experiment, name, MetricSummary(median, units, count, min(own), max(own))


def _select_parameters(keys: Collection[int], names: Sequence[str]) -> tuple[str, list[Any]]:
    statement = f"""
        SELECT DISTINCT run.experiment_id, given.name, given.value
        FROM {RUN} run JOIN {RUN_PARAMETER} given ON given.run_id = run.id
        WHERE {OF_RUNS} AND given.name = ANY(%s) AND given.value NOT IN ('null', '""')
        """  # noqa: S608
    return statement, [list(keys), Run.State.SUCCEEDED, list(names)]


def _select_facts(keys: Collection[int], names: Sequence[str]) -> tuple[str, list[Any]]:
    """Return a statement that reads each snapshot once: many runs share one."""
    statement = f"""
        SELECT DISTINCT run.experiment_id, asked.name, snapshot.facts ->> asked.name
        FROM (
            SELECT DISTINCT experiment_id, snapshot_id FROM {RUN} run WHERE {OF_RUNS}
        ) run
        JOIN {SNAPSHOT} snapshot ON snapshot.id = run.snapshot_id
        CROSS JOIN unnest(%s::text[]) asked(name)
        WHERE coalesce(snapshot.facts ->> asked.name, '') != ''"""  # noqa: S608
    return statement, [list(keys), Run.State.SUCCEEDED, list(names)]


def _read_distinct(
    statement: str, parameters: list[Any]
) -> Iterable[tuple[int, str, DistinctValues]]:
    cut = f"""
        WITH known(experiment, name, value) AS ({statement})
        SELECT experiment, name, count, to_jsonb(value) FROM (
            SELECT experiment, name, value, count(*) OVER same AS count,
                row_number() OVER (same ORDER BY value) AS place
            FROM known WINDOW same AS (PARTITION BY experiment, name)
        ) counted
        WHERE place <= {MOST_SHOWN} ORDER BY experiment, name, place"""  # noqa: S608
    shown: dict[tuple[int, str], list[Any]] = {}
    counts = {}
    for experiment, name, count, value in _fetch(cut, parameters):
        loaded = json.loads(value) if isinstance(value, str) else value
        shown.setdefault((experiment, name), []).append(loaded)
        counts[experiment, name] = count
    for (experiment, name), values in shown.items():
        yield experiment, name, DistinctValues(tuple(values), counts[experiment, name])


def recall_ranks(keys: Collection[int], column: Column) -> dict[int, float]:
    """Return the places of experiments by a column; of many, what they were some seconds ago."""
    if len(keys) < MANY:
        return rank_experiments(keys, column)
    text = f"{column.key} {sorted(keys)}"
    name = f"experiment-ranks-{hashlib.sha256(text.encode()).hexdigest()}"
    ranks: dict[int, float] | None = cache.get(name)
    if ranks is None:
        ranks = rank_experiments(keys, column)
        cache.set(name, ranks, RANK_SECONDS)
    return ranks


def rank_experiments(keys: Collection[int], column: Column) -> dict[int, float]:
    """Return the places of experiments by a column, equal ones the same; others have no value.

    By a metric it is the median of the runs, by another column the smallest value.
    """
    parameters: list[Any] = [list(keys), Run.State.SUCCEEDED, column.name]
    if column.kind == "metric":
        statement = f"""
            SELECT run.experiment_id, {MEDIAN}
            FROM {RUN} run JOIN {MEASUREMENT} measured ON measured.run_id = run.id
            WHERE {OF_RUNS} AND measured.metric = %s AND {FINITE}
            GROUP BY run.experiment_id HAVING min(measured.unit) = max(measured.unit)"""  # noqa: S608
        return {key: value for key, value in _fetch(statement, parameters) if math.isfinite(value)}
    if column.kind == "parameter":
        smallest, its_parameters = _select_parameters(keys, [column.name])
    else:
        smallest, its_parameters = _select_facts(keys, [column.name])
    statement = f"""
        WITH known(experiment, name, value) AS ({smallest})
        SELECT experiment, dense_rank() OVER (ORDER BY value) FROM (
            SELECT DISTINCT ON (experiment) experiment, value FROM known
            ORDER BY experiment, value
        ) smallest"""  # noqa: S608
    return dict(_fetch(statement, its_parameters))


def sort_keys(keys: Collection[int], column: Column, *, descending: bool) -> list[int]:
    """Return the keys of experiments in the order of a column; those without a value come last."""
    places = recall_ranks(keys, column)
    way = -1 if descending else 1

    def place(key: int) -> tuple[bool, float, int]:
        return key not in places, way * places.get(key, 0), way * key

    return sorted(keys, key=place)


def find_experiments(conditions: Sequence[Condition]) -> list[int]:
    """Return the keys of experiments that have a run which fulfils all conditions."""
    runs = apply_conditions(Run.objects.filter(state=Run.State.SUCCEEDED), conditions)
    for condition in conditions:
        if condition.column.kind == "metric" and condition.operator in (">", ">="):
            finite = select_values(condition.column).filter(value__lt=math.inf)
            runs = runs.filter(Exists(finite.filter(run=OuterRef("pk"))))
    return list(runs.order_by().values_list("experiment", flat=True).distinct())


def _fetch(statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())
