"""Many short series in one batch: what their steps have in common stands in it once.

A batch for each series, as `run_tables.read_steps` yields them, costs as much for 20 steps as for
20,000.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import F, Func, IntegerField, QuerySet

from experiments.comparisons.run_tables import OF_RUN, ORDER_OF_SERIES, PLACE_OF_BLOCK
from experiments.comparisons.series import BINARY
from experiments.comparisons.typed_tables import Batch, Spread
from experiments.models import Series
from experiments.statistics.steps import read_array

STEPS_AT_ONCE = 100_000
"""Of all series that are read at once, unless one alone has more."""
SERIES_AT_ONCE = 5_000
LENGTH = Func(F("values"), function="cardinality", output_field=IntegerField())


def read_joined_series(rows: QuerySet[Series]) -> Iterator[Batch]:
    """Yield batches with a row for each step of the series, in the order of the plan.

    The columns are those of `run_tables.make_series_table`. No batch is empty.
    """
    sizes = list(rows.order_by(*ORDER_OF_SERIES).values_list("pk", LENGTH))
    fields = (*OF_RUN, "metric", "unit", "steps", BINARY)
    for keys in _split(sizes):
        values = rows.filter(pk__in=keys).order_by()
        by_key = {key: row for key, *row in values.values_list("pk", *fields)}
        series = [by_key[key] for key in keys if key in by_key]  # others were deleted in between
        batch = _join(series) if series else None
        if batch and len(batch[-1]):
            yield batch


def _split(sizes: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    """Yield keys of series that have at most STEPS_AT_ONCE steps together; one always."""
    keys: list[int] = []
    steps = 0
    for key, length in sizes:
        if keys and (steps + length > STEPS_AT_ONCE or len(keys) == SERIES_AT_ONCE):
            yield keys
            keys, steps = [], 0
        keys.append(key)
        steps += length
    if keys:
        yield keys


def _join(rows: Sequence[Sequence[Any]]) -> Batch:
    import numpy as np

    *about, all_steps, arrays = (list(column) for column in zip(*rows, strict=True))
    about[PLACE_OF_BLOCK] = [block + 1 for block in about[PLACE_OF_BLOCK]]
    all_values = [read_array(array) for array in arrays]
    counts = [
        len(values) if steps is None else min(len(steps), len(values))
        for steps, values in zip(all_steps, all_values, strict=True)
    ]
    places = [
        np.arange(1, count + 1) if steps is None else np.array(steps[:count], np.int64)
        for steps, count in zip(all_steps, counts, strict=True)
    ]
    values = [values[:count] for values, count in zip(all_values, counts, strict=True)]
    shared = [Spread(column, counts) for column in about]
    return [*shared, np.concatenate(places), np.concatenate(values)]
