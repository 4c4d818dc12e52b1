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
LOST = ("26000", "42P05", "0A000")
"""PostgreSQL's codes for what it does not have as it was prepared: there is no such statement, or
already one, as a pool has given another connection; or a column has another type now.
"""

_prepared: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""The names of what was prepared, by connection."""


class PreparedStatement:
    """One statement, asked with other values each time."""

    keeps_plans = True
    """Of the whole process: whether its connections keep what was prepared. Behind a pool that
    hands out another one for each transaction they do not, and all is asked as it is then.
    """

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
        transaction, which that error has ended, only the next time.
        """
        if PreparedStatement.keeps_plans:
            try:
                return execute(self._prepare(), values)
            except DatabaseError as error:
                if getattr(error.__cause__, "pgcode", "") not in LOST:
                    raise
                PreparedStatement.keeps_plans = False
                if connection.in_atomic_block:
                    raise
        return execute(self._statement, tuple(self._replace_signs(values)))

    def _prepare(self) -> str:
        """Return SQL that executes the statement, prepared on the connection of this thread."""
        connection.ensure_connection()
        names = _prepared.setdefault(connection.connection, set())
        if self._name not in names:
            with connection.wrap_database_errors, connection.connection.cursor() as cursor:
                # Else the first five are planned for their values each.
                cursor.execute("SET plan_cache_mode = force_generic_plan")
                cursor.execute(f"PREPARE {self._name} AS {self._text}")
            names.add(self._name)
        return self._execution

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
    def _execution(self) -> str:
        places = f"({', '.join(['%s'] * len(self._signs))})" if self._signs else ""
        return f"EXECUTE {self._name}{places}"

    def _replace_signs(self, values: Sequence[Any]) -> list[Any]:
        value_of = dict(zip(self._signs, values, strict=True))
        return [
            value_of[parameter] if self._is_sign(parameter) else parameter
            for parameter in self._parameters
        ]

    def _is_sign(self, parameter: Any) -> bool:
        return isinstance(parameter, int | str) and parameter in self._signs


def fetch_all(statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of a statement."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cast(list[tuple[Any, ...]], cursor.fetchall())
