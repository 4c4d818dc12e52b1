"""The cells of a list of runs: one unit and one number of digits a column."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from statistics import median
from typing import Any

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator

from dashboard.execution.run_columns import Column
from dashboard.execution.run_order import Row, Value
from dashboard.templatetags.states import run_state
from dashboard.templatetags.tare import state, when
from experiments.models import Run
from experiments.planning.workloads import format_value
from experiments.statistics import numbers

LONGEST_QUESTION, LONGEST_TEXT, LONGEST_NAME = 52, 80, 20
SIGNIFICANT = 4
MISSING = mark_safe('<td class="num muted">–</td>')
NO_TEXT = mark_safe('<td class="muted">–</td>')

UID = "0" * 32
"""In place of the name of a run, in an address."""

Draw = Callable[[Row], SafeString]


@dataclass(frozen=True)
class Head:
    """The head of a column; its unit stands under its label."""

    column: Column
    unit: str

    @property
    def text(self) -> str:
        if not self.unit:
            return self.column.label
        return format_html('{} <small class="unit">{}</small>', self.column.label, self.unit)

    @property
    def css(self) -> str:
        return "num" if self.column.is_number else ""


ROW = (
    '<tr><th scope="row" class="nowrap"><label class="target"><input type="checkbox"'
    ' class="form-check-input" form="selection" name="pick" value="{uid}"'
    ' aria-label="Select run {short}"></label> <a href="{before}{uid}{after}">'
    "<code>{short}</code></a></th>{cells}</tr>\n"
)
"""Drawn here and not by the template: of a hundred rows its blanks alone would be 8 kB."""


def draw_table(rows: Sequence[Row], columns: Sequence[Column]) -> tuple[list[Head], SafeString]:
    """Return the heads of the columns, and the rows, each with a box by which it is selected."""
    heads, draws = [], []
    for column in columns:
        unit, draw = _prepare(column, rows)
        heads.append(Head(column, unit))
        draws.append(draw)
    before, _, after = reverse("run", args=[UID]).partition(UID)

    def draw_row(row: Row) -> str:
        uid = escape(row.fields["uid"])
        cells = "".join([draw(row) for draw in draws])  # each is escaped
        return ROW.format(uid=uid, short=uid[:8], before=before, after=after, cells=cells)

    return heads, mark_safe("".join(map(draw_row, rows)))  # noqa: S308  (each is escaped)


def _prepare(column: Column, rows: Sequence[Row]) -> tuple[str, Draw]:
    """Return the unit of a column's head, and what draws its cells."""
    key = column.key
    if column.kind == "metric":
        return _prepare_metric(key, [row.values.get(key) for row in rows])
    if key in OF_THEIR_OWN:
        return "", _remember(*OF_THEIR_OWN[key])
    unit = column.unit if column.kind == "parameter" else ""
    draw = BY_KIND.get(column.kind, _draw_text)
    if column.kind == "parameter":  # which may be a list
        return unit, lambda row: draw(row.values[key])
    return unit, _remember(lambda row: row.values[key], lambda row: draw(row.values[key]))


def _remember(read: Callable[[Row], Any], draw: Draw) -> Draw:
    """Return what draws each value once: most rows of a page share theirs with another one."""
    known: dict[Any, SafeString] = {}

    def draw_once(row: Row) -> SafeString:
        value = read(row)
        if value not in known:
            known[value] = draw(row)
        return known[value]

    return draw_once


def _prepare_metric(key: str, values: Sequence[Value | None]) -> tuple[str, Draw]:
    """Return the unit that all values of a metric share, and what draws them in it.

    Where programs report it in several units, each cell has its own.
    """
    known = [value for value in values if value is not None]
    units = {value.unit for value in known}
    if len(units) != 1:
        return "", lambda row: _draw_quantity(row.values.get(key))
    (unit,) = units
    factor, text = numbers.si([value.number for value in known], unit)
    decimals = choose_decimals([value.number * factor for value in known])

    def draw(row: Row) -> SafeString:
        value = row.values.get(key)
        if value is None:
            return MISSING
        # A number, with nothing that has to be escaped.
        return SafeString(f'<td class="num">{write(value.number * factor, decimals)}</td>')

    return text, draw


def choose_decimals(values: Sequence[float]) -> int:
    """Return the decimals that give the median value of a column four significant digits."""
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    if not sizes:
        return 0
    return min(max(SIGNIFICANT - 1 - math.floor(math.log10(median(sizes))), 0), 8)


