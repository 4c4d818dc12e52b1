"""The filters and the order of MLflow's searches, as conditions on the list of runs.

MLflow compares bare numbers, whatever their unit, and a comparison holds of no run that lacks the
value. What cannot be had so is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from django.db.models import Q

from dashboard.api.problems import Problem
from dashboard.execution.run_columns import OWN, Column, shorten
from dashboard.execution.run_conditions import (
    LONGEST_VALUE,
    MOST_CONDITIONS,
    OF_NUMBERS,
    Condition,
    make_condition,
)
from experiments.execution.stored_values import METRIC, PARAMETER
from experiments.models import Run

PART = re.compile(
    r"""\s*(?P<key>(?:\w+\s*\.\s*)?(?:`[^`]+`|"[^"]+"|[\w./-]+))
    \s*(?P<sign><=|>=|!=|=|<|>|\b(?:NOT\s+)?(?:I?LIKE|IN)\b)
    \s*(?P<value>'[^']*'|"[^"]*"|[-+]?[\d.]+(?:[eE][-+]?\d+)?|\((?:[^()'"]|'[^']*'|"[^"]*")*\))
    \s*(?P<next>AND\b|$)""",
    re.IGNORECASE | re.VERBOSE,
)
KEY = re.compile(r"(?:(?P<kind>\w+)\s*\.\s*)?(?P<name>`[^`]+`|\"[^\"]+\"|[\w./-]+)")
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
KINDS = {
    **dict.fromkeys(("metric", "metrics"), "metric"),
    **dict.fromkeys(("parameter", "parameters", "param", "params"), "parameter"),
    **dict.fromkeys(("tag", "tags"), "tag"),
    **dict.fromkeys(("", "attribute", "attributes", "attr", "run"), "attribute"),
}
LONGEST_FILTER = 10_000
TAGS = ("environment", "workload", "scale", "repeat", "node", "state", "reason", "cluster", "owner")
"""Tags by which runs are found: those that are columns of the list of runs."""
STATUSES = {
    "SCHEDULED": (Run.State.PLANNED,),
    "RUNNING": (Run.State.RUNNING,),
    "FINISHED": (Run.State.SUCCEEDED, Run.State.EXCLUDED),
    "FAILED": (Run.State.FAILED,),
    "KILLED": (Run.State.CANCELLED,),
}
"""MLflow's words for states of runs."""
ATTRIBUTES = {
    "status": OWN["state"],
    "start_time": OWN["began"],
    "end_time": OWN["ended"],
    "run_id": Column("run_id", "run_id", path="uid"),
}


@dataclass(frozen=True)
class BareNumber(Condition):
    """A comparison with a metric's number, in whatever unit it was measured."""

    def compare_metric(self, prefix: str = "") -> Q:
        return Q(**{f"{prefix}value__{self.lookup}": self.parsed})


@dataclass(frozen=True)
class OneOf(Condition):
    """A comparison with several values."""

    @property
    def lookup(self) -> str:
        return "in"


def refuse(sentence: str) -> Problem:
    """Return the answer to what cannot be had."""
    return Problem(HTTPStatus.BAD_REQUEST, sentence)


def read_filter(text: str) -> list[Condition]:
    """Return the conditions of a filter on runs. Raises Problem."""
    conditions: list[Condition] = []
    for key, sign, value in split_filter(text):
        column = find_column(key)
        if column.key == "state" and key[0] == "attribute":
            conditions += _compare_status(column, sign, value)
        elif column.kind == "metric":
            conditions += _compare_number(column, sign, value)
        elif column.kind == "time":
            conditions += _compare_time(column, sign, value)
        else:
            conditions += _compare_text(column, sign, value)
    return conditions


def split_filter(text: str) -> list[tuple[tuple[str, str], str, str]]:
    """Return the key (kind and name), the sign and the value of each part. Raises Problem."""
    if len(text) > LONGEST_FILTER:
        raise refuse(f"A filter has at most {LONGEST_FILTER:,} characters.")
    parts = []
    position, goes_on = 0, bool(text.strip())
    while goes_on:
        match = PART.match(text, position)
        if match is None:
            raise refuse(
                f"The filter cannot be read from “{shorten(text[position:].strip())}” on. It is "
                "comparisons joined by AND, such as: metrics.step_time > 0.1 AND "
                "params.batch_size = '256'."
            )
        sign = " ".join(match["sign"].upper().split())
        parts.append((_read_key(match["key"]), sign, match["value"]))
        if len(parts) > MOST_CONDITIONS:
            raise refuse(f"A filter has at most {MOST_CONDITIONS} comparisons.")
        position, goes_on = match.end(), bool(match["next"])
    return parts


def _read_key(text: str) -> tuple[str, str]:
    match = KEY.fullmatch(text.strip())
    kind = KINDS.get((match["kind"] or "").lower()) if match else None
    if match is None or kind is None:
        raise refuse(
            f"Runs are found by metrics, params, tags and attributes, not by “{shorten(text)}”."
        )
    return kind, match["name"].strip('`"')


def find_column(key: tuple[str, str]) -> Column:
    """Return the column that a key of MLflow names. Raises Problem."""
    kind, name = key
    if kind == "metric":
        return Column(METRIC + name, name, "metric")
    if kind == "parameter" and name.isidentifier():
        return Column(PARAMETER + name, name, "parameter")
    if kind == "parameter":
        raise refuse(f"There is no parameter “{shorten(name)}”.")
    known = {tag: OWN[tag] for tag in TAGS} if kind == "tag" else ATTRIBUTES
    if name not in known:
        raise refuse(
            f"Runs are not found or sorted by the {kind} “{shorten(name)}”, only by: "
            f"{', '.join(known)}."
        )
    return known[name]


def unquote(value: str) -> str:
    """Return the text of a value in quotes. Raises Problem."""
    if not QUOTED.fullmatch(value):
        raise refuse(f"A text stands in quotes: '{shorten(value)}'.")
    if len(value) > LONGEST_VALUE:
        raise refuse(f"A value has at most {LONGEST_VALUE} characters.")
    return value[1:-1]


def _list_texts(sign: str, value: str) -> list[str]:
    """Return the values of IN and NOT IN, or the one of another comparison."""
    if not sign.endswith("IN"):
        return [unquote(value)]
    return [unquote(text) for text in QUOTED.findall(value)]


def _with_value(condition: Condition) -> list[Condition]:
    """Return the condition and, where runs without a value would fulfil it, that there is one."""
    if condition.operator != "!=":
        return [condition]
    is_known = Condition(condition.column, "!=", "", "", ("", ""))
    return [condition, is_known]


def _compare_number(column: Column, sign: str, value: str) -> list[Condition]:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if sign not in OF_NUMBERS or not math.isfinite(number):
        raise refuse(f"The metric “{shorten(column.name)}” is compared with a number by =, <, > ….")
    return _with_value(BareNumber(column, sign, value, number, ("", "")))


def _compare_time(column: Column, sign: str, value: str) -> list[Condition]:
    try:
        moment = datetime.fromtimestamp(int(value) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        moment = None
    if sign not in OF_NUMBERS or moment is None:
        raise refuse("A time is compared with milliseconds since 1970 by =, <, > ….")
    return _with_value(Condition(column, sign, value, moment, ("", "")))


def _compare_status(column: Column, sign: str, value: str) -> list[Condition]:
    words = _list_texts(sign, value)
    operator = {"IN": "=", "NOT IN": "!="}.get(sign, sign)
    unknown = [word for word in words if word not in STATUSES]
    if operator not in ("=", "!=") or unknown:
        raise refuse(f"A status is compared by = and != with one of {', '.join(STATUSES)}.")
    states = [state for word in words for state in STATUSES[word]]
    return [OneOf(column, operator, value, states, ("", ""))]


def _compare_text(column: Column, sign: str, value: str) -> list[Condition]:
    if column.key == "run_id":
        if sign not in ("=", "IN"):
            raise refuse("A run_id is compared by = and IN.")
        return [OneOf(column, "=", value, _list_texts(sign, value), ("", ""))]
    text = unquote(value)
    if sign == "ILIKE":
        inner = text[1:-1] if len(text) > 1 and text[0] == text[-1] == "%" else "%"
        if not inner or "%" in inner or "_" in inner or column.kind == "number":
            raise refuse("ILIKE looks for a part of a text: ILIKE '%part%', without _ or other %.")
        return [_make(column, "~", inner)]
    if sign not in ("=", "!="):
        raise refuse(f"{sign} is not answered for {column.label}: there are =, != and ILIKE.")
    return _with_value(_make(column, sign, text))


def _make(column: Column, operator: str, text: str) -> Condition:
    if not text:
        raise refuse(f"{column.label} is compared with a text that is not empty.")
    try:
        return make_condition(column, operator, text)
    except ValueError as error:
        raise refuse(f"The filter makes no sense: {error}.") from error


def read_order(texts: Sequence[str]) -> tuple[Column, bool]:
    """Return the column by which runs are sorted, and whether in descending order. Raises Problem.

    Usually the newest one comes first, as in MLflow.
    """
    if not texts:
        return OWN["began"], True
    words = texts[0].strip()
    match = re.fullmatch(r"(?P<key>.+?)(?:\s+(?P<way>asc|desc))?", words, re.IGNORECASE | re.DOTALL)
    if len(texts) > 1 or match is None:
        raise refuse("Runs are sorted by one column, such as “metrics.step_time DESC”.")
    column = find_column(_read_key(match["key"]))
    is_descending = (match["way"] or "").lower() == "desc"
    return replace(column), is_descending


def read_experiment_filter(text: str) -> dict[str, Any]:
    """Return the lookups of a filter on experiments: their name is the question. Raises Problem."""
    lookups: dict[str, Any] = {}
    for (kind, name), sign, value in split_filter(text):
        if (kind, name) != ("attribute", "name") or sign not in ("=", "IN", "ILIKE"):
            raise refuse("Experiments are found by their name, with =, IN or ILIKE '%part%'.")
        if sign == "ILIKE":
            part = unquote(value)
            if len(part) < 3 or not part[0] == part[-1] == "%" or re.search("[%_]", part[1:-1]):
                raise refuse("ILIKE looks for a part of a name: ILIKE '%part%'.")
            lookups["question__icontains"] = part[1:-1]
        else:
            lookups["question__in"] = _list_texts(sign, value)
    return lookups
