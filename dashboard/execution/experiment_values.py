"""The values of metrics, parameters and facts of experiments, for cells of lists and their order.

Of each experiment those runs count that succeeded and that nobody has excluded.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from dashboard.execution.run_columns import Column
from experiments.execution.stored_values import fetch_values, select_values


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


def read_values(
    keys: Collection[int], columns: Iterable[Column], changed: Collection[int]
) -> Mapping[int, RunValues]:
    """Return the values of these columns for experiments; one statement.

    `changed` are the experiments whose values are not stored as they are now.
    """
    values_by_key = {key: RunValues() for key in keys}
    asked = [column.key for column in columns]
    shown_columns = ("count", "units", "median", "low", "high", "shown")
    rows = fetch_values(asked, changed, shown_columns, keys)
    for experiment, key, count, units, median, low, high, shown in rows:
        values = values_by_key[experiment]
        if shown is not None:
            values.others[key] = DistinctValues(tuple(json.loads(shown)), count)
        elif count:  # and not NaN or infinity alone
            values.metrics[key] = MetricSummary(median, tuple(units), count, low, high)
    return values_by_key


def rank_experiments(column: Column, changed: Collection[int]) -> dict[int, float]:
    """Return the places of experiments by a column, equal ones the same; others have no value.

    By a metric it is the median of the runs, by another column the smallest value.
    """
    statement, parameters = select_values([column.key], changed)
    if column.kind == "metric":
        ranked = f"SELECT experiment_id, median FROM ({statement}) known WHERE median IS NOT NULL"  # noqa: S608
    else:
        ranked = f"""
            SELECT experiment_id, dense_rank() OVER (ORDER BY shown -> 0)
            FROM ({statement}) known"""  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(ranked, parameters)
        return dict(cursor.fetchall())


def sort_keys(
    keys: Iterable[int], column: Column, changed: Collection[int], *, descending: bool
) -> list[int]:
    """Return the keys of experiments in the order of a column; those without a value come last."""
    places = rank_experiments(column, changed)
    way = -1 if descending else 1

    def place(key: int) -> tuple[bool, float, int]:
        return key not in places, way * places.get(key, 0), way * key

    return sorted(keys, key=place)
