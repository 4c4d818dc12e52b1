"""What a format of tables is, and the strict reading of JSON that several of them share."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from typing import Any

from experiments.statistics.published.printed import TableError
from experiments.statistics.published.sheets import MOST_ROWS, Sheet

SECONDS = {"s": "1", "ms": "1e-3", "us": "1e-6", "ns": "1e-9"}
ENVIRONMENT_NAME = re.compile(r"(environment|env|container|runtime|image)", re.IGNORECASE)
"""Parameters of these names say in what something was measured."""


@dataclass(frozen=True)
class Format:
    """A form in which results lie in files: `recognise` looks at a text, `read` makes its sheet.

    `name` completes "This is ..."; `values` says for page and docs what is taken as one value.
    """

    name: str
    values: str
    recognise: Callable[[str], bool]
    read: Callable[[str, str], Sheet]
    """Read a text, with how a person says that its numbers are written ("" or a decimal sign)."""


class Number(str):
    """A number of a JSON document, as it is written there."""

    __slots__ = ()


def load_json(text: str) -> Any:
    """Return a JSON document whose numbers, with NaN and Infinity, are texts of `Number`.

    TableError: no JSON, nested too deeply, or a key that an object has twice.
    """
    try:
        return json.loads(
            text.lstrip("\ufeff"),
            parse_float=Number,
            parse_int=Number,
            parse_constant=Number,
            object_pairs_hook=_make_object,
        )
    except RecursionError:
        raise TableError("This is JSON that is nested too deeply.") from None
    except json.JSONDecodeError as error:
        raise TableError(
            f"This looks like JSON and breaks off or is wrong in line {error.lineno}: {error.msg}."
        ) from None


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise TableError(f"This is JSON in which an object has the key {twice!r} twice.")
    return made


def is_json(text: str) -> bool:
    """Return whether a text can be nothing but JSON."""
    return text.lstrip("\ufeff \t\r\n").startswith(("{", "["))


def require_list(value: Any, what: str) -> list[Any]:
    """Return a list that is not empty. TableError names it."""
    if not isinstance(value, list) or not value:
        raise TableError(f"{what} is not a list with anything in it.")
    return value


def require_object(value: Any, what: str) -> dict[str, Any]:
    """Return an object of JSON. TableError names it."""
    if not isinstance(value, dict):
        raise TableError(f"{what} is not an object of JSON.")
    return value


def get_object(value: Any) -> dict[str, Any]:
    """Return an object of JSON, an empty one where something else stands in its place."""
    return value if isinstance(value, dict) else {}


def name_parameters(parameters: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """Return the column of each parameter: its name, unless a column of the format has it."""
    names = dict.fromkeys(" ".join(name.split()) or "parameter" for name in parameters)
    return {name: f"{name} (parameter)" if name in set(taken) else name for name in names}


def make_text(value: Any) -> str:
    """Return a value of JSON as the text of a cell; "" for null and what no cell holds."""
    if value is None or isinstance(value, dict | list):
        return ""
    return str(value).lower() if isinstance(value, bool) else " ".join(str(value).split())


def to_seconds(text: str, unit: str) -> str:
    """Return a number of a unit of `SECONDS` in seconds, exactly; other texts as they are."""
    try:
        value = Decimal(text) * Decimal(SECONDS[unit])
    except DecimalException:
        return text
    return str(value) if value.is_finite() else text


def mean_of(texts: Sequence[str]) -> str:
    """Return the mean of numbers as text; the first text that is no finite number instead."""
    values = []
    for text in texts:
        try:
            value = Decimal(text)
        except DecimalException:
            return text
        if not value.is_finite() or value < 0:
            return text
        values.append(value)
    return str(float(sum(values) / len(values)))


def rows_from(
    header: Sequence[str], rows: Iterable[Mapping[str, str]]
) -> list[tuple[int, list[str]]]:
    """Return rows of a sheet, numbered as a spreadsheet would: the header is row 1."""
    made = [(number, [row.get(name, "") for name in header]) for number, row in enumerate(rows, 2)]
    if not made:
        raise TableError("There is no value in it.")
    if len(made) > MOST_ROWS:
        raise TableError(f"These are {len(made):,} values; {MOST_ROWS:,} are read at most.")
    return made


def roles_of_parameters(
    parameters: Iterable[str], program: str, programs: Iterable[str]
) -> dict[str, str]:
    """Return the roles of a program's column and of its parameters.

    The parameter that is named for it is the environment; else the only parameter of an only
    program; else the program. All others tell configurations apart.
    """
    names = list(parameters)
    roles = {program: "environment", **dict.fromkeys(names, "label")}
    named = [name for name in names if ENVIRONMENT_NAME.fullmatch(name)]
    environment = named[0] if named else names[0] if len(names) == len(set(programs)) == 1 else ""
    if environment:
        roles |= {program: "label", environment: "environment"}
    return roles
