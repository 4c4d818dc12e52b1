"""Cells of experiments that show a metric, a parameter or a fact of their runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard.execution.experiment_values import DistinctValues, MetricSummary, RunValues
from dashboard.execution.run_columns import Column, shorten
from experiments.comparisons.typed_tables import Kind
from experiments.planning.workloads import format_value
from experiments.statistics import numbers

DIGITS = 4
VALUE_KINDS: Mapping[str, Kind] = {"metric": "number"}
"""What values of runs are in files with types, where they are no texts."""
COUNTED = "Of the runs that succeeded and are not excluded."
SORTED_BY_MEDIAN = (
    "The median of the runs; of several configurations the lowest to the highest of their medians."
    " Sorted by the median of all runs."
)
SORTED_BY_SMALLEST = "The distinct values. Sorted by the smallest one."


def make_help(column: Column) -> str:
    """Return what a column shows of an experiment's runs, and what it is sorted by."""
    sorted_by = SORTED_BY_MEDIAN if column.kind == "metric" else SORTED_BY_SMALLEST
    own = f"{column.help.rstrip('.')}. " if column.help else ""
    return f"{own}{COUNTED} {sorted_by}"


def draw_value(values: RunValues, column: Column) -> SafeString:
    """Return the cell of an experiment."""
    if column.kind == "metric":
        return _draw_summary(values.metrics.get(column.key), column)
    return _draw_distinct(values.others.get(column.key), column)


def _draw_summary(summary: MetricSummary | None, column: Column) -> SafeString:
    if summary is None:
        title, text = "no run has it", numbers.MISSING
    elif len(summary.units) > 1:
        title, text = f"in several units: {numbers.listed(summary.units)}", numbers.MISSING
    elif summary.median is None:
        title, text = "too large for a median", numbers.MISSING
    else:
        unit = summary.unit
        runs = numbers.count(summary.count, "run")
        text = write_quantity(summary.median, unit)
        title = f"median of {runs}"
        if summary.is_range:
            low, high = write_quantity(summary.low, unit), write_quantity(summary.high, unit)
            title = f"medians of configurations; the median of all {runs} is {text}"
            text = low if low == high else f"{low} to {high}"
    muted = " muted" if text == numbers.MISSING else ""
    return format_html(
        '<td class="num nowrap{}" data-label="{}" title="{}">{}</td>',
        muted,
        column.label,
        title,
        text,
    )


def write_quantity(value: float | None, unit: str) -> str:
    """Return a number with its unit."""
    return numbers.quantity(value, "" if unit == "1" else unit)


def _draw_distinct(values: DistinctValues | None, column: Column) -> SafeString:
    if values is None:
        return format_html('<td class="muted" data-label="{}">–</td>', column.label)
    unit = f" {column.unit}" if column.unit not in ("", "1") else ""
    return format_html('<td data-label="{}">{}{}</td>', column.label, join_values(values), unit)


def join_values(values: DistinctValues) -> str:
    """Return the values in a row: "1, 2, 3 and 4 more"."""
    text = ", ".join(shorten(format_value(value)) for value in values.shown)
    others = values.count - len(values.shown)
    return f"{text} and {others:,} more" if others else text


def write_value(values: RunValues, column: Column) -> list[Any]:
    """Return what files have of an experiment; of a metric the median and its unit."""
    if column.kind == "metric":
        summary = values.metrics.get(column.key)
        return [summary.median, ", ".join(summary.units)] if summary else [None, None]
    others = values.others.get(column.key)
    return [join_values(others) if others else None]
