"""Dataclasses as plain values for JSON and back, strictly: what does not fit is a ValueError.

Rows of a list or a mapping stand as columns, which is a third of the size and quicker to check.
Long ones are coded, and decoded when somebody asks for them (`coded_columns`).
"""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from itertools import chain
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from experiments.comparisons.coded_columns import (
    Coded,
    FewValues,
    Floats,
    LazyColumn,
    code_column,
)
from experiments.comparisons.kept_rows import KeptMapping, KeptRows

Reader = Callable[[Any], Any]
NUMBERS: set[type] = {float, int}
BARE: dict[Any, set[type]] = {float: NUMBERS, int: {int}, str: {str}, bool: {bool}}
"""The types of which values are read as they are. An integer is a number, too."""
KEYS, COLUMNS = "keys", "columns"


def write_plain(value: Any) -> Any:
    """Return a value, be it of dataclasses, as JSON takes it. TypeError for what it does not."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    if is_dataclass(value):
        return {name: write_plain(getattr(value, name)) for name in _list_names(value)}
    if isinstance(value, Mapping):
        rows = list(value.values())
        if _are_rows(rows):
            return {KEYS: code_column(list(value)), **_write_rows(rows)}
        return {str(name): write_plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return _write_rows(value) if _are_rows(value) else [write_plain(part) for part in value]
    raise TypeError(f"{type(value).__name__} is not kept.")


def read_plain(hint: Any, plain: Any) -> Any:
    """Return the value of the type `hint` of which `write_plain` made `plain`."""
    return _make_reader(hint)(plain)


def _are_rows(values: Sequence[Any]) -> bool:
    return bool(values) and is_dataclass(values[0])


def _write_rows(rows: Sequence[Any]) -> dict[str, Any]:
    names = _list_names(rows[0])
    columns = {name: [write_plain(getattr(row, name)) for row in rows] for name in names}
    return {COLUMNS: {name: code_column(column) for name, column in columns.items()}}


def _list_names(row: Any) -> list[str]:
    kind: Any = type(row)
    return list(_read_hints(kind))


@cache
def _read_hints(kind: Any) -> dict[str, Any]:
    """Return the types of a dataclass's fields; class variables are none of them."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


