"""Tables whose columns have a type and a unit, of which files are written a part at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from itertools import repeat
from typing import Any, BinaryIO, Literal

Kind = Literal["text", "whole", "number", "time", "flag"]
Copy = Callable[[BinaryIO], None]
"""Writes rows to a file, as PostgreSQL's COPY writes CSV."""
Batch = Sequence[Sequence[Any]]
"""The values of some rows: one sequence for each column of the table."""
ROWS_AT_ONCE = 2000


@dataclass(frozen=True)
class Repeated(Sequence[Any]):
    """One value for all rows of a batch: a file makes its text once instead of once for each."""

    value: Any
    length: int

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, place: Any) -> Any:
        chosen = range(self.length)[place]
        return [self.value] * len(chosen) if isinstance(place, slice) else self.value

    def __iter__(self) -> Iterator[Any]:
        return repeat(self.value, self.length)


@dataclass(frozen=True)
class Spread(Sequence[Any]):
    """Values of which each stands so often, one after the other, as its count says."""

    values: Sequence[Any]
    counts: Sequence[int]

    def __len__(self) -> int:
        return sum(self.counts)

    def __getitem__(self, place: Any) -> Any:
        return list(self)[place]

    def __iter__(self) -> Iterator[Any]:
        for value, count in zip(self.values, self.counts, strict=True):
            yield from repeat(value, count)


@dataclass(frozen=True)
class TypedColumn:
    """A column: every value of it is of one kind, or missing (None)."""

    name: str
    kind: Kind = "text"
    unit: str = ""
    about: str = ""


@dataclass(frozen=True)
class TypedTable:
    """Columns, and their values in batches that are made when they are asked for."""

    columns: Sequence[TypedColumn]
    batches: Iterable[Batch]
    facts: Mapping[str, str] = field(default_factory=dict)
    """What a file says about all of its rows."""

    def change_texts(self, change: Callable[[str], str]) -> TypedTable:
        """Return the table with every text changed, so that names can be hidden in it."""
        change = cache(change)  # rows have most texts in common
        texts = [column.kind == "text" for column in self.columns]

        def change_text(value: Any) -> str | None:
            return None if value is None else change(write_text(value))

        def change_batches() -> Iterator[Batch]:
            for batch in self.batches:
                yield [
                    change_values(values, change_text) if is_text else values
                    for values, is_text in zip(batch, texts, strict=True)
                ]

        return TypedTable(
            [
                replace(column, name=change(column.name), about=change(column.about))
                for column in self.columns
            ],
            change_batches(),
            {name: change(text) for name, text in self.facts.items()},
        )


@dataclass(frozen=True)
class CopiedTable:
    """Columns, and parts of the rows that PostgreSQL writes as CSV when they are asked for.

    Before the columns stands one more, the key of the run, which is not of the file.
    """

    columns: Sequence[TypedColumn]
    parts: Iterable[Copy]


def change_values(values: Sequence[Any], change: Callable[[Any], Any]) -> Sequence[Any]:
    """Return the values with each of them changed, a repeated one once."""
    if isinstance(values, Repeated):
        return Repeated(change(values.value), values.length)
    if isinstance(values, Spread):
        return Spread([change(value) for value in values.values], values.counts)
    return [change(value) for value in values]


def make_table(
    columns: Sequence[TypedColumn],
    rows: Iterable[Mapping[str, Any]],
    facts: Mapping[str, str] | None = None,
) -> TypedTable:
    """Return the table of rows that have their values by the names of the columns."""
    by_name = {column.name: column for column in columns}  # of two of a name the last
    names = list(by_name)

    def collect_batches() -> Iterator[Batch]:
        batch: list[Mapping[str, Any]] = []
        for row in rows:
            batch.append(row)
            if len(batch) == ROWS_AT_ONCE:
                yield _turn(batch, names)
                batch = []
        if batch:
            yield _turn(batch, names)

    return TypedTable(list(by_name.values()), collect_batches(), facts or {})


def infer_columns(rows: Sequence[Mapping[str, Any]]) -> list[TypedColumn]:
    """Return the columns of rows of a few hundred, each of the kind that all its values have.

    Whole numbers are numbers here, as 1 and 1.5 may stand in one column. So is a column without
    any value: texts that are missing are empty ones.
    """
    columns = dict.fromkeys(name for row in rows for name in row)
    return [TypedColumn(name, _infer_kind([row.get(name) for row in rows])) for name in columns]


def write_text(value: Any) -> str:
    """Return a value as a text that files can hold; what is neither text nor number as JSON."""
    if isinstance(value, str):
        return str(value) if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bool | dict | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def read_number(value: Any) -> float | None:
    """Return a value as a number; None for what is missing or none. NaN stays NaN."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if value is None or value == "":
        return None
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    except (TypeError, ValueError):
        return None


def read_time(value: Any) -> datetime | None:
    """Return a time with its zone, given as one or in ISO 8601."""
    if isinstance(value, str):
        return datetime.fromisoformat(value) if value else None
    return value if isinstance(value, datetime) else None


def _turn(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Batch:
    return [[row.get(name) for row in rows] for name in names]


def _infer_kind(values: Sequence[Any]) -> Kind:
    known = [value for value in values if value is not None]
    if not known:
        return "number"
    if all(isinstance(value, bool) for value in known):
        return "flag"
    if all(isinstance(value, int | float) for value in known):
        return "number"
    if all(isinstance(value, datetime) for value in known):
        return "time"
    return "text"
