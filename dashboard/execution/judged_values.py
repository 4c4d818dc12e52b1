"""Judge from stored values whether runs of an experiment fulfil a condition.

Where stored values do not suffice, the judgement says so. Conditions are those of lists of runs.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from dashboard.execution.run_conditions import Condition
from dashboard.execution.run_filters import list_spellings
from experiments.execution.stored_values import LONGEST_TEXT, MOST_SHOWN, PARAMETER


class StoredValue(NamedTuple):
    """What is stored of a metric, a parameter or a fact of an experiment."""

    runs: int
    counted: int
    """How many distinct values there are; of a metric, how many finite ones."""
    unit: str | None
    """Of a metric that has one unit."""
    lowest: float | None
    highest: float | None
    shown: str | None
    largest: str | None
    """Values as JSON."""


class Judgement(NamedTuple):
    """Whether some of an experiment's runs fulfil a condition, and whether all certainly do."""

    some: bool | None
    """None where stored values do not suffice to know it."""
    every: bool


COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
NONE, ALL, OPEN = Judgement(False, False), Judgement(True, True), Judgement(None, False)


def judge_condition(condition: Condition, stored: StoredValue | None, runs: int) -> Judgement:
    """Judge a condition on the `runs` of an experiment that count, by their `stored` value."""
    if condition.column.kind == "metric":
        return _judge_metric(condition, stored, runs)
    is_parameter = condition.column.key.startswith(PARAMETER)
    if stored is None:
        return _judge_missing(condition, is_parameter=is_parameter)
    has_all = stored.runs == runs
    if not condition.value:
        if condition.operator == "!=":
            return Judgement(True, has_all)
        # Of a parameter that is a table no value is stored.
        return NONE if has_all else OPEN if is_parameter else Judgement(True, False)
    shown, (largest,) = _load_values(stored.shown), _load_values(f"[{stored.largest}]")
    values = Values(shown, largest, stored.counted, has_all)
    if condition.operator in COMPARE:
        return _judge_limit(condition, values)
    if condition.operator == "~":
        return _judge_part(condition.value, values, is_parameter=is_parameter)
    spellings = list_spellings(condition.value) if is_parameter else [condition.value]
    return _judge_equal(condition, [_normalize(value) for value in spellings], values)


class Values(NamedTuple):
    """The smallest values and the largest one, each with its type."""

    shown: Sequence[tuple[str, Any]]
    largest: tuple[str, Any]
    counted: int
    has_all: bool
    """Whether all runs that count have a value."""

    @property
    def is_complete(self) -> bool:
        return self.counted <= MOST_SHOWN

    @property
    def has_only_numbers(self) -> bool:
        """Return whether all are numbers: texts come before them, yes and no behind."""
        return self.shown[0][0] == self.largest[0] == "number"


@lru_cache(10_000)
def _load_values(text: str | None) -> tuple[tuple[str, Any], ...]:
    """Return the values of a list in JSON; the next request asks for the same ones."""
    return tuple(_normalize(value) for value in json.loads(text or "[]", parse_float=Decimal))


def _normalize(value: Any) -> tuple[str, Any]:
    """Return a value of JSON with its type, numbers by their exact size."""
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, int | float | Decimal):
        return "number", Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return "text", value


def _judge_missing(condition: Condition, *, is_parameter: bool) -> Judgement:
    """Judge where no run has a value that is stored."""
    if is_parameter and (not condition.value or condition.operator == "~"):
        return OPEN
    has_fulfilled = condition.operator == ("!=" if condition.value else "=")
    return ALL if has_fulfilled else NONE


def _judge_metric(condition: Condition, stored: StoredValue | None, runs: int) -> Judgement:
    if stored is None:
        return _judge_missing(condition, is_parameter=False)
    has_all = stored.runs == runs
    if not condition.value:
        is_known = condition.operator == "!="
        return Judgement(True, has_all) if is_known else Judgement(not has_all, False)
    low, high = stored.lowest, stored.highest
    if stored.counted < stored.runs or stored.unit is None or low is None or high is None:
        return OPEN
    limit = condition.convert_to(stored.unit)
    is_outside = limit is None or not low <= limit <= high
    if condition.operator == "!=":
        return Judgement(is_outside or low != high or not has_all, is_outside)
    if limit is None or (condition.operator == "=" and is_outside):
        return NONE
    if condition.operator == "=":
        return Judgement(True if limit in (low, high) else None, low == high and has_all)
    compare = COMPARE[condition.operator]
    at_ends = compare(low, limit), compare(high, limit)
    return Judgement(any(at_ends), all(at_ends) and has_all)


def _judge_limit(condition: Condition, values: Values) -> Judgement:
    """Judge a comparison of sizes, which numbers alone fulfil."""
    limit, compare = Decimal(repr(condition.parsed)), COMPARE[condition.operator]

    def fits(value: tuple[str, Any]) -> bool:
        kind, number = value
        return kind == "number" and compare(number, limit)

    if values.is_complete:
        return _judge_each([fits(value) for value in values.shown], values)
    if values.has_only_numbers:
        return _judge_each([fits(values.shown[0]), fits(values.largest)], values)
    return OPEN


def _judge_each(fitting: Sequence[bool], values: Values) -> Judgement:
    """Judge by whether each of all values fits; runs without one do not."""
    return Judgement(any(fitting), all(fitting) and values.has_all)


def _judge_equal(
    condition: Condition, spellings: Sequence[tuple[str, Any]], values: Values
) -> Judgement:
    """Judge whether values are one of these spellings, or none of them."""
    same = [value in spellings for value in (*values.shown, values.largest)]
    if condition.operator == "!=":
        if values.is_complete:
            return Judgement(not all(same) or not values.has_all, not any(same))
        return Judgement(True, False)  # there are more values than spellings of one
    if values.is_complete:
        return _judge_each(same, values)
    if any(same):
        return Judgement(True, False)
    if values.has_only_numbers and all(
        kind != "number" or not values.shown[0][1] <= number <= values.largest[1]
        for kind, number in spellings
    ):
        return NONE
    return OPEN


def _judge_part(part: str, values: Values, *, is_parameter: bool) -> Judgement:
    """Judge whether values contain a text, small letters or capitals.

    Other letters than those of ASCII have small ones and capitals by PostgreSQL's rules.
    """
    known = [*values.shown, values.largest]
    if not part.isascii() or not all(
        kind == "text" and text.isascii() and len(text) < LONGEST_TEXT for kind, text in known
    ):
        return OPEN
    fitting = [part.lower() in text.lower() for _, text in known]
    if any(fitting):
        return Judgement(True, values.is_complete and all(fitting) and values.has_all)
    # What is no text or number has a text, too, that is not stored.
    is_certain = values.is_complete and (values.has_all or not is_parameter)
    return NONE if is_certain else OPEN
