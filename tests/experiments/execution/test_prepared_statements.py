"""Statements that are prepared once a connection give what the plain ones give."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from django.db import DatabaseError, connection
from django.db.transaction import atomic
from django.test import Client
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
    PreparedStatement.changes = 0


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
            connection.cursor().execute(f"PREPARE {people._name}_0 AS SELECT 1")
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
    with pytest.raises(DatabaseError, match="does not exist"), atomic():
        people.fetch(row.pk, "")
    with atomic():
        assert people.fetch(row.pk, "") == [(row.pk, row.username, "100 %", "it's 50 %")]
    connection.close()  # what it believes to have prepared goes with it


@pytest.mark.django_db(transaction=True)
def test_a_new_connection_prepares_anew(people: PreparedStatement) -> None:
    row = UserFactory()
    for _ in range(2):
        assert people.fetch(row.pk, "")[0][0] == row.pk
        connection.close()
    assert PreparedStatement.keeps_plans


def kill_connection() -> None:
    """End this thread's connection as a restarted server does, between two requests."""
    connection.close_if_unusable_or_obsolete()  # what Django does where a request begins
    process = connection.connection.info.backend_pid
    with connection.copy().cursor() as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [process])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("was_asked", [True, False])
def test_a_connection_that_was_killed_costs_nothing_but_a_new_one(
    was_asked: bool, people: PreparedStatement
) -> None:
    row = UserFactory()
    people.fetch(row.pk, "")
    connection.close()
    connection.connect()
    if was_asked:
        people.fetch(row.pk, "")
    kill_connection()
    assert people.fetch(row.pk, "")[0][0] == row.pk
    assert PreparedStatement.keeps_plans
    assert len(list_prepared()) == 1


@pytest.fixture
def changing_table() -> Iterator[PreparedStatement]:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE changing AS SELECT 1::int AS id, 'one'::varchar(9) AS name")
    yield PreparedStatement("SELECT name FROM changing WHERE id = %s", [KEY], (KEY,))
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE changing")


@pytest.mark.django_db(transaction=True)
def test_a_column_that_changes_its_type_is_prepared_again(
    changing_table: PreparedStatement,
) -> None:
    """As a migration does while processes of before still answer."""
    for kind in ("text", "varchar(20)"):
        assert changing_table.fetch(1) == [("one",)]
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE changing ALTER COLUMN name TYPE {kind}")
        assert changing_table.fetch(1) == [("one",)]
        assert PreparedStatement.keeps_plans
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE changing ADD COLUMN other text")
    with atomic():
        assert changing_table.fetch(1) == [("one",)]


@pytest.mark.django_db(transaction=True)
def test_such_a_change_ends_one_transaction_of_a_process(
    changing_table: PreparedStatement,
) -> None:
    with ThreadPoolExecutor(1) as other_thread:

        def fetch() -> list[tuple[object, ...]]:
            with atomic():
                return changing_table.fetch(1)

        def end() -> None:
            connection.close()

        assert fetch() == other_thread.submit(fetch).result() == [("one",)]
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE changing ALTER COLUMN name TYPE text")
        with pytest.raises(DatabaseError, match="cached plan"):
            fetch()
        assert fetch() == other_thread.submit(fetch).result() == [("one",)]
        other_thread.submit(end).result()
    assert PreparedStatement.keeps_plans


@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_is_rolled_back_changes_no_plan(people: PreparedStatement) -> None:
    connection.close()
    with suppress(ZeroDivisionError), atomic():
        people.fetch(1, "")
        raise ZeroDivisionError
    people.fetch(1, "")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE name LIKE 'tare%'"
        )
        assert cursor.fetchall() == [(2, 0)]


@pytest.mark.django_db
@pytest.mark.parametrize("key", [2**31, 2**63, -(2**63) - 1, 10**400])
def test_a_number_that_no_column_can_hold_is_of_no_row(key: int, people: PreparedStatement) -> None:
    assert people.fetch(key, "") == []


@pytest.mark.django_db
@pytest.mark.parametrize("text", ["\x01 no text", "%s", "$1", "\\", "x" * 10**6])
def test_a_text_that_no_column_holds_is_of_no_row(text: str, people: PreparedStatement) -> None:
    assert people.fetch(0, text) == []


@pytest.mark.django_db
def test_nothing_equals_none(people: PreparedStatement) -> None:
    assert people.fetch(None, None) == []


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


@pytest.mark.django_db
@pytest.mark.parametrize("page", ["experiments", "studies", "catalogue/images", "operations"])
@pytest.mark.parametrize("is_live", [True, False])
def test_a_page_with_a_number_that_no_column_can_hold_is_not_there(
    page: str, is_live: bool, client: Client
) -> None:
    client.force_login(UserFactory(is_superuser=True), "dashboard.access.logged_in.Backend")
    headers = {"HX-Request": "true"} if is_live else {}
    assert client.get(f"/{page}/{'9' * 30}/", headers=headers).status_code == 404
    assert client.get(f"/credentials/{'9' * 30}/", headers=headers).status_code == 404
