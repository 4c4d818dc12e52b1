"""Statements that are prepared once a connection give what the plain ones give."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from experiments.execution import live_marks
from experiments.models import Role, User
from experiments.models.compiled_rows import KEY, TEXT
from experiments.models.prepared_statements import PreparedStatement
from tests.factories import UserFactory

PERCENT = "SELECT id, username, '100 %%', %s FROM experiments_user WHERE id = %s OR username = %s"


@pytest.fixture
def people() -> PreparedStatement:
    return PreparedStatement(PERCENT, ["it's 50 %", KEY, TEXT], (KEY, TEXT))


@pytest.fixture(autouse=True)
def kept_plans() -> Iterator[None]:
    yield
    PreparedStatement.keeps_plans = True


def list_prepared() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements WHERE name LIKE 'tare%'")
        return [statement for (statement,) in cursor.fetchall()]


@pytest.mark.django_db
def test_a_statement_is_prepared_once_and_asked_with_other_values(
    people: PreparedStatement,
) -> None:
    rows = [UserFactory(), UserFactory()]
    before = len(list_prepared())
    with CaptureQueriesContext(connection) as queries:
        for row in rows:
            assert people.fetch(row.pk, "") == [(row.pk, row.username, "100 %", "it's 50 %")]
    assert [query["sql"][:7] for query in queries] == ["EXECUTE", "EXECUTE"]
    assert len(list_prepared()) <= before + 1
    assert people.fetch(0, "' OR true --") == []
    assert len(people.fetch(rows[0].pk, rows[1].username)) == 2


@pytest.mark.django_db(transaction=True)
def test_no_plan_is_made_for_one_value(people: PreparedStatement) -> None:
    connection.close()
    people.fetch(1, "")
    with connection.cursor() as cursor:
        cursor.execute("SHOW plan_cache_mode")
        assert cursor.fetchone() == ("force_generic_plan",)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("lost", ["DEALLOCATE ALL", "another one of its name"])
def test_a_connection_that_loses_what_was_prepared_is_asked_plainly(
    lost: str, people: PreparedStatement
) -> None:
    """As behind a pool that hands out another connection for each transaction."""
    row = UserFactory()
    expected = [(row.pk, row.username, "100 %", "it's 50 %")]
    with connection.cursor() as cursor:
        if lost == "DEALLOCATE ALL":
            assert people.fetch(row.pk, "") == expected
            cursor.execute(lost)
        else:
            connection.close()
            connection.connect()
            connection.cursor().execute(f"PREPARE {people._name} AS SELECT 1")
    assert people.fetch(row.pk, "") == expected
    assert not PreparedStatement.keeps_plans
    assert people.fetch(row.pk, "") == expected
    connection.close()  # what it believes to have prepared goes with it


@pytest.mark.django_db(transaction=True)
def test_inside_a_transaction_it_is_asked_plainly_from_the_next_one_on(
    people: PreparedStatement,
) -> None:
    """PostgreSQL has ended the transaction in which it did not know the statement."""
    row = UserFactory()
    people.fetch(row.pk, "")
    with connection.cursor() as cursor:
        cursor.execute("DEALLOCATE ALL")
    with pytest.raises(DatabaseError, match="does not exist"), transaction.atomic():
        people.fetch(row.pk, "")
    with transaction.atomic():
        assert people.fetch(row.pk, "") == [(row.pk, row.username, "100 %", "it's 50 %")]
    connection.close()  # what it believes to have prepared goes with it


@pytest.mark.django_db(transaction=True)
def test_a_new_connection_prepares_anew(people: PreparedStatement) -> None:
    row = UserFactory()
    for _ in range(2):
        assert people.fetch(row.pk, "")[0][0] == row.pk
        connection.close()
    assert PreparedStatement.keeps_plans


@pytest.mark.django_db(transaction=True)
def test_any_other_error_is_told() -> None:
    division = PreparedStatement("SELECT 1 / %s", [KEY], (KEY,))
    with pytest.raises(DatabaseError, match="division by zero"):
        division.fetch(0)
    assert division.fetch(1) == [(1,)]
    assert PreparedStatement.keeps_plans


def test_a_sign_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="has no place"):
        PreparedStatement("SELECT 1", [], (KEY,))


@pytest.mark.django_db
@pytest.mark.parametrize("role", [*Role, "superuser"])
def test_marks_are_those_of_the_plain_statements(role: str) -> None:
    columns = {"is_superuser": True} if role == "superuser" else {"role": role}
    reader: User = UserFactory(**columns)
    for mark, values in (
        (live_marks.OVERVIEW, ()),
        (live_marks.CATALOGUE, ()),
        (live_marks.IMAGE, (1,)),
        (live_marks.STUDY, (1,)),
        (live_marks.CREDENTIAL, (1,)),
    ):
        prepared = mark.read(reader, *values)
        PreparedStatement.keeps_plans = False
        assert mark.read(reader, *values) == prepared
        PreparedStatement.keeps_plans = True