@cache
def _make_reader(hint: Any) -> Reader:
    """Return the function that reads values of a type. TypeError for a type that is not kept."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (other,) = (part for part in arguments if part is not type(None))
        return _make_optional_reader(_make_reader(other))
    if origin is Literal:
        return _make_choice_reader(arguments)
    if origin is tuple:
        return _make_tuple_reader(arguments)
    if origin in (list, Sequence):
        return _make_list_reader(arguments[0], is_lazy=origin is Sequence)
    if origin in (dict, Mapping, Counter):
        return _make_mapping_reader(arguments[-1] if origin is not Counter else int, hint)
    if is_dataclass(hint):
        return _make_dataclass_reader(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    return _make_scalar_reader(hint)


def _make_scalar_reader(hint: Any) -> Reader:
    if hint is datetime:
        return lambda plain: datetime.fromisoformat(_require(plain, {str}))
    kinds = BARE.get(hint)
    if kinds is None:
        raise TypeError(f"{hint} is not kept.")
    return lambda plain: _require(plain, kinds)


def _require(plain: Any, kinds: Iterable[type]) -> Any:
    if type(plain) not in kinds:
        raise ValueError(f"{type(plain).__name__} is of another type.")
    return plain


def _make_optional_reader(read: Reader) -> Reader:
    return lambda plain: None if plain is None else read(plain)


def _make_choice_reader(choices: tuple[Any, ...]) -> Reader:
    def read(plain: Any) -> Any:
        if type(plain) is not str or plain not in choices:
            raise ValueError("It is none of the choices.")
        return plain

    return read


def _make_tuple_reader(arguments: tuple[Any, ...]) -> Reader:
    if arguments[-1] is Ellipsis:
        read_all = _make_list_reader(arguments[0])
        return lambda plain: tuple(read_all(plain))
    readers = [_make_reader(argument) for argument in arguments]

    def read(plain: Any) -> Any:
        parts = zip(readers, _require(plain, {list}), strict=True)
        return tuple(read_part(part) for read_part, part in parts)

    return read


def _make_list_reader(hint: Any, *, is_lazy: bool = False) -> Reader:
    read_column = _make_column_reader(hint)
    if not is_dataclass(hint):
        return read_column
    read_rows = _make_rows_reader(hint)

    def read(plain: Any) -> Any:
        if plain == []:
            return []
        rows = read_rows(plain, {COLUMNS})
        return rows if is_lazy else list(rows)

    return read


def _make_mapping_reader(hint: Any, kind: Any) -> Reader:
    make: Any = Counter if get_origin(kind) is Counter else dict
    read_names = _make_column_reader(get_args(kind)[0])
    if is_dataclass(hint):
        read_rows = _make_rows_reader(hint)
        read_keys = _make_coded_reader(get_args(kind)[0])

        def read_by_key(plain: Any) -> Any:
            if plain == {}:
                return {}
            rows = read_rows(plain, {KEYS, COLUMNS})
            kept: KeptMapping[Any] = KeptMapping(read_keys(plain[KEYS]), rows)
            return kept if get_origin(kind) is Mapping else dict(kept)

        return read_by_key
    read_values = _make_column_reader(hint)

    def read(plain: Any) -> Any:
        _require(plain, {dict})
        return make(
            dict(zip(read_names(list(plain)), read_values(list(plain.values())), strict=True))
        )

    return read


def _make_dataclass_reader(kind: Any) -> Reader:
    readers = {name: _make_reader(hint) for name, hint in _read_hints(kind).items()}

    def read(plain: Any) -> Any:
        if _require(plain, {dict}).keys() != readers.keys():
            raise ValueError(f"{kind.__name__} has other fields.")
        return kind(**{name: read_field(plain[name]) for name, read_field in readers.items()})

    return read


def _make_rows_reader(kind: Any) -> Callable[[Any, set[str]], KeptRows[Any]]:
    """Return the function that reads rows: the types of all values are checked at once."""
    readers = {name: _make_coded_reader(hint) for name, hint in _read_hints(kind).items()}

    def read(plain: Any, parts: set[str]) -> KeptRows[Any]:
        if _require(plain, {dict}).keys() != parts:
            raise ValueError("These are no rows.")
        columns = _require(plain[COLUMNS], {dict})
        if columns.keys() != readers.keys():
            raise ValueError(f"{kind.__name__} has other fields.")
        return KeptRows(
            kind, {name: read_column(columns[name]) for name, read_column in readers.items()}
        )

    return read


def _make_coded_reader(hint: Any) -> Reader:
    """Return the function that reads a column of rows, which may be coded.

    The types of what is coded are checked at once, and its values made when somebody asks.
    """
    read_column = _make_column_reader(hint)

    def read(plain: Any) -> Any:
        if not isinstance(plain, Coded):
            return read_column(plain)
        if isinstance(plain, FewValues):
            values = read_column(plain.values)
            return LazyColumn(len(plain), lambda: plain.decode(values))
        if isinstance(plain, Floats):
            read_column([0.0, None] if plain.missing else [0.0])
        elif hint is not str:
            return read_column(plain.decode())
        return LazyColumn(len(plain), plain.decode)

    return read


def _make_column_reader(hint: Any) -> Reader:
    """Return the function that reads a list; of bare values it checks all types at once."""
    kinds = BARE.get(hint)
    if kinds is None and get_origin(hint) in (Union, types.UnionType):
        (other,) = (part for part in get_args(hint) if part is not type(None))
        kinds = {*BARE[other], type(None)} if other in BARE else None
    if kinds is not None:
        return _make_bare_column_reader(kinds)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _make_enum_column_reader(hint)
    if get_origin(hint) is tuple and get_args(hint)[-1] is Ellipsis and get_args(hint)[0] in BARE:
        return _make_tuple_column_reader(BARE[get_args(hint)[0]])
    read_value = _make_reader(hint)
    return lambda plain: [read_value(value) for value in _require(plain, {list})]


def _make_enum_column_reader(kind: type[Enum]) -> Reader:
    """Return the function that reads a list of members: each is looked for once."""

    def read(plain: Any) -> Any:
        members: dict[Any, Enum] = {}
        for value in _require(plain, {list}):
            if type(value) is not str:
                raise ValueError(f"{type(value).__name__} is of another type.")
            if value not in members:
                members[value] = kind(value)
        return [members[value] for value in plain]

    return read


def _make_tuple_column_reader(kinds: set[type]) -> Reader:
    """Return the function that reads a list of tuples of bare values, all types checked at once."""

    def read(plain: Any) -> Any:
        if not set(map(type, _require(plain, {list}))) <= {list}:
            raise ValueError("A value is no list.")
        if not set(map(type, chain.from_iterable(plain))) <= kinds:
            raise ValueError("A value is of another type.")
        return list(map(tuple, plain))

    return read


def _make_bare_column_reader(kinds: set[type]) -> Reader:
    def read(plain: Any) -> Any:
        if not set(map(type, _require(plain, {list}))) <= kinds:
            raise ValueError("A value is of another type.")
        return plain

    return read
