"""Rows of a kept comparison as columns: each row is made when somebody asks for it.

A comparison of 20,000 runs has 40,000 such rows, of which most sections of its page show none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress
from typing import Any, Generic, TypeVar, overload

from experiments.comparisons.coded_columns import LazyColumn

Kind = TypeVar("Kind")
PORTION = 256
"""Rows that are made at once: whoever looks for one that fits may stop early."""


class KeptRows(Sequence[Kind]):
    """Rows of one dataclass; equal to a list of the same rows. The values are checked before."""

    def __init__(self, kind: type[Kind], columns: Mapping[str, Sequence[Any] | LazyColumn]) -> None:
        self._kind = kind
        self._columns = columns
        self._names = list(columns)
        lengths = {len(column) for column in columns.values()}
        if len(lengths) != 1:
            raise ValueError("The columns are not equally long.")
        (self._length,) = lengths
        self._rows: list[Kind] = []

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> Kind: ...

    @overload
    def __getitem__(self, place: slice) -> list[Kind]: ...

    def __getitem__(self, place: int | slice) -> Kind | list[Kind]:
        self._make_until(self._length)
        return self._rows[place]

    def __iter__(self) -> Iterator[Kind]:
        for start in range(0, self._length, PORTION):
            self._make_until(start + PORTION)
            yield from self._rows[start : start + PORTION]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list | KeptRows):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __repr__(self) -> str:
        return repr(list(self))

    def read_column(self, name: str) -> Sequence[Any]:
        """Return one field of all rows, without making any."""
        column = self._columns[name]
        return column.values if isinstance(column, LazyColumn) else column

    def pick(self, name: str, value: Any) -> list[Kind]:
        """Return the rows with this value in a field, without making any other."""
        picked = [each == value for each in self.read_column(name)]
        columns = (compress(self.read_column(each), picked) for each in self._names)
        return [self._make(values) for values in zip(*columns, strict=True)]

    def _make_until(self, stop: int) -> None:
        made = len(self._rows)
        if made < min(stop, self._length):
            columns = (self.read_column(name)[made:stop] for name in self._names)
            self._rows += [self._make(values) for values in zip(*columns, strict=True)]

    def _make(self, values: Sequence[Any]) -> Kind:
        """Return a dataclass of checked values: a frozen one's own way sets each through a call."""
        row = object.__new__(self._kind)
        row.__dict__.update(zip(self._names, values, strict=True))
        return row


class KeptMapping(Mapping[str, Kind], Generic[Kind]):
    """Rows by their keys; equal to a dictionary of the same rows.

    Their places are listed when somebody asks for one: few pages do.
    """

    def __init__(self, keys: Sequence[str] | LazyColumn, rows: KeptRows[Kind]) -> None:
        if len(keys) != len(rows):
            raise ValueError("There are not as many keys as rows.")
        self._keys = keys
        self._rows = rows

    @cached_property
    def _places(self) -> dict[str, int]:
        """Return the place of each key. ValueError if one stands there twice."""
        keys = self._keys.values if isinstance(self._keys, LazyColumn) else self._keys
        places = dict(zip(keys, range(len(keys)), strict=True))
        if len(places) != len(keys):
            raise ValueError("A key stands there twice.")
        return places

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __getitem__(self, key: str) -> Kind:
        return self._rows[self._places[key]]

    def values(self) -> Any:
        """Return the rows in the order of their keys."""
        return self._rows

    def __repr__(self) -> str:
        return repr(dict(self))


def read_column(rows: Iterable[Any], name: str) -> Sequence[Any]:
    """Return one field of all rows; of kept ones none is made for it."""
    if isinstance(rows, KeptRows):
        return rows.read_column(name)
    return [getattr(row, name) for row in rows]


def pick_rows(rows: Iterable[Kind], name: str, value: Any) -> list[Kind]:
    """Return the rows with this value in a field; of kept ones no other is made for it."""
    if isinstance(rows, KeptRows):
        return rows.pick(name, value)
    return [row for row in rows if getattr(row, name) == value]
