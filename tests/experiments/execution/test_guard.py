"""Which failures concern one row alone, as the real database reports them."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connection, transaction

from experiments.execution.guard import is_about_the_visit

pytestmark = pytest.mark.django_db

TOO_DEEP = "SELECT repeat('[', 100000)::jsonb"
NOT_JSON = "SELECT '{'::jsonb"
NO_SUCH_TABLE = "SELECT 1 FROM there_is_no_such_table"


@pytest.mark.parametrize(
    ("statement", "of_the_visit"), [(TOO_DEEP, False), (NOT_JSON, False), (NO_SUCH_TABLE, True)]
)
def test_what_the_database_cannot_keep_of_one_row_stops_no_other(
    statement: str, of_the_visit: bool
) -> None:
    with (
        pytest.raises(DatabaseError) as raised,
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
    assert is_about_the_visit(raised.value) == of_the_visit
