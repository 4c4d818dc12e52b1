"""Querysets whose SQL is made once a process, for what pages ask every few seconds.

Django makes a queryset's SQL anew for each request. For a row with eight others that it is shown
with that takes 2.5 ms, more than PostgreSQL takes to find them. It is planned once a connection.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

from django.contrib.auth import get_user_model
from django.db import DEFAULT_DB_ALIAS, connection, models
from django.db.models.expressions import RawSQL

from experiments.models.prepared_statements import PreparedStatement, Sign

Row = TypeVar("Row", bound=models.Model)
KEY, OTHER_KEY, READER, TEXT = -1_804_289_384, -1_804_289_385, -1_804_289_386, "\x01 no text"
"""Signs for keys of rows, for that of a reader, and for texts."""


def select_sql(
    statement: str, *parameters: object, output_field: models.Field[Any, Any] | None = None
) -> RawSQL:
    """Return an expression of SQL that stands in the program, for `annotate`."""
    return RawSQL(statement, parameters, output_field)  # noqa: S611 -- nobody sends it


def select_json(statement: str) -> RawSQL:
    """Return the same for a statement whose value is JSON."""
    return select_sql(statement, output_field=models.JSONField())


class CompiledRows(Generic[Row]):
    """The rows of one queryset, for other values each time.

    The queryset may depend on nothing but these values: its SQL stays the same as long as the
    process lives.
    """

    def __init__(self, make: Callable[..., models.QuerySet[Row]], *signs: Sign) -> None:
        """`make` returns the queryset for values; for each of them a sign is given.

        A sign has the type of its values, and is no value that the queryset has of its own.
        """
        self._make = make
        self._signs = signs

    @cached_property
    def _rows(self) -> models.QuerySet[Row]:
        return self._make(*self._signs)

    @cached_property
    def _compiler(self) -> Any:
        """Return what has made the SQL, and knows which columns make which rows."""
        compiler: Any = self._rows.query.get_compiler(DEFAULT_DB_ALIAS)
        statement, parameters = compiler.as_sql()
        compiler.prepared = PreparedStatement(statement, parameters, self._signs)
        columns = [column for column, *_ in compiler.select[: compiler.col_count]]
        compiler.converters = compiler.get_converters(columns)
        return compiler

    def read(self, *values: Sign) -> list[Row]:
        """Return the rows for these values, as many as there are signs; one statement."""
        return cast(list[Row], self._compiler.prepared.run(self._execute, *values))

    def _execute(self, statement: str, parameters: tuple[Any, ...]) -> list[Row]:
        compiler = copy(self._compiler)
        compiler.connection = connection  # that of this thread
        compiler.as_sql = lambda *_, **__: (statement, parameters)
        compiler.get_converters = lambda _: compiler.converters
        rows = self._rows.all()
        rows.query.get_compiler = lambda *_, **__: compiler  # type: ignore[method-assign]
        return list(rows)

    def find(self, *values: Sign) -> Row | None:
        """Return the only row for these values; None if there is none."""
        return next(iter(self.read(*values)), None)


class CompiledReaderRows(Generic[Row]):
    """Rows that a person who has logged in may view, for another one each time."""

    def __init__(self, make: Callable[..., models.QuerySet[Row]], *signs: Sign) -> None:
        """`make` returns the queryset for a person, of whom it asks whether they are a site
        administrator, and the key; and for values, for each of which a sign is given.
        """
        person = get_user_model()
        self._of_member = CompiledRows(
            lambda pk, *values: make(person(pk=pk), *values), READER, *signs
        )
        self._of_administrator = CompiledRows(
            lambda *values: make(person(is_superuser=True), *values), *signs
        )

    def read(self, reader: Any, *values: Sign) -> list[Row]:
        """Return the rows for a reader and these values; one statement."""
        if reader.is_superuser:
            return self._of_administrator.read(*values)
        return self._of_member.read(reader.pk, *values)

    def find(self, reader: Any, *values: Sign) -> Row | None:
        """Return the only row for a reader and these values; None if there is none."""
        return next(iter(self.read(reader, *values)), None)
