"""Statements that PostgreSQL plans once a connection, for what pages ask every few seconds.

To plan a statement with the rules of who may view what takes it up to 3 ms, several times as long
as to answer it; by its parameters alone the plan does not change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from django.db import DatabaseError, connection

Answer = TypeVar("Answer")
Sign = int | str
"""Stands for a value in the SQL: no row has it."""
LOST = ("26000", "42P05")
"""PostgreSQL's codes for what it does not have as it was prepared: there is no such statement, or
already one, as a pool has given another connection.
"""
CHANGED = "0A000"
"""Its code for a statement with a column that has another type since it was prepared."""
GENERIC = "SET plan_cache_mode = force_generic_plan"
"""Else the first five executions are planned for their values each."""
LARGEST = 2**63 - 1
"""The largest number of a column; it makes an error of a larger one, and finds no row plainly."""

_prepared: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""The names of what was prepared, by connection, and GENERIC where that is set."""


class PreparedStatement:
    """One statement, asked with other values each time."""

    keeps_plans = True
    """Of the whole process: whether its connections keep what was prepared. Behind a pool that
    hands out another one for each transaction they do not, and all is asked as it is then.
    """
    changes = 0
    """How often the process has seen that a column has another type: then all is prepared anew."""

    def __init__(self, statement: str, parameters: Sequence[Any], signs: Sequence[Sign]) -> None:
        """`parameters` holds a sign where a value goes; all others are the statement's own.

        Raises ValueError for a sign that has no place.
        """
        missing = [sign for sign in signs if sign not in parameters]
        if missing:
            raise ValueError(f"The statement has no place for {missing}.")
        self._statement, self._parameters, self._signs = statement, tuple(parameters), signs

    def fetch(self, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows for these values, as many as there are signs."""
        return self.run(fetch_all, *values)

    def run(self, execute: Callable[[str, tuple[Any, ...]], Answer], *values: Any) -> Answer:
        """Return what `execute` answers to the statement and its parameters for these values.

        Once more to the plain statement where the connection has not kept it: inside of a
        transaction, which that error has ended, only the next time. So it is with a column that
        has got another type; all is prepared anew then, under other names.
        """
        if PreparedStatement.keeps_plans and not any(map(_is_too_large, values)):
            changes = PreparedStatement.changes
            try:
                return execute(self._prepare(changes), values)
            except DatabaseError as error:
                code = getattr(error.__cause__, "pgcode", "")
                if code == CHANGED:
                    PreparedStatement.changes = changes + 1
                elif code in LOST:
                    PreparedStatement.keeps_plans = False
                else:
                    raise
                if connection.in_atomic_block:
                    raise
        return execute(self._statement, tuple(self._replace_signs(values)))

    def _prepare(self, changes: int) -> str:
        """Return SQL that executes the statement, prepared on the connection of this thread."""
        # As each cursor of Django's does: a server may have been restarted since the last request.
        connection.close_if_health_check_failed()
        connection.ensure_connection()
        names = _prepared.setdefault(connection.connection, set())
        name = f"{self._name}_{changes}"
        if {name, GENERIC} <= names:
            return f"EXECUTE {name}{self._places}"
        text = self._text
        with connection.wrap_database_errors, connection.connection.cursor() as cursor:
            if GENERIC not in names:
                cursor.execute(GENERIC)
                # A transaction that is rolled back takes this with it, not what it has prepared.
                if not connection.in_atomic_block:
                    names.add(GENERIC)
            if name not in names:
                cursor.execute(f"PREPARE {name} AS {text}")
                names.add(name)
        return f"EXECUTE {name}{self._places}"

    @cached_property
    def _text(self) -> str:
        """Return the statement with its own parameters in it, and $1, $2 ... for values."""
        place_of = {sign: f"${number}" for number, sign in enumerate(self._signs, 1)}
        with connection.cursor() as cursor:
            return self._statement % tuple(
                place_of[parameter]
                if self._is_sign(parameter)
                else cursor.mogrify("%s", [parameter]).decode()
                for parameter in self._parameters
            )

    @cached_property
    def _name(self) -> str:
        return f"tare_{hashlib.sha256(self._text.encode()).hexdigest()[:32]}"

    @cached_property
    def _places(self) -> str:
        return f"({', '.join(['%s'] * len(self._signs))})" if self._signs else ""

    def _replace_signs(self, values: Sequence[Any]) -> list[Any]:
        value_of = dict(zip(self._signs, values, strict=True))
        return [
            value_of[parameter] if self._is_sign(parameter) else parameter
            for parameter in self._parameters
        ]

    def _is_sign(self, parameter: Any) -> bool:
        return isinstance(parameter, int | str) and parameter in self._signs


def _is_too_large(value: Any) -> bool:
    return isinstance(value, int) and abs(value) > LARGEST


def fetch_all(statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of a statement."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cast(list[tuple[Any, ...]], cursor.fetchall())
