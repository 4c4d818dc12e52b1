"""The conditions by which a list of runs is filtered, as its address writes them.

`where=metric.step_time>=0.2` is a column, a comparison and a value. A comparison with no value asks
whether there is one: `where=reason=` has none, `where=reason!=` has one.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from django.db.models import Q
from django.utils import timezone

from dashboard.execution.run_columns import Column, Columns, shorten
from experiments.models import Run
from experiments.statistics import numbers

LOOKUPS = {"=": "exact", "!=": "exact", "~": "icontains"} | {
    "<": "lt",
    "<=": "lte",
    ">": "gt",
    ">=": "gte",
}
SIGNS = {"!=": "≠", "<=": "≤", ">=": "≥", "~": "contains"}
OPERATOR = re.compile("<=|>=|!=|=|<|>|~")
OF_TEXTS, OF_NUMBERS = ("=", "!=", "~"), ("=", "!=", "<", "<=", ">", ">=")
MOST_CONDITIONS, MOST_PROBLEMS = 20, 10
LONGEST_VALUE, LONGEST_KEY = 300, 300
"""Characters of a value, and of a column's name."""
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
PREFIXES = {"T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "m": 1e-3, "µ": 1e-6, "u": 1e-6, "n": 1e-9}
SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400}
DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?(s|min|h|d)?", re.ASCII)
AGO = re.compile(r"-?(\d{1,5}) ?(min|h|d)(?:ays?)?", re.ASCII)
MOST_WHOLE = 2**31


@dataclass(frozen=True)
class Condition:
    """One condition; `value` is the text of the address, `parsed` what the database compares."""

    column: Column
    operator: str
    value: str
    parsed: Any
    query: tuple[str, str]
    """The parameter of the address that it came from, and its text."""

    @property
    def lookup(self) -> str:
        return LOOKUPS[self.operator]

    @property
    def is_limit(self) -> bool:
        """Return whether only runs with a value, on one side of it, fulfil the condition."""
        return bool(self.value) and self.operator in ("=", "<", "<=", ">", ">=")

    def compare_metric(self, prefix: str = "") -> Q:
        """Return the comparison with a measurement, in each unit that programs report it in.

        Measurements in units that cannot be converted fulfil no comparison.
        """
        fits = Q()
        for unit in (self.column.unit, *self.column.other_units):
            limit = self.convert_to(unit)
            if limit is not None:
                same_unit = {f"{prefix}unit": unit, f"{prefix}value__{self.lookup}": limit}
                fits |= Q(**same_unit)
        return fits

    def convert_to(self, unit: str) -> float | None:
        """Return what a metric is compared with, in a unit; None if the metric has no such unit."""
        if unit not in (self.column.unit, *self.column.other_units):
            return None
        return _convert_quantity(self.value, self.column.unit, unit)

    @property
    def text(self) -> str:
        """Return what a reader is told after the column's name: "≥ 200.0 ms"."""
        if not self.value:
            return "is missing" if self.operator == "=" else "is known"
        sign = SIGNS.get(self.operator, self.operator)
        if self.column.kind == "metric":
            value = numbers.quantity(self.parsed, self.column.unit.replace("1", ""))
        elif self.column.kind == "duration":
            value = numbers.duration(self.parsed.total_seconds())
        elif self.column.kind == "time":
            if AGO.fullmatch(self.value):
                return self._describe_ago()
            value = f"{self.parsed:%Y-%m-%d %H:%M} UTC"
        else:
            value = self.value
        return f"{sign} {shorten(value)}"

    def _describe_ago(self) -> str:
        """Return words for a moment that is so long ago: after it is in the last days."""
        time = self.value.lstrip("-")
        if self.operator in (">", ">="):
            return f"in the last {time}"
        if self.operator in ("<", "<="):
            return f"more than {time} ago"
        return f"{SIGNS.get(self.operator, self.operator)} {time} ago"


def read_conditions(texts: Iterable[str], columns: Columns) -> tuple[list[Condition], list[str]]:
    """Return the conditions that these texts write, and a sentence for each that makes no sense."""
    conditions: list[Condition] = []
    problems = []
    for text in dict.fromkeys(text for text in texts if text):
        if len(conditions) == MOST_CONDITIONS:
            problems.append(f"A list has at most {MOST_CONDITIONS} filters; the rest is left out.")
            break
        if len(problems) == MOST_PROBLEMS:
            problems.append("The rest of the filters is left out.")
            break
        try:
            conditions.append(_read(text, columns))
        except ValueError as error:
            problems.append(f"The filter “{shorten(text)}” is left out: {error}.")
    return conditions, problems


