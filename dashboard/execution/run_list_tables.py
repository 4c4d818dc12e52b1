"""A list of runs as a table with typed columns, of any length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import Func, TextField

from dashboard.execution.run_cells import write_heads, write_plain
from dashboard.execution.run_columns import Column
from dashboard.execution.run_listing import RunList
from dashboard.execution.run_order import Value
from experiments.comparisons.typed_tables import Kind, TypedColumn, TypedTable, make_table

KINDS: dict[str, Kind] = {
    "text": "text",
    "number": "whole",
    "time": "time",
    "duration": "number",
    "metric": "number",
}
UNIT = " unit"


def make_list_table(run_list: RunList) -> TypedTable:
    """Return all runs of a list with its columns, which have the names of the CSV file's."""
    units = run_list.list_units()
    heads = {
        column.key: write_heads(column, units.get(column.key, [])) for column in run_list.columns
    }
    columns = [TypedColumn("run")]
    for column in run_list.columns:
        name, *unit_name = heads[column.key]
        known = units.get(column.key, [])
        kind = KINDS.get(column.kind) or _find_kind(column, run_list)
        columns.append(TypedColumn(name, kind, known[0] if len(known) == 1 else "", column.help))
        columns += [TypedColumn(unit) for unit in unit_name]

    def list_rows() -> Iterator[dict[str, Any]]:
        for row in run_list.runs.iterate():
            cells: dict[str, Any] = {"run": row.fields["uid"]}
            for column in run_list.columns:
                name, *unit_name = heads[column.key]
                value = row.values.get(column.key)
                cells[name] = None if value is None else write_plain(column, row)
                if unit_name and isinstance(value, Value):
                    cells[unit_name[0]] = value.unit
            yield cells

    return make_table(columns, list_rows())


def _find_kind(column: Column, run_list: RunList) -> Kind:
    """Return the kind of a parameter: numbers where every run has one, else texts."""
    typed = Func(column.expression, function="jsonb_typeof", output_field=TextField())
    rows = run_list.runs.rows.order_by().annotate(column_type=typed)
    known = set(rows.values_list("column_type", flat=True).distinct()) - {None, "null"}
    return "number" if known == {"number"} else "text"
