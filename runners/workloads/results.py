"""Reads the numbers that a run has reported, and refuses those that cannot be right."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from runners.errors import Refused
from runners.untrusted import MOST_PARTS, has_many_parts

LONGEST_NAME = 100  # characters of a metric's, series' or phase's
LONGEST_UNIT = 30
LARGEST = 1e100  # of any number: squares and sums of larger ones are soon infinite
MOST_NAMES = 1000  # of metrics or series: each becomes a row, and no page shows as many


class SanityError(Refused):
    """A result that must not be shown or compared; the message says what is wrong with it."""


@dataclass(frozen=True)
class Metric:
    """A number that a run reports. The unit "1" means a plain number."""

    name: str
    unit: str
    better: Literal["lower", "higher"]
    label: str


@dataclass(frozen=True)
class Result:
    """The numbers of one run: metrics and series with their units, and seconds by phase."""

    measurements: dict[str, tuple[float, str]]
    series: dict[str, tuple[str, list[float]]]
    phases: dict[str, float]
    facts: dict[str, Any]
    steps: dict[str, list[int]] = field(default_factory=dict)
    """For series whose values are means of several steps: the last step of each value."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Metrics that are unknown because only the end of a file was fetched, and the reason."""
    note: str = ""
    """A sentence that users of these numbers have to know."""


def read_result(content: bytes | None, metrics: Sequence[Metric], primary: str) -> Result:
    """Parse the content of `result.json`. Raises SanityError unless all its numbers can be used."""
    document = parse(content)
    check_schema(document, "result")
    units = {metric.name: metric.unit for metric in metrics}
    measurements: dict[str, tuple[float, str]] = {}
    for name, entry in _parse_entries(document, "metrics").items():
        value, unit = parse_number(entry.get("value"), name), _parse_unit(entry, name)
        if name not in units:
            raise SanityError(f"the metric {name!r} is not one that this workload declares")
        if unit != units[name]:
            raise SanityError(f"{name} is in {unit!r}, and {units[name]!r} was declared")
        measurements[name] = (check_positive(value, unit, name), unit)
    if primary not in measurements:
        raise SanityError(f"the result has no {primary}, the metric that is compared")
    return Result(
        measurements,
        series={
            name: (_parse_unit(entry, name), _parse_numbers(entry.get("values"), name))
            for name, entry in _parse_entries(document, "series").items()
        },
        phases=read_phases(document, "phases"),
        facts=_require_table(document, "facts"),
    )


def read_phases(document: dict[str, Any], key: str) -> dict[str, float]:
    """Return the seconds of each phase in a table of the result. Raises SanityError."""
    return {
        parse_name(name): parse_number(seconds, f"phase {name!r}")
        for name, seconds in _require_table(document, key).items()
    }


def parse(content: bytes | None) -> dict[str, Any]:
    """Parse a JSON object. Raises SanityError for anything else."""
    if content is None:
        raise SanityError("the run left no result")
    if has_many_parts(content):
        raise SanityError(f"the result holds more than {MOST_PARTS:,} lists, tables and texts")
    try:
        document = json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise SanityError(f"the result is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise SanityError(f"the result is a JSON {type(document).__name__}, not an object")
    return document


def check_schema(document: Mapping[str, Any], what: str) -> None:
    """Raise SanityError unless the document has schema 1, the only known one."""
    schema = document.get("schema")
    if isinstance(schema, bool) or schema != 1:  # true equals 1 in Python
        raise SanityError(f"the {what} has schema {shorten_value(schema)}; schema 1 is known")


def _refuse_constant(text: str) -> NoReturn:
    raise SanityError(f"the result holds {text}, which is not a number")


def _require_table(document: dict[str, Any], name: str) -> dict[str, Any]:
    table = document.get(name)
    if not isinstance(table, dict):
        raise SanityError(f"the result has no table of {name}")
    return table


def _parse_entries(document: dict[str, Any], name: str) -> dict[str, dict[str, Any]]:
    table = _require_table(document, name)
    check_count(table, name)
    for key, entry in table.items():
        parse_name(key)
        if not isinstance(entry, dict):
            raise SanityError(
                f"{key!r} in {name} is {shorten_value(entry)}, not a value with a unit"
            )
    return table


def check_count(table: Mapping[str, Any], name: str) -> None:
    """Raise SanityError for more metrics or series than MOST_NAMES."""
    if len(table) > MOST_NAMES:
        raise SanityError(f"{len(table)} {name} were reported, and at most {MOST_NAMES} are kept")


def _parse_unit(entry: dict[str, Any], name: str) -> str:
    unit = entry.get("unit")
    if not isinstance(unit, str) or not unit:
        raise SanityError(f"{name} has no unit")
    if len(unit) > LONGEST_UNIT or not unit.isprintable():
        raise SanityError(
            f"the unit of {name} is {shorten_value(unit)}, not 1 to {LONGEST_UNIT} letters"
        )
    return unit


def _parse_numbers(values: Any, name: str) -> list[float]:
    if not isinstance(values, list):
        raise SanityError(f"the series {name!r} is not a list of numbers")
    if _are_plain_numbers(values):
        return [float(value) for value in values]
    return [parse_number(value, f"{name} at step {step}") for step, value in enumerate(values)]


def _are_plain_numbers(values: list[Any]) -> bool:
    """Return whether nothing is wrong with any of these, at a tenth of what asking each costs."""
    if not values or not set(map(type, values)) <= {int, float}:
        return False
    try:
        is_finite = math.isfinite(sum(map(abs, values)))
    except OverflowError:  # a whole number that no float holds
        return False
    return is_finite and min(values) >= -LARGEST and max(values) <= LARGEST


def parse_name(name: Any) -> str:
    """Return a name that databases and pages accept. Raises SanityError."""
    if not isinstance(name, str) or not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise SanityError(
            f"{shorten_value(name)} is no name: a text of at most {LONGEST_NAME} characters"
        )
    return name


def shorten_value(value: Any) -> str:
    """Return a value as messages repeat it."""
    text = repr(value)
    return text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}..."


def parse_number(value: Any, name: str) -> float:
    """Return a finite number of a JSON document. Raises SanityError with its `name`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SanityError(f"{name} is {shorten_value(value)}, which is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise SanityError(f"{name} is not a finite number")
    return check_size(number, name)


def check_size(number: float, name: str) -> float:
    """Raise SanityError for a finite number that statistics and charts cannot compute with."""
    if abs(number) > LARGEST:
        raise SanityError(f"{name} is {number:g}, which is beyond anything that is measured")
    return number


def check_positive(number: float, unit: str, name: str) -> float:
    """Raise SanityError for what a time, a size or a rate cannot be: zero, or less."""
    if unit != "1" and number <= 0:
        raise SanityError(f"{name} is {number:g} {unit}; it must be above zero")
    return number