def _read(text: str, columns: Columns) -> Condition:
    for match in OPERATOR.finditer(text, 0, LONGEST_KEY):
        if column := columns.get(text[: match.start()]):
            return make_condition(column, match[0], text[match.end() :], ("where", text))
    first = OPERATOR.search(text)
    if first and (key := text[: first.start()].strip()):
        similar = difflib.get_close_matches(key[:100], columns.keys, n=1)
        raise ValueError(
            f"there is no column “{shorten(key)}”"
            + (f"; did you mean “{similar[0]}”?" if similar else "")
        )
    raise ValueError("it does not begin with a column and a comparison, such as state=failed")


def make_condition(
    column: Column, operator: str, value: str, query: tuple[str, str] = ("", "")
) -> Condition:
    """Return a condition; ValueError with the reason if the column has no such comparison."""
    value = value.strip()
    if len(value) > LONGEST_VALUE:
        raise ValueError(f"a value has at most {LONGEST_VALUE} characters")
    allowed = list_operators(column)
    if operator not in allowed or (not value and operator not in ("=", "!=")):
        signs = [SIGNS.get(sign, sign) for sign in allowed]
        raise ValueError(f"{column.label} is compared by {numbers.listed(signs)}, with a value")
    parse = PARSERS[column.kind]
    if column.kind == "parameter" and operator in ("<", "<=", ">", ">="):
        parse = _parse_quantity
    return Condition(column, operator, value, parse(column, value), query)


def list_operators(column: Column) -> tuple[str, ...]:
    """Return the comparisons that have a meaning for a column."""
    if column.kind == "parameter":
        return (*OF_NUMBERS, "~")
    return OF_TEXTS if column.kind == "text" else OF_NUMBERS


def _parse_text(column: Column, value: str) -> str:
    states = dict(Run.State.choices)
    if column.key == "state" and value and value not in states:
        raise ValueError(f"there is no state “{shorten(value)}”, only {numbers.listed([*states])}")
    return value


def _parse_whole(column: Column, value: str) -> int | None:
    if not value:
        return None
    if not re.fullmatch(r"-?\d{1,9}", value, re.ASCII):
        raise ValueError(f"{column.label} is a whole number")
    return int(value)


def _parse_quantity(column: Column, value: str) -> float | None:
    """Return a number in the column's unit: "200 ms" of a metric in seconds is 0.2."""
    if not value:
        return None
    number = _convert_quantity(value, column.unit, column.unit)
    if number is None or not math.isfinite(number):
        known = "" if column.unit in ("", "1") else f" of {column.unit}"
        raise ValueError(f"{column.label} is compared with a number{known}")
    return number


@lru_cache(1024)
def _convert_quantity(text: str, usual_unit: str, unit: str) -> float | None:
    """Return a number in `unit`; where the text has none it is in `usual_unit`.

    None if it is no number, or if the units differ in more than a prefix.
    """
    match = NUMBER.match(text)
    if not match:
        return None
    factor = _find_factor(text[match.end() :].strip() or usual_unit, unit)
    return None if factor is None else float(match[0]) * factor


def _find_factor(given: str, unit: str) -> float | None:
    """Return by what a number in one unit is multiplied to be in another one; None if it cannot."""
    if given == unit:
        return 1.0
    if not unit:  # "5 k" of what has no unit
        return PREFIXES.get(given)
    given_bases, bases = _split_prefix(given), _split_prefix(unit)
    for base in given_bases.keys() & bases.keys():
        return given_bases[base] / bases[base]
    return None


def _split_prefix(unit: str) -> dict[str, float]:
    """Return what a unit may be: itself, and that which its first letter multiplies."""
    bases = {unit: 1.0}
    if unit[:1] in PREFIXES and unit[1:] not in ("", "1"):
        bases[unit[1:]] = PREFIXES[unit[0]]
    return bases


def _parse_duration(column: Column, value: str) -> timedelta | None:
    if not value:
        return None
    match = DURATION.fullmatch(value)
    seconds = float(match[1]) * SECONDS[match[2] or "s"] if match else math.inf
    if seconds > 10**9:
        raise ValueError(f"{column.label} is compared with a duration, such as 90 s or 2 min")
    return timedelta(seconds=seconds)


def _parse_time(column: Column, value: str) -> datetime | None:
    if not value:
        return None
    if match := AGO.fullmatch(value):
        return timezone.now() - timedelta(seconds=int(match[1]) * SECONDS[match[2]])
    try:
        moment = datetime.fromisoformat(value)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{column.label} is compared with a time in UTC, such as 2026-11-23 14:00, or 7 d"
        ) from None


def _parse_parameter(column: Column, value: str) -> str:
    return value


PARSERS: dict[str, Callable[[Column, str], Any]] = {
    "text": _parse_text,
    "number": _parse_whole,
    "metric": _parse_quantity,
    "duration": _parse_duration,
    "time": _parse_time,
    "parameter": _parse_parameter,
}
