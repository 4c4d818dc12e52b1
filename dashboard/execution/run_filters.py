"""The runs that fulfil the conditions of a list."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from django.db.models import Exists, F, Func, OuterRef, Q, QuerySet, TextField, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.lookups import Exact

from dashboard.execution.run_columns import PARAMETERS, Column
from dashboard.execution.run_conditions import NUMBER, Condition
from experiments.models import Measurement, Run, RunParameter


def has_own_table(column: Column) -> bool:
    """Return whether the values of a column are rows of a table of their own."""
    return column.kind in ("metric", "parameter")


def name_relation(column: Column) -> tuple[str, str]:
    """Return the relation from runs to the values of a column, and its field of columns' names."""
    return ("measurements", "metric") if column.kind == "metric" else ("parameters", "name")


def select_values(column: Column) -> QuerySet[Any]:
    """Return the values of a column that has a table of its own, of all runs."""
    if column.kind == "metric":
        return Measurement.objects.filter(metric=column.name)
    return RunParameter.objects.filter(name=column.name)


def apply_conditions(rows: QuerySet[Run], conditions: Iterable[Condition]) -> QuerySet[Run]:
    """Return the runs that fulfil all conditions."""
    for number, condition in enumerate(conditions):
        if condition.column.kind == "metric":
            rows = _filter_by_metric(rows, condition)
        elif condition.column.kind == "parameter":
            rows = _filter_by_parameter(rows, condition, f"condition_{number}")
        else:
            rows = _filter_by_value(rows, condition, f"condition_{number}")
    return rows


def compare_values(condition: Condition, prefix: str = "") -> Q:
    """Return the comparison with a row of the table that holds a column's values.

    `prefix` leads there from runs. To be used in one call with all else that is asked of that row.
    """
    if condition.column.kind == "metric":
        return condition.compare_metric(prefix)
    if condition.operator in ("=", "!="):
        return Q(**{f"{prefix}value__in": list_spellings(condition.value)})
    kind = Func(F(f"{prefix}value"), function="jsonb_typeof", output_field=TextField())
    is_number = Q(Exact(kind, Value("number")))
    return Q(**{f"{prefix}value__{condition.lookup}": condition.parsed}) & is_number


def _filter_by_metric(rows: QuerySet[Run], condition: Condition) -> QuerySet[Run]:
    measured = select_values(condition.column).filter(run=OuterRef("pk"))
    if not condition.value:
        return rows.filter(Exists(measured) if condition.operator == "!=" else ~Exists(measured))
    measured = measured.filter(compare_values(condition))
    return rows.filter(~Exists(measured) if condition.operator == "!=" else Exists(measured))


def _filter_by_value(rows: QuerySet[Run], condition: Condition, name: str) -> QuerySet[Run]:
    column = condition.column
    if column.path:
        name = column.path
    else:
        rows = rows.alias(**{name: column.expression})
    if not condition.value:
        missing = Q(**{f"{name}__isnull": True})
        if column.kind == "text":
            missing |= Q(**{name: ""})
        return rows.filter(missing if condition.operator == "=" else ~missing)
    fits = Q(**{f"{name}__{condition.lookup}": condition.parsed})
    if condition.operator == "!=":
        return rows.filter(Q(**{f"{name}__isnull": True}) | ~fits)
    return rows.filter(fits)


def _filter_by_parameter(rows: QuerySet[Run], condition: Condition, name: str) -> QuerySet[Run]:
    """Compare a value of JSON: as a number by its size, or as the text that pages show."""
    if condition.value and condition.operator != "~":
        fits = select_values(condition.column).filter(run=OuterRef("pk"))
        fits = fits.filter(compare_values(condition))
        return rows.filter(~Exists(fits) if condition.operator == "!=" else Exists(fits))
    # Of a long text or a list all of it, which stands with the run alone.
    text = f"{name}_text"
    rows = rows.alias(**{text: KeyTextTransform(condition.column.name, PARAMETERS)})
    if condition.operator == "~":
        return rows.filter(**{f"{text}__icontains": condition.value})
    missing = Q(**{f"{text}__isnull": True}) | Q(**{text: ""})
    return rows.filter(missing if condition.operator == "=" else ~missing)


def list_spellings(value: str) -> list[Any]:
    """Return the values of JSON that pages show as this text."""
    spellings: list[Any] = [value]
    if value in ("yes", "no"):
        spellings.append(value == "yes")
    if NUMBER.fullmatch(value) and math.isfinite(float(value)):
        number = Decimal(value)
        is_whole = number == number.to_integral_value()
        # A whole number exactly: more digits than a double has stand in JSON, too.
        spellings.append(int(number) if is_whole else float(value))
    return spellings
