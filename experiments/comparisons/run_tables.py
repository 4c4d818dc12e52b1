"""The runs of an experiment, their measurements and their steps, as tables with typed columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

from django.db.models import QuerySet

from experiments.comparisons.comparison_keys import identify_method
from experiments.comparisons.rows_by_key import iterate_values
from experiments.comparisons.run_rows import list_run_rows
from experiments.comparisons.series import BINARY
from experiments.comparisons.typed_tables import (
    ROWS_AT_ONCE,
    Batch,
    Repeated,
    TypedColumn,
    TypedTable,
    make_table,
)
from experiments.models import Experiment, Measurement, Series
from experiments.planning.decisive_metrics import freeze_metrics
from experiments.statistics.steps import read_array

SERIES_AT_ONCE = 50
"""Series that are fetched at once: of a hundred thousand steps each, 40 MB."""
ABOUT_RUN = (
    TypedColumn("run"),
    TypedColumn("job"),
    TypedColumn("block", "whole", about="from 1"),
    TypedColumn("position", "whole", about="run order in the job"),
    TypedColumn("repeat", "whole"),
    TypedColumn("workload"),
    TypedColumn("environment"),
    TypedColumn("scale", about="nodes x GPUs or processes"),
    TypedColumn("state"),
)
ENDS = (
    TypedColumn("reason"),
    TypedColumn("cause"),
    TypedColumn("message"),
    TypedColumn("exit_code", "whole"),
    TypedColumn("node"),
    TypedColumn("began_at", "time"),
    TypedColumn("ended_at", "time"),
    TypedColumn("attempt", "whole"),
    TypedColumn("repairs_job"),
    TypedColumn("scheduler_id"),
    TypedColumn("snapshot"),
)
COMPARED = (
    TypedColumn("compared", "number", about="the value that the comparison uses"),
    TypedColumn("excluded_by"),
    TypedColumn("excluded_at", "time"),
    TypedColumn("excluded_because"),
    TypedColumn("excluded_after_a_verdict", "flag"),
    TypedColumn("shape"),
    TypedColumn("warm_up_steps", "whole"),
    TypedColumn("trend"),
    TypedColumn("mean_after_warm_up (s)", "number", "s"),
    TypedColumn("excluded_when", about="before any verdict, or after which analysis"),
    TypedColumn("sources", about="of what Tare measures of every run, by metric"),
    TypedColumn("not_measured", about="why it lacks others of these, by metric"),
    TypedColumn("nodes", about="all of its job, where it had several and they are known"),
    TypedColumn("segments", "whole", about="jobs that it took, where it may take several"),
    TypedColumn("segments_queue_seconds", "number", "s", about="that all of them waited"),
    TypedColumn("segments_saving_seconds", "number", "s", about="of writing checkpoints"),
    TypedColumn("segments_restoring_seconds", "number", "s", about="of reading checkpoints"),
    TypedColumn("segments_steps_lost", "whole", about="after a last checkpoint, done again"),
)
NODE = TypedColumn("node")
METRIC, UNIT = TypedColumn("metric"), TypedColumn("unit", about="1 for a bare number")
VALUE = TypedColumn("value", "number", about="in the unit of its row")
SOURCE = TypedColumn("source", about="where Tare has it from; empty: the program reported it")
STEP = TypedColumn("step", "whole", about="from 1; the last one of those that a value is of")


def describe_source(experiment: Experiment) -> dict[str, str]:
    """Return what a file says about its experiment, and about the code that computed it."""
    return {
        "question": experiment.question,
        "experiment": str(experiment.pk),
        "plan_hash": experiment.plan_hash,
        "margin": repr(experiment.margin),
        **{name: str(value) for name, value in experiment.unusual_goal.items()},
        **{name: json.dumps(value) for name, value in freeze_metrics(experiment).items()},
        **{name: repr(margin) for name, margin in experiment.training_margins.items()},
        "method": identify_method(),
    }


def make_runs_table(experiment: Experiment) -> TypedTable:
    """Return a row for each run, with the columns of the CSV file and all that it might have."""
    measured = Measurement.objects.filter(run__experiment=experiment).order_by("metric", "unit")
    metrics = [
        TypedColumn(f"{metric} ({unit})", "number", unit)
        for metric, unit in measured.values_list("metric", "unit").distinct()
    ]
    columns = (*ABOUT_RUN, *ENDS, *metrics, *COMPARED)
    return make_table(columns, list_run_rows(experiment), describe_source(experiment))


def make_measurements_table(experiment: Experiment) -> TypedTable:
    """Return a row for each measurement of each run."""
    columns = (*ABOUT_RUN, NODE, METRIC, VALUE, UNIT, SOURCE)
    return TypedTable(columns, _read_measurements(experiment), describe_source(experiment))


def make_series_table(experiment: Experiment) -> TypedTable:
    """Return a row for each step of each series: of step times, losses and whatever was recorded.

    A batch is one series; its values are a numpy array, and what they have in common is `Repeated`.
    """
    columns = (*ABOUT_RUN, NODE, METRIC, UNIT, STEP, VALUE)
    rows = Series.objects.filter(run__experiment=experiment)
    return TypedTable(columns, read_steps(rows), describe_source(experiment))


OF_RUN = (
    *("run__uid", "run__job__uid", "run__job__block", "run__position", "run__repeat"),
    *("run__workload__name", "run__environment__name", "run__scale", "run__state", "run__node"),
)
PLACE_OF_BLOCK = 2
"""The place of the block among them, which counts from 0 in the database."""
ORDER_OF_SERIES = ("run__job__block", "run__position", "run", "metric", "pk")


def _read_measurements(experiment: Experiment) -> Iterator[Batch]:
    rows = Measurement.objects.filter(run__experiment=experiment)
    keys = list(rows.order_by(*ORDER_OF_SERIES).values_list("pk", flat=True))
    fields = (*OF_RUN, "metric", "value", "unit", "source")
    values = iterate_values(rows, keys, fields, ROWS_AT_ONCE)
    while batch := list(islice(values, ROWS_AT_ONCE)):
        columns = [list(column) for column in zip(*batch, strict=True)]
        columns[PLACE_OF_BLOCK] = [block + 1 for block in columns[PLACE_OF_BLOCK]]
        yield columns


def read_steps(rows: QuerySet[Series]) -> Iterator[Batch]:
    """Yield a batch for each of the series, in the order of the plan."""
    keys = list(rows.order_by(*ORDER_OF_SERIES).values_list("pk", flat=True))
    fields = (*OF_RUN, "metric", "unit", "steps", BINARY)
    for series in iterate_values(rows, keys, fields, SERIES_AT_ONCE):
        *about, steps, array = series
        about[PLACE_OF_BLOCK] += 1
        values = read_array(array)
        places = range(1, len(values) + 1) if steps is None else steps
        count = min(len(places), len(values))
        yield [*(Repeated(value, count) for value in about), places[:count], values[:count]]