def write(value: float, decimals: int) -> str:
    """Return a number with so many decimals; with a power of ten if that would not show it."""
    if not math.isfinite(value):
        return numbers.MISSING
    if abs(value) >= 1e12 or (value and not round(value, decimals)):
        return numbers.scientific(value, SIGNIFICANT)
    return f"{value or 0.0:,.{decimals}f}".replace("-", "−")


def _draw_quantity(value: Value | None) -> SafeString:
    if value is None:
        return MISSING
    unit = "" if value.unit == "1" else value.unit
    return format_html('<td class="num">{}</td>', numbers.quantity(value.number, unit))


def _draw_text(value: Any) -> SafeString:
    if value in (None, ""):
        return NO_TEXT
    text = str(value)
    if len(text) > LONGEST_TEXT:
        text = Truncator(text).chars(LONGEST_TEXT)
    # gpu-node-0017, in one line
    css = ' class="nowrap"' if len(text) <= LONGEST_NAME and " " not in text else ""
    return SafeString(f"<td{css}>{escape(text)}</td>")


def _draw_number(value: Any) -> SafeString:
    return MISSING if value is None else SafeString(f'<td class="num">{escape(str(value))}</td>')


def _draw_time(value: datetime | None) -> SafeString:
    return SafeString(f'<td class="nowrap">{when(value, "seconds")}</td>')


def _draw_duration(value: timedelta | None) -> SafeString:
    if value is None:
        return MISSING
    return format_html('<td class="num">{}</td>', numbers.duration(value.total_seconds()))


def _draw_parameter(value: Any) -> SafeString:
    if value in (None, ""):
        return NO_TEXT
    return _draw_text(format_value(value))


def _draw_state(row: Row) -> SafeString:
    fields = row.fields
    if fields["state"] == Run.State.RUNNING and fields["ended_at"]:
        known = {name: fields[name] for name in ("state", "ended_at", "exit_code")}
        return format_html("<td>{}</td>", run_state(Run(**known)))
    reason = fields["reason"]
    if reason and reason != fields["state"]:
        return format_html(
            '<td>{} <span class="muted">{}</span></td>', state(fields["state"]), reason
        )
    return format_html("<td>{}</td>", state(fields["state"]))


def _draw_question(row: Row) -> SafeString:
    address = reverse("experiment", args=[row.fields["experiment_id"]])
    text = escape(shorten_question(row.values["question"]))
    return SafeString(f'<td class="wide anywhere"><a href="{address}">{text}</a></td>')


def shorten_question(text: str) -> str:
    """Return a question as a cell shows it."""
    if len(text) <= LONGEST_QUESTION and text.isascii():
        return text
    return Truncator(text).chars(LONGEST_QUESTION)


def _identify_state(row: Row) -> Any:
    """Return what the cell of a state rests on."""
    fields = row.fields
    if fields["state"] == Run.State.RUNNING:
        return fields["ended_at"], fields["exit_code"]
    return fields["state"], fields["reason"]


OF_THEIR_OWN: Mapping[str, tuple[Callable[[Row], Any], Draw]] = {
    "state": (_identify_state, _draw_state),
    "question": (lambda row: row.fields["experiment_id"], _draw_question),
}
"""Cells that rest on several fields of a run: what they rest on, and what draws them."""
BY_KIND: Mapping[str, Callable[[Any], SafeString]] = {
    "number": _draw_number,
    "time": _draw_time,
    "duration": _draw_duration,
    "parameter": _draw_parameter,
}


def write_heads(column: Column, units: Sequence[str]) -> list[str]:
    """Return the heads of a column in a file; where units differ, a second one has them."""
    if len(units) > 1:
        return [column.key, f"{column.key} unit"]
    return [f"{column.key} ({units[0]})" if units and units[0] else column.key]


def write_cells(column: Column, row: Row, units: Sequence[str]) -> list[Any]:
    """Return the cells of a run under these heads."""
    cells = [write_plain(column, row)]
    if len(units) > 1:
        value = row.values.get(column.key)
        cells.append(value.unit if isinstance(value, Value) else "")
    return cells


def write_plain(column: Column, row: Row) -> Any:
    """Return a value as files have it: numbers with all their digits, times in ISO 8601."""
    value = row.values.get(column.key)
    if isinstance(value, Value):
        return value.number
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else value
